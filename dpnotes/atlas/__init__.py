"""The promises of all papers side by side, in the names that they share: the answer to "which algorithm?".

`choose` ranks them for numbers of one's own, `takeovers` finds exactly where another one becomes the best, and `page`
writes both as one HTML file. The orders and methods come from `dpnotes.theory` and the papers.
"""
