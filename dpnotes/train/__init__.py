"""The training of a network of your own: plan, loop, noise and what is measured; it loads no paper and no sympy."""
