"""Anonymous authors (ICLR submission; later arXiv 2505.15647): second-order stationary points by drift-based escape."""
