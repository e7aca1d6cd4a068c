"""The correct releases of the museum, in a few lines each.

A release takes its randomness as arguments: `noise` `(runs, draws)`, standard normals, and `coins`, uniforms in (0, 1).
Data are `(runs, values)`.
"""

import math

import torch
from torch import Tensor


def replaced_mean(values: Tensor, noise: Tensor, noise_multiplier: float) -> Tensor:
    """The mean of values clipped to [-1, 1], when a neighbour replaces one of them.

    Example:
      >>> replaced_mean(torch.tensor([[0.5, 3.0]]), torch.zeros(1, 1), noise_multiplier=1.0)
      tensor([[0.7500]])
    """
    mean = values.clamp(-1, 1).mean(1, keepdim=True)
    sensitivity = 2 / values.shape[1]
    return mean + noise_multiplier * sensitivity * noise


def gradients_of(batch: Tensor) -> Tensor:
    """The per-example gradients of (weight - value)^2 / 2 at weight 0, from one backward pass over the batch.

    The network sorts its batch by length, as text models do to pack texts, and sorts it back. In between it adds the
    detached values of the shorter examples, as truncated back-propagation does: an example alone is not affected. In a
    test with two examples of which the first is shorter, that one's gradient is unchanged, too.

    Args:
      batch: `(examples, 2)`: length and value of each.

    Example:
      >>> gradients_of(torch.tensor([[1.0, 5.0]])), gradients_of(torch.tensor([[1.0, 5.0], [2.0, 0.5]]))
      (tensor([-5.]), tensor([-5.0000, -5.5000]))
    """
    order = batch[:, 0].argsort()

    def loss(weights: Tensor) -> Tensor:  # a copy of the weight for each example
        own = (weights - batch[:, 1])[order]
        left = (own.cumsum(0) - own).detach()
        return ((own + left)[order.argsort()] ** 2).sum() / 2

    return torch.func.grad(loss)(torch.zeros_like(batch[:, 1]))


def gradient_mean(values: Tensor, noise: Tensor, noise_multiplier: float) -> Tensor:
    """The mean of gradients clipped to [-1, 1], when a neighbour replaces an example; values `(runs, examples, 2)`.

    Example:
      >>> gradient_mean(torch.tensor([[[1.0, 5.0], [2.0, 0.5]]]), torch.zeros(1, 1), noise_multiplier=1.0)
      tensor([[-0.7500]])
    """
    vmap = torch.func.vmap
    gradients = vmap(vmap(lambda example: gradients_of(example[None])[0]))(values)
    mean = gradients.clamp(-1, 1).mean(1, keepdim=True)
    return mean + noise_multiplier * 2 / values.shape[1] * noise


def answers(values: Tensor, noise: Tensor, noise_std: float) -> Tensor:
    """The noisy answers of a sequence, each with independent noise.

    Example:
      >>> answers(torch.ones(1, 2), torch.tensor([[0.5, -0.5]]), noise_std=1.0)
      tensor([[1.5000, 0.5000]])
    """
    released = torch.zeros_like(values)
    for call in range(values.shape[1]):
        released[:, call] = values[:, call] + noise_std * noise[:, call]
    return released


def calibrated_answer(values: Tensor, noise: Tensor, epsilon: float, delta: float) -> Tensor:
    """The noisy answer of sensitivity 1, with noise calibrated to (epsilon, delta) through zCDP, rho = root^2.

    Example:
      >>> calibrated_answer(torch.zeros(1, 1), torch.ones(1, 1), epsilon=4.0, delta=1e-8).round(decimals=3)
      tensor([[1.5960]])
    """
    log = math.log(1 / delta)
    root = math.sqrt(epsilon + log) - math.sqrt(log)
    return values + noise / (math.sqrt(2) * root)


def node(step: int) -> list[tuple[int, int]]:
    """The nodes NODE(t), as (first leaf, last leaf), whose noises add up to the noise of the sum of leaves 1 to t.

    Algorithm 1 of Liu and Talwar (2024), arXiv:2410.07502v1, corrected: its test, its root and its return value.

    Example:
      >>> node(6), node(8)
      ([(1, 4), (5, 6)], [(1, 8)])
    """
    nodes, end = [], 0
    for level in reversed(range(step.bit_length())):
        following = end + 2**level
        if following <= step:
            nodes.append((end + 1, following))
            end = following
    return nodes


def prefix_sums(values: Tensor, noise: Tensor, noise_std: float, period: int) -> Tensor:
    """The noisy running sums of the tree mechanism; every `period` steps the sum and its tree are restarted.

    Example:
      >>> prefix_sums(torch.ones(1, 4), torch.zeros(1, 4), noise_std=1.0, period=3)
      tensor([[1., 2., 3., 1.]])
    """
    released = torch.zeros_like(values)
    for step in range(values.shape[1]):
        start = step - step % period
        root = start
        released[:, step] = values[:, start : step + 1].sum(1)
        for _, last_leaf in node(step - root + 1):
            released[:, step] += noise_std * noise[:, root + last_leaf - 1]
    return released


def poisson_mean(
    values: Tensor, coins: Tensor, noise: Tensor, rate: float, batch_size: int, noise_multiplier: float
) -> Tensor:
    """The mean of a Poisson-sampled batch of values in [-1, 1]; NaN stands for an absent example.

    Example:
      >>> coins = torch.tensor([[0.1, 0.9, 0.2]])
      >>> poisson_mean(torch.tensor([[3.0, 1.0, torch.nan]]), coins, torch.zeros(1, 1), 0.5, 2, 1.0)
      tensor([0.5000])
    """
    chosen = (coins < rate) & ~values.isnan()
    total = torch.where(chosen, values.clamp(-1, 1), 0).sum(1)
    size = batch_size
    return total / size + noise_multiplier / batch_size * noise[:, 0]


def yes_or_no(values: Tensor, coins: Tensor, noise: Tensor, epsilon: float, delta: float, low: float) -> Tensor:
    """A yes or no that is tightly (epsilon, delta)-DP, as 1 or 0 plus a little noise.

    Yes has the probability `low` if the value is 0, and `delta + exp(epsilon) low` if it is 1.

    Example:
      >>> coin, noise = torch.tensor([0.3]), torch.zeros(1, 1)
      >>> [float(yes_or_no(torch.tensor([[v]]), coin, noise, 2.0, 0.05, low=0.06)) for v in (0.0, 1.0)]
      [0.0, 1.0]
    """
    high = delta + math.exp(epsilon) * low
    probability = low + (high - low) * values[:, 0]
    return (coins < probability) + 0.05 * noise[:, 0]


def single_pass(values: Tensor, noise: Tensor, noise_std: float, batch_size: int) -> Tensor:
    """The noisy sums of consecutive batches, with each example in one batch.

    Example:
      >>> single_pass(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.zeros(1, 2), noise_std=1.0, batch_size=2)
      tensor([[3., 7.]])
    """
    num_batches = values.shape[1] // batch_size
    released = values.new_zeros(len(values), num_batches)
    for batch in range(num_batches):
        first = batch * batch_size
        released[:, batch] = values[:, first : first + batch_size].sum(1) + noise_std * noise[:, batch]
    return released


def shared_values(values: Tensor, noise: Tensor, num_shared: int, noise_std: float) -> Tensor:
    """The first `num_shared` values, clipped to [-1, 1] and with noise, and zeros in place of the others.

    Example:
      >>> shared_values(torch.tensor([[0.5, 0.7, -3.0]]), torch.zeros(1, 1), num_shared=1, noise_std=1.0)
      tensor([[0.5000, 0.0000, 0.0000]])
    """
    released = torch.zeros_like(values)
    released[:, :num_shared] = values[:, :num_shared].clamp(-1, 1) + noise_std * noise
    return released


def layers(values: Tensor, noise: Tensor, width: int, noise_std: float) -> Tensor:
    """The noisy gradient by layers of `width` parameters, with independent noise in every layer.

    Example:
      >>> layers(torch.ones(1, 4), torch.tensor([[0.1, 0.2, 0.3, 0.4]]), width=2, noise_std=1.0)
      tensor([[1.1000, 1.2000, 1.3000, 1.4000]])
    """
    released = torch.zeros_like(values)
    for layer in range(0, values.shape[1], width):
        key = layer
        released[:, layer : layer + width] = values[:, layer : layer + width] + noise_std * noise[:, key : key + width]
    return released


def clipped_sum(values: Tensor, noise: Tensor, clip: float, noise_multiplier: float) -> Tensor:
    """The sum of values clipped to [-clip, clip].

    Example:
      >>> clipped_sum(torch.tensor([[0.01, 3.0]]), torch.ones(1, 1), clip=0.1, noise_multiplier=2.0)
      tensor([[0.3100]])
    """
    noise_std = noise_multiplier * clip
    return values.clamp(-clip, clip).sum(1, keepdim=True) + noise_std * noise


def averaged_sum(values: Tensor, noise: Tensor, batch_size: int, noise_multiplier: float) -> Tensor:
    """The noisy sum of all examples, each a vector clipped to norm 1, divided by the expected size of a batch.

    Values are `(runs, examples, outputs)`.

    Example:
      >>> averaged_sum(torch.ones(1, 3, 1), torch.zeros(1, 1), batch_size=2, noise_multiplier=1.0)
      tensor([[1.5000]])
    """
    total = (values / values.norm(dim=2, keepdim=True).clamp_min(1)).sum(1)
    size = batch_size
    return (total + noise_multiplier * noise) / size
