"""Anonymous authors (ICLR submission; later arXiv 2505.15647): second-order points by the drift of the model."""
