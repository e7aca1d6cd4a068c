"""Exercises of the notebooks: question, hints and check, a module for each; answers are in `dpnotes.solutions`.

A checker compares with the library on inputs of its own, or tests properties that only a right answer has. It says the
mistake, and prints no value of the answer.
"""
