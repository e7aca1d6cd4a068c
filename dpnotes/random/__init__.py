"""Random numbers: streams of seeded and secret draws, and the kernels that draw them."""
