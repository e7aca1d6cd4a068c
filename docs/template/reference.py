"""STORM with private releases as a loop of one run: read it before the oracle."""


def recursive_momentum(gradients, noise, x, a, step_size, gradient_bound, smoothness, noise_multiplier, batch_size):
    """Direction of each step; `gradients(x, t)` are `(batch_size, dim)`, of examples that no other batch has."""
    last, direction, weight, t = x, 0 * x, 1.0, 0
    while True:
        change = smoothness * float((x - last).norm())
        private_now = gradients(x, t).renorm(2, 0, gradient_bound)  # clipped row by row
        private_moved = (gradients(x, t) - gradients(last, t)).renorm(2, 0, change)
        private_mean = (weight * private_now + (1 - weight) * private_moved).mean(0)
        noise_std = noise_multiplier * 2 * (weight * gradient_bound + (1 - weight) * change) / batch_size
        released = private_mean + noise_std * noise(t)
        direction = (1 - weight) * direction + released
        yield direction
        last, x, weight, t = x, x - step_size * direction, a, t + 1
