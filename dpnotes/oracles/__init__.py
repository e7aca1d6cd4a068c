"""Where a gradient estimate comes from."""
