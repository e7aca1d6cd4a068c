"""STORM with private releases as a loop of one run: read it before the oracle."""


def storm(gradients, noise, x, a, step_size, gradient_bound, smoothness, noise_multiplier):
    """Direction of each step; `gradients(x, t)` are `(batch, dim)`, of examples that no other batch has."""
    last, direction, weight, t = x, 0 * x, 1.0, 0
    while True:
        change = smoothness * float((x - last).norm())
        now, moved = gradients(x, t).renorm(2, 0, gradient_bound), gradients(x, t) - gradients(last, t)  # row by row
        noise_std = noise_multiplier * 2 * (weight * gradient_bound + (1 - weight) * change) / len(now)
        direction = (1 - weight) * (direction + moved.renorm(2, 0, change).mean(0)) + weight * now.mean(0)
        yield (direction := direction + noise_std * noise(t))
        last, x, weight, t = x, x - step_size * direction, a, t + 1
