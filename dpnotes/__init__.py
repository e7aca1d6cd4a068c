"""Differentially private non-convex optimisation, from theorem to experiment.

Importing this package loads nothing heavy: every part is imported where it is used. Start reading at
`dpnotes.core`, the nouns that all parts speak.
"""

__version__ = "0.1.0"
