"""The tests, in the folders of the package; what stands in none of them is about the whole."""
