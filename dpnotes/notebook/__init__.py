"""What the notebooks show and ask: `widgets`, `plots`, `teaching`, and `write`, the only writer of notebooks."""
