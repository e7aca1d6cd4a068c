"""The parts of the notebooks: `widgets`, `plots`, `teaching`; `write`, the only writer; `copies`, `handout`."""
