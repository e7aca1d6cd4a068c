"""The museum's exhibits, with the wrong line of each."""

import math
from functools import lru_cache

import torch
from torch import Tensor

from dpnotes.core import Guarantee, Relation
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.museum import releases
from dpnotes.privacy.museum.exhibit import Exhibit, Setting


def gaussian_claim(mu: float, delta: float, relation: Relation) -> Guarantee:
    """The guarantee of a Gaussian release whose sensitivity is `mu` standard deviations of its noise.

    >>> round(gaussian_claim(1.0, 1e-5, Relation.ZERO_OUT).epsilon, 2)
    4.38
    """
    return Guarantee(rho_to_epsilon(mu**2 / 2, delta, "exact"), delta, relation, "exact Gaussian")


def _poisson(rate: float, noise_multiplier: float, delta: float) -> Guarantee:
    import dp_accounting
    from dp_accounting import pld

    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier)))
    return Guarantee(accountant.get_epsilon(delta), delta, Relation.ADD_OR_REMOVE, "PLD, Poisson-sampled Gaussian")


def numbers(*values: float) -> Tensor:
    """A data set of numbers, float64.

    >>> numbers(1, 2)
    tensor([1., 2.], dtype=torch.float64)
    """
    return torch.tensor(values, dtype=torch.float64)


def _increments(length: int, step: int) -> Tensor:
    """A tensor of zeros with a 1 at `step`, counted from 0: the increment that differs between the neighbours."""
    return torch.eye(length, dtype=torch.float64)[step]


def _batches_of_equals(others: int, rate: float) -> tuple[Tensor, Tensor]:
    """The coins' outcomes and probabilities, up to the order of the `others`, which are equal unlike the last one."""
    from scipy.stats import binom

    coins, weights = [], []
    for number in range(others + 1):
        for last in (True, False):
            chosen = torch.arange(others + 1) < number
            chosen[-1] = last
            coins.append(torch.where(chosen, rate / 2, (1 + rate) / 2))
            weights.append(binom.pmf(number, others, rate) * (rate if last else 1 - rate))
    return torch.stack(coins), numbers(*weights)


def _cuts(*places: float) -> tuple[Tensor, Tensor]:
    """The outcomes and probabilities of a uniform coin of which only the interval between sorted `places` matters."""
    ends = numbers(0, *places, 1)
    return (ends[1:] + ends[:-1]) / 2, ends[1:] - ends[:-1]


def _sentences(shortest: float) -> Tensor:
    """The lengths and values of 56 examples: all values are 1/2 except that of the shortest, which comes last."""
    lengths = torch.arange(56, dtype=torch.float64).roll(-1) + 1
    return torch.stack([lengths, torch.where(lengths == 1, shortest, 0.5)], 1)


@lru_cache
def exhibits() -> tuple[Exhibit, ...]:
    """The exhibits of the collection.

    Example:
      >>> for exhibit in exhibits()[:2]:
      ...     print(f"{exhibit.name}: {exhibit.instead}")
      sensitivity halved: sensitivity = 1 / values.shape[1]
      noise reused: released[:, call] = values[:, call] + noise_std * noise[:, 0]
    """
    return (*_noise(), *_trees(), *_sampling(), *_bounds())


def _noise() -> tuple[Exhibit, ...]:
    """The exhibits of noise that is too small or drawn twice."""
    return (
        Exhibit(
            name="sensitivity halved",
            mistake="Replacing an example moves a clipped mean twice as far as the noise is for.",
            seen="Liu and Talwar (2024), arXiv:2410.07502v1, proof of Lemma 3.7; common",
            correct=releases.replaced_mean,
            line="sensitivity = 2 / values.shape[1]",
            instead="sensitivity = 1 / values.shape[1]",
            claim=gaussian_claim(1.0, 1e-5, Relation.REPLACE_ONE),
            setting=Setting(numbers(-1, 0, 0, 0), numbers(1, 0, 0, 0), 1, {"noise_multiplier": 1.0}),
        ),
        Exhibit(
            name="noise reused",
            mistake="All calls draw the same noise, so the differences of the answers have none.",
            seen="a generator seeded anew at each call",
            correct=releases.answers,
            line="released[:, call] = values[:, call] + noise_std * noise[:, call]",
            instead="released[:, call] = values[:, call] + noise_std * noise[:, 0]",
            claim=gaussian_claim(1.0, 1e-5, Relation.ZERO_OUT),
            setting=Setting(numbers(0, 0, 0, 0), numbers(1, -1, 1, -1), 4, {"noise_std": 2.0}),
        ),
        Exhibit(
            name="wrong root of the zCDP formula",
            mistake="rho + 2 sqrt(rho ln(1/delta)) = epsilon has one root that is private; the other sign is printed.",
            seen="Hong, Wang and Zhou (2022), doi:10.1145/3531146.3533070, Lemma C.4 as printed",
            correct=releases.calibrated_answer,
            line="root = math.sqrt(epsilon + log) - math.sqrt(log)",
            instead="root = math.sqrt(epsilon + log) + math.sqrt(log)",
            claim=Guarantee(4.0, 1e-8, Relation.ZERO_OUT, "zCDP, classic conversion"),
            setting=Setting(numbers(0), numbers(1), 1, {"epsilon": 4.0, "delta": 1e-8}),
        ),
    )


def _trees() -> tuple[Exhibit, ...]:
    """The exhibits of trees as they are printed or used."""
    tree = {"noise_std": 2.0, "period": 16}
    tree_claim = gaussian_claim(math.sqrt(5) / 2, 1e-5, Relation.ZERO_OUT)  # 16 leaves: a leaf is in 5 nodes
    return (
        Exhibit(
            name="printed NODE: no node is ever taken",
            mistake="The test k' <= k is never true, so the tree adds no noise at all.",
            seen="Liu and Talwar (2024), arXiv:2410.07502v1, Algorithm 1, line 14; Kornowski et al. (2024)",
            correct=releases.prefix_sums,
            called=releases.node,
            line="if following <= step:",
            instead="if following <= end:",
            claim=tree_claim,
            setting=Setting(numbers(*[0] * 16), _increments(16, 0), 16, tree),
        ),
        Exhibit(
            name="printed NODE: the root is missing",
            mistake="One level too few: the sums of 2^k and 2^k - 1 leaves have the same noise, their difference none.",
            seen="Liu and Talwar (2024), arXiv:2410.07502v1, Algorithm 1, lines 2 and 12",
            correct=releases.prefix_sums,
            called=releases.node,
            line="for level in reversed(range(step.bit_length())):",
            instead="for level in reversed(range((step - 1).bit_length())):",
            claim=tree_claim,
            setting=Setting(numbers(*[0] * 16), _increments(16, 7), 16, tree),
        ),
        Exhibit(
            name="printed NODE: steps counted from 0",
            mistake="The tree's first leaf is 1, and node(0) is empty: the first answer is released without noise.",
            seen="Liu and Talwar (2024), arXiv:2410.07502v1, Algorithm 2; Kornowski et al. (2024), Algorithms 3 and 5",
            correct=releases.prefix_sums,
            line="for _, last_leaf in node(step - root + 1):",
            instead="for _, last_leaf in node(step - root):",
            claim=tree_claim,
            setting=Setting(numbers(*[0] * 16), _increments(16, 0), 16, tree),
        ),
        Exhibit(
            name="tree not restarted",
            mistake="The sum starts afresh and its tree does not: the example enters the sum and leaves it again.",
            seen="Liu and Talwar (2024), arXiv:2410.07502v1, Algorithm 2 with Theorem 2.2",
            correct=releases.prefix_sums,
            line="root = start",
            instead="root = 0",
            claim=gaussian_claim(1.0, 1e-3, Relation.ZERO_OUT),  # 8 leaves: 4 nodes at a standard deviation of 2
            setting=Setting(numbers(*[0] * 24), _increments(24, 8), 24, {"noise_std": 2.0, "period": 8}),
        ),
    )


def _sampling() -> tuple[Exhibit, ...]:
    """The exhibits of sampling and its accountant."""
    rate, others = 0.25, 15
    batch = {"rate": rate, "batch_size": 4, "noise_multiplier": 1.0}
    absent, present = numbers(*[-1] * others, math.nan), numbers(*[-1] * others, 1)
    return (
        Exhibit(
            name="batch divided by its realised size",
            mistake="How many were sampled is not public, and in a small batch one example counts for more.",
            seen="implementations that average over the batch they got",
            correct=releases.poisson_mean,
            line="size = batch_size",
            instead="size = chosen.sum(1).clamp_min(1)",
            claim=_poisson(rate, 1.0, 1e-3),
            setting=Setting(absent, present, 1, batch, _batches_of_equals(others, rate)),
        ),
        Exhibit(
            name="sampling without its accountant",
            mistake="The accountant counts on amplification by sampling, and the code takes every example.",
            seen="implementations that iterate over fixed batches",
            correct=releases.poisson_mean,
            line="chosen = (coins < rate) & ~values.isnan()",
            instead="chosen = ~values.isnan()",
            claim=_poisson(0.1, 1.0, 1e-5),
            setting=Setting(
                numbers(math.nan), numbers(1), 1, batch | {"rate": 0.1, "batch_size": 1}, _batches_of_equals(0, 0.1)
            ),
        ),
        Exhibit(
            name="accounting without its sampling",
            mistake="The accountant counts on a fresh batch a release, and the place in the data is not moved on.",
            seen="parallel composition claimed for data that are used again",
            correct=releases.single_pass,
            line="first = batch * batch_size",
            instead="first = 0",
            claim=gaussian_claim(1.0, 1e-5, Relation.ZERO_OUT),
            setting=Setting(_increments(8, 0) * 0, _increments(8, 0), 8, {"noise_std": 1.0, "batch_size": 1}),
        ),
    )


def _bounds() -> tuple[Exhibit, ...]:
    """The exhibits of bounds and failures that are taken for granted."""
    failure, low = 0.05, 0.06
    high = failure + math.exp(2.0) * low
    coins = _cuts(low - failure, low, high, high + failure)
    return (
        Exhibit(
            name="bound measured and not enforced",
            mistake="No gradient of these data is longer than C, so nothing is clipped; a neighbour has a longer one.",
            seen="Avdiukhin et al. (2024), arXiv:2410.06878, Section 4, where C = 2.5 is found empirically",
            correct=releases.replaced_mean,
            line="mean = values.clamp(-1, 1).mean(1, keepdim=True)",
            instead="mean = values.mean(1, keepdim=True)",
            claim=gaussian_claim(1.0, 1e-5, Relation.REPLACE_ONE),
            setting=Setting(numbers(-1, 0, 0, 0), numbers(3, 0, 0, 0), 1, {"noise_multiplier": 1.0}),
        ),
        Exhibit(
            name="examples sorted together",
            mistake="One backward pass over a batch that the network sorts: the shortest example moves the gradients "
            "of all others. Each is clipped, and yet their mean moves as many times too far as there are examples.",
            seen="an earlier version of this library, which compared two examples of a batch, once",
            correct=releases.gradient_mean,
            line="gradients = vmap(vmap(lambda example: gradients_of(example[None])[0]))(values)",
            instead="gradients = vmap(gradients_of)(values)",
            claim=gaussian_claim(1.0, 1e-5, Relation.REPLACE_ONE),
            setting=Setting(_sentences(1e3), _sentences(-1e3), 1, {"noise_multiplier": 1.0}),
        ),
        Exhibit(
            name="failures of two data sets counted once",
            mistake="Without clipping, the answer is another one with probability delta on either data set. Counted: 2 "
            "delta; but the neighbour's failure weighs e^epsilon times as much.",
            seen="Avdiukhin et al. (2024), arXiv:2410.06878, proof of Theorem 3.3",
            correct=releases.yes_or_no,
            line="probability = low + (high - low) * values[:, 0]",
            instead="probability = low + (high - low) * values[:, 0] + delta * (2 * values[:, 0] - 1)",
            claim=Guarantee(2.0, 2 * failure, Relation.REPLACE_ONE, "(epsilon, 2 delta), Theorem 3.3 as printed"),
            setting=Setting(numbers(0), numbers(1), 1, {"epsilon": 2.0, "delta": failure, "low": low}, coins),
        ),
    )
