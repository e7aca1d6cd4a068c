"""SPIDER's releases as a reader would write them, correct: what the audit attacks, with one line replaced.

A release takes its data and its noise as arguments: `curvatures` `(runs, examples)`, the numbers z in [-1, 1] of losses
`z x^2 / 2 + x`, and `noise` `(runs, draws)`, standard normals. The points are public numbers, since what was released
before fixes them.
"""

import torch
from torch import Tensor


def one_pass(curvatures: Tensor, noise: Tensor, noise_multiplier: float, batch_size: int) -> Tensor:
    """Noisy gradients at x = 1 of batches that share no example, one for each draw while there are examples.

    Example:
      >>> one_pass(torch.tensor([[1.0, 0.0, 0.5, 0.5]]), torch.zeros(1, 3), noise_multiplier=1.0, batch_size=2)
      tensor([[1.5000, 1.5000]])
    """
    total, released = curvatures.shape[1], []
    for call in range(noise.shape[1]):
        places = torch.arange(call * batch_size, (call + 1) * batch_size)
        if int(places[-1]) >= total:
            break
        mean = 1 + curvatures[:, places % total].mean(1)
        released.append(mean + noise_multiplier * 2 / batch_size * noise[:, call])
    return torch.stack(released, 1)


def differences(
    curvatures: Tensor, noise: Tensor, noise_multiplier: float, batch_size: int, step: float, num_steps: int
) -> Tensor:
    """SPIDER's running gradients over an attempt of equal steps from 0, and back at 0 where the next one begins.

    Algorithm 2 of drift escape with M = 1: each difference is the mean over a batch of its own, with
    noise in proportion to the move. The gradient at 0 is 1 for all examples.

    Example:
      >>> z = torch.tensor([[1.0, 0.5, -1.0]])
      >>> differences(z, torch.zeros(1, 3), noise_multiplier=1.0, batch_size=1, step=0.5, num_steps=2)
      tensor([[1.5000, 1.7500, 2.7500]])
    """
    points = [step * number for number in range(num_steps + 1)] + [0.0]
    gradient, released = torch.ones_like(curvatures[:, 0]), []
    for call in range(num_steps + 1):
        batch = curvatures[:, call * batch_size : (call + 1) * batch_size]
        move = abs(points[call + 1] - points[call])
        difference = batch.mean(1) * (points[call + 1] - points[call])
        gradient = gradient + difference + noise_multiplier * 2 * move / batch_size * noise[:, call]
        released.append(gradient)
    return torch.stack(released, 1)
