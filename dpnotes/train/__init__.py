"""The private training of your own network: plan, loop, noise and measurements; it loads no paper and no sympy."""
