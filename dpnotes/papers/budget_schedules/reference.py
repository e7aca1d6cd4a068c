"""Hong, Wang and Zhou (2022), FAccT, doi:10.1145/3531146.3533070: the algorithm for one run, in its plainest form.

Read this file first. `algorithms.py` implements the same algorithm for many runs at once, with guarantees and refusals;
`tests/papers/test_reference.py` checks that both give the same results. Values whose names begin with `private_` are
known to the data holder alone; every other value is released, given, or computed from such values. A line number
in `printed` selects the paper's version of that line where ours differs.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Step(NamedTuple):
    """The result of step t."""

    t: int  # number of the step, from 1
    private_mean: Tensor  # (D,), nabla_t: the average of the gradients
    g: Tensor  # (D,), released
    m: Tensor  # (D,), m_{t+1}
    x: Tensor  # (D,), theta_{t+1}
    paid: float  # rho_t, in units of R: twice the zCDP, where an example is put to zero
    left: float  # R_{t+1}, in units of R


def clipped(private_rows: Tensor, longest: float) -> Tensor:
    """Scale down the vectors `(N, D)` that are longer than `longest`.

    >>> clipped(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    return private_rows * (longest / private_rows.norm(dim=1, keepdim=True).clamp_min(longest))


def private_gradient_descent(gradients, x, sigmas, R, G, eta, noise, beta=0.0, printed=frozenset()):
    """Algorithm 1 "Privatizing Gradients" in the loop of equation (1).

    The budget is the paper's: it charges for a mean that moves by G / N, as it does where an example of N is put to
    zero. Where one is replaced, as in the paper's Section 3, it moves by 2 G / N, and four times as much is spent.

    Args:
      gradients: from x to `(N, D)`, one row per example, in units of loss over length.
      x: `(D,)`, theta_1, chosen without looking at the data.
      sigmas: sigma_1 ... sigma_T, noise multipliers.
      R: budget, twice the zCDP.
      G: clipping norm of the gradients, in units of loss over length.
      eta: step size, in units of length squared over loss.
      noise: from t to nu_t ~ N(0, I_D).
      beta: momentum, in [0, 1); 0 is gradient descent.
      printed: {1}: gradients are not clipped but assumed to be at most G long; {2}: < in place of <=.

    Yields:
      A `Step` each time. The generator's return value is the reason it ended, and theta_{T+1}.

    >>> data, draws = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.5, -0.5], [1.0, 0.0]])
    >>> descent = (lambda x: x - data, torch.zeros(2), [2, 2], 0.5, 1, 0.1, lambda t: draws[t - 1])
    >>> steps = private_gradient_descent(*descent)
    >>> [(step.t, step.left, [round(float(value), 3) for value in step.g]) for step in steps]
    [(1, 0.25, [0.0, -1.0]), (2, 0.0, [0.502, -0.4])]
    """
    left, m = R, torch.zeros_like(x)
    for t, sigma in enumerate(sigmas, start=1):
        private_rows = gradients(x) if 1 in printed else clipped(gradients(x), G)  # 1: clip,
        private_mean = private_rows.mean(dim=0)  # 1: average the gradients,
        rho = 1 / sigma**2  # 1: and ask for rho_t of the budget
        affordable = rho < left if 2 in printed else rho <= left + 1e-9 * R  # 2: a sum of costs is rounded
        if not affordable:
            return "BUDGET_EXHAUSTED", x  # 7, 8: terminate, before anything is drawn
        left = left - rho  # 3
        g = private_mean + G * sigma * noise(t) / len(private_rows)  # 4: the one line that adds noise
        m = (beta * (1 - beta ** (t - 1)) * m + (1 - beta) * g) / (1 - beta**t)  # 5: equation (3); m = g if beta = 0
        x = x - eta * m  # 6, equation (1)
        yield Step(t, private_mean, g, m, x, rho, left)
    return "FINISHED", x
