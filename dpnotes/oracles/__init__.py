"""The oracles, which estimate gradients privately, and their sources of examples."""
