"""What the notebooks show and ask: `widgets`, `plots`, `teaching`; `write`, the only writer; `copies`, `handout`."""
