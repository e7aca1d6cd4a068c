"""A paper that is checked with dpnotes: its letters, claims, reference, algorithm and experiments."""
