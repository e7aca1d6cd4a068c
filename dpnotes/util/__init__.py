"""Leaves that every room may use: arguments, files, states, numbers of runs and processes."""
