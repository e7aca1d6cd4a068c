"""The optimisation methods, which move the iterate, and the loop that runs them."""
