"""Random numbers: seeded and secret streams, and the kernels that generate them."""
