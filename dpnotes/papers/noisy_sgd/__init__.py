"""Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024): noisy SGD without clipping escapes saddle points privately."""
