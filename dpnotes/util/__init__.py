"""Utilities that every part may import: argument checks, files, states, per-run numbers and processes."""
