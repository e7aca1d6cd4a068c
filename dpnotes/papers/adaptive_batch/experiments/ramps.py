"""The hard instance, another one in every run, and stochastic Spider on it at the speed of a few sines.

On a few coordinates a step of an oracle is all overhead. A draw is a function of its key, purpose and call, so the
draws of many steps can be made at once and are the same; what remains of a step are some thirty operations on small
arrays, which numpy does in a microsecond each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpnotes.guarantees import Basis
from dpnotes.oracles.samples import PURPOSE, Batch, VirtualBatch
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.tree import Tree
from dpnotes.problems.separable import Cosine, Separable, Sine, hard_instance
from dpnotes.random.streams import Streams

Array = NDArray[np.float64]
_LEVELS = 40  # of a tree, more than any run has steps for
# As the oracle's: the noise is that much more than its multiplier says.
_MARGIN = 2.0**-40


@dataclass(frozen=True, eq=False)
class Ramps:
    """`problems.separable.hard_instance`, with an accuracy and an amplitude of its own in every run.

    Args:
      accuracy: gamma, `(runs,)` float64.
      amplitude: B, `(runs,)` float64, above `8 accuracy`.
      dim: at least 3.
      quiet_ridge: whether the examples agree on the ridge: no noise of theirs leads away from it.

    Example:
      >>> ramps = Ramps(torch.tensor([0.01, 0.1], dtype=torch.float64), torch.ones(2, dtype=torch.float64), 3)
      >>> torch.linalg.vector_norm(ramps.gradient(ramps.start), dim=1), ramps.smallest_eigenvalue(ramps.start)
      (tensor([0.0200, 0.2000], dtype=torch.float64), tensor([-0.2000, -0.6325], dtype=torch.float64))
    """

    accuracy: Tensor
    amplitude: Tensor
    dim: int
    quiet_ridge: bool = False

    @property
    def _instances(self) -> list[tuple[Separable, Tensor]]:
        pairs = zip(self.accuracy.tolist(), self.amplitude.tolist(), strict=True)
        return [hard_instance(accuracy, self.dim, amplitude) for accuracy, amplitude in pairs]

    @property
    def hessian_lipschitz(self) -> Tensor:
        """rho, `(runs,)`."""
        found = [landscape.constants["hessian_lipschitz"].value for landscape, _ in self._instances]
        return torch.tensor(found, dtype=torch.float64)

    @property
    def start(self) -> Tensor:
        """`(runs, dim)`."""
        return torch.stack([start for _, start in self._instances])

    @property
    def scales(self) -> tuple[Tensor, Tensor]:
        """The factors before and after the sine or tanh of each coordinate, `(runs, dim)`."""
        before = torch.ones(len(self.accuracy), self.dim, dtype=torch.float64)
        after = before.clone()
        before[:, 0], after[:, 0] = 4 * self.accuracy / self.amplitude, -4 * self.accuracy  # k, and -B k
        after[:, 1] = -2 * self.accuracy.sqrt()
        return before, after

    def gradient(self, x: Tensor) -> Tensor:
        """`(..., runs, dim)`."""
        before, after = self.scales
        inner = x * before
        return after * torch.cat([inner[..., :2].sin(), inner[..., 2:].tanh()], -1)

    def smallest_eigenvalue(self, x: Tensor) -> Tensor:
        """`(..., runs)`."""
        before, after = self.scales
        inner = x * before
        slopes = torch.cat([inner[..., :2].cos(), 1 - inner[..., 2:].tanh().square()], -1)
        return (after * before * slopes).amin(-1)

    @property
    def least_eigenvalue(self) -> Tensor:
        """A lower bound of the smallest eigenvalue at a gamma-SOSP, `(runs,)`; an instance is made for every run."""
        return -(self.hessian_lipschitz * self.accuracy).sqrt()

    def take(self, index: Tensor) -> "Ramps":
        """The instances of some of the runs."""
        return replace(self, accuracy=self.accuracy[index], amplitude=self.amplitude[index])

    @property
    def features(self) -> Separable:
        """`h_k = sin(x_k) / sqrt(dim)`: the examples' gradients differ by about 1, and by as much as the points do.

        On a quiet ridge `h_2` is a cosine, whose slope is 0 there.
        """
        sine = Sine(self.dim**-0.5)
        if not self.quiet_ridge:
            return Separable([(sine, self.dim)])
        return Separable([(sine, 1), (Cosine(self.dim**-0.5), 1), (sine, self.dim - 2)])


@dataclass(frozen=True, eq=False)
class _RampBatch:
    """A batch a run of examples `F(x) + sum_k z_k h_k(x_k)`, by the mean of their z, `(runs, dim)`."""

    ramps: Ramps
    mean: Tensor

    def gradient(self, x: Tensor) -> Tensor:
        return self.ramps.gradient(x) + self.mean * self.ramps.features.gradient(x)


@dataclass(frozen=True, eq=False)
class RampSamples:
    """Fresh examples of `Ramps`, so many a run that no run uses them up; `oracles.samples.Samples`."""

    ramps: Ramps
    total: Tensor = field(default_factory=partial(torch.tensor, 10**18), init=False)
    basis: Basis = field(default="assumed", init=False)

    def batch(self, start: Tensor, count: Tensor, streams: Streams, call: Tensor) -> Batch:
        """A batch of its own for every call, of a landscape of its own in every run."""
        size = count.double().clamp_min(1)
        mean = streams.normal(PURPOSE, call, self.ramps.dim) / size.sqrt()[:, None]
        return VirtualBatch(_RampBatch(self.ramps, mean))

    def take(self, index: Tensor) -> "RampSamples":
        """The source of some of the runs."""
        return RampSamples(self.ramps.take(index))


@dataclass(frozen=True, eq=False)
class RampParameters:
    """The parameters of each run, `(runs,)` float64; gradient bound and smoothness are 1.

    Args:
      step_size: eta.
      saddle: the threshold below which the gradient estimate is perturbed.
      window: Gamma, whole numbers of steps.
      perturbation: zeta.
      kappa: of the drift.
      first: examples of a fresh gradient.
      least: of a difference, at least.
      per_gradient: of a difference, over the last gradient estimate.
      noise_multiplier: 0 with `mechanism="none"`.
      term_sensitivity: s of a tree; infinite with others.
      power: of a move in the drift, 1 (adaptive batches) or 2.
      mechanism: "tree", "gaussian" or "none".
    """

    step_size: Array
    saddle: Array
    window: Array
    perturbation: Array
    kappa: Array
    first: Array
    least: Array
    per_gradient: Array
    noise_multiplier: Array
    term_sensitivity: Array
    power: int
    mechanism: str

    def take(self, index: NDArray[Any]) -> "RampParameters":
        """The parameters of some of the runs."""
        return replace(self, **{name: value[index] for name, value in vars(self).items() if np.ndim(value)})


@dataclass(frozen=True, eq=False)
class Block:
    """Iterates `first`, `first + 1`, ... of the runs that still go on; arrays are `(iterates, going, ...)`.

    Args:
      first: the number of the first of them, from 0.
      going: indices of the runs, `(going,)`.
      points: iterates.
      gradients: of F there.
      estimates: what the oracle said there.
      used: examples used before it was asked.
      fresh: whether it answered with a fresh gradient.
      perturbed: whether the step was perturbed.
    """

    first: int
    going: NDArray[np.int64]
    points: Array
    gradients: Array
    estimates: Array
    used: Array
    fresh: NDArray[np.bool_]
    perturbed: NDArray[np.bool_]


def _levels(leaf: Any) -> Any:
    """The level of the block that ends at a leaf, an array of whole numbers; -1 for leaf 0."""
    return np.frexp((leaf & -leaf).astype(np.float64))[1] - 1


def _drawn(p: RampParameters, streams: Streams, step: int, shape: tuple[int, int, int]) -> tuple[Array, Array, bool]:
    """The draws of a block: means of samples, noise (none without a mechanism), and whether all batches are least.

    If all differences have batches of one size, both are scaled here; otherwise the walk divides them step by step.
    """
    length, count, dim = shape
    rows = streams.take(torch.arange(count).repeat(length))
    calls = torch.arange(step, step + length).repeat_interleave(count)
    means = rows.normal("samples", calls, dim).numpy().reshape(shape)
    scale = p.noise_multiplier * (1 + _MARGIN)
    least = np.ceil(p.least)
    even = p.mechanism != "tree" and not p.per_gradient.any()
    if even:
        means /= np.sqrt(least)[:, None]
    noise = np.zeros(0)
    if p.mechanism == "tree":
        noise = rows.normal(Tree(1).purpose, calls, dim).numpy().reshape(shape)
        noise *= (scale * p.term_sensitivity)[:, None]
    elif p.mechanism == "gaussian":
        noise = rows.normal(Gaussian().purpose, calls, dim).numpy().reshape(shape)
        noise *= (2 * scale / least if even else 2 * scale)[:, None]
    return means, noise, even


def _bent(x: Array) -> Array:
    """The sine of the first two coordinates and tanh of the others, in place."""
    np.sin(x[:, :2], out=x[:, :2])
    np.tanh(x[:, 2:], out=x[:, 2:])
    return x


def _direction(
    p: RampParameters, streams: Streams, step: int, estimate: Array, allowed: Array, perturbed: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """The directions of a step and their squared lengths: small estimates are perturbed once it is `allowed` again."""
    square = np.einsum("ij,ij->i", estimate, estimate)
    small = square <= p.saddle**2
    if not small.any() or not (small := small & (allowed <= step)).any():
        return estimate, square
    perturbed[:] = small
    allowed[small] = step + 1 + p.window[small]
    dim = estimate.shape[1]
    index = torch.as_tensor(small.nonzero()[0])
    kicks = streams.take(index).normal("spider descent: saddle perturbation", step, dim).numpy()
    direction = estimate.copy()
    direction[small] += (p.perturbation[small] / dim**0.5)[:, None] * kicks
    return direction, np.einsum("ij,ij->i", direction, direction)


def walk(
    ramps: Ramps,
    parameters: RampParameters,
    streams: Streams,
    max_steps: int,
    ended: Callable[[Block], NDArray[np.bool_]],
    numbers_at_once: int = 2**18,
) -> None:
    """`methods.spider_descent.StochasticSpider` on `oracles.spider.Spider`, in blocks of steps.

    It is here because the slopes would take some twenty times as long through `stochastic_spider` (the quick ones 46
    minutes in place of 2, when they were six laws), and `test_a_cell_of_the_slopes_is_what_the_front_door_finds`
    holds it to that door: the draws, and so the iterates up to rounding, are the same.

    Args:
      ramps: the instances.
      parameters: of each run.
      streams: one key a run.
      max_steps: no run takes more.
      ended: is given each block, and says which of the runs in it, `(going,)`, need not go on.
      numbers_at_once: drawn in one go; memory is some ten times as many float64.
    """
    p, going = parameters, np.arange(len(streams))
    dim, slope = ramps.dim, ramps.dim**-0.5
    before, after = (scale.numpy() for scale in ramps.scales)
    x = ramps.start.numpy().copy()
    field, features_here, estimate, tree = (np.zeros_like(x) for _ in range(4))
    prefixes = np.zeros((_LEVELS + 1, len(x), dim))  # the tree's noise up to the last block of a level; 0 at -1
    move, used, allowed = np.zeros(len(x)), np.zeros(len(x)), np.ones(len(x))
    drift = np.full(len(x), np.inf)  # so that the first estimate is a fresh gradient
    leaf: Any = np.zeros(len(x), dtype=np.int64)
    step = 0
    while len(going) and step < max_steps:
        count = len(going)
        length = max(1, min(max_steps - step, numbers_at_once // (count * dim), 16 + step // 4))
        means, noise, even = _drawn(p, streams, step, (length, count, dim))
        least, shape = np.ceil(p.least), means.shape
        points, gradients, estimates = (np.empty(shape) for _ in range(3))
        needs = np.tile(least, (length, 1))
        fresh, perturbed = np.zeros(shape[:2], dtype=bool), np.zeros(shape[:2], dtype=bool)
        each = np.arange(count)
        for i in range(length):
            points[i] = x
            last_field, last_features = field, features_here
            field = np.multiply(_bent(x * before), after, out=gradients[i])
            features_here = np.cos(x) * slope
            # ---- how many examples
            drift += move**p.power
            new = drift >= p.kappa
            any_new = bool(new.any())
            if not even:
                need = np.maximum(p.per_gradient * move, p.least)
                if p.mechanism == "tree":
                    need = np.maximum(need, move * (2 / p.term_sensitivity))
                need = np.ceil(need, out=needs[i])
                means[i] /= np.sqrt(need)[:, None]
                if p.mechanism == "gaussian":
                    noise[i] /= need[:, None]
            # ---- a difference, or a fresh gradient
            value = (features_here - last_features) * means[i] + field - last_field
            if p.mechanism == "gaussian":
                value += noise[i] * move[:, None]
            if any_new:
                fresh[i], drift[new], leaf[new], tree[new] = new, 0.0, 0, 0.0
                need = np.ceil(np.maximum(p.first, 2 / p.term_sensitivity))[new]
                smaller = (needs[i, new] / need)[:, None]
                value[new] = field[new] + np.sqrt(smaller) * means[i, new] * features_here[new]
                if p.mechanism == "gaussian":
                    value[new] += noise[i, new] * smaller
                needs[i, new] = need
            if p.mechanism == "tree":
                leaf += 1
                total = noise[i] + prefixes[_levels(leaf & (leaf - 1)), each]
                prefixes[_levels(leaf), each] = total
                value += total
                value -= tree
                tree = total
            estimate = np.add(estimate, value, out=estimates[i])
            if any_new:
                estimate[new] = value[new]
            # ---- the step
            direction, square = _direction(p, streams, step + i, estimate, allowed, perturbed[i])
            move = np.sqrt(square) * p.step_size
            x = x - p.step_size[:, None] * direction
        spent = np.concatenate([used[None], needs]).cumsum(0)
        used = spent[-1]
        done = ended(Block(step, going, points, gradients, estimates, spent[:-1], fresh, perturbed))
        step += length
        if done.any():
            on = (~done).nonzero()[0]
            going, p, streams, prefixes = going[on], p.take(on), streams.take(torch.as_tensor(on)), prefixes[:, on]
            before, after, x, field, features_here = (rest[on] for rest in (before, after, x, field, features_here))
            estimate, tree, move, drift = (rest[on] for rest in (estimate, tree, move, drift))
            used, allowed, leaf = (rest[on] for rest in (used, allowed, leaf))


def first_stationary(ramps: Ramps, parameters: RampParameters, streams: Streams, max_steps: int) -> dict[str, Any]:
    """The examples used by each run up to its first gamma-SOSP of F, by exact gradient and Hessian.

    Returns:
      Columns `(runs,)`: reached; used and steps before that point; fresh gradients and perturbations until then; the
      largest and the root-mean-square error of the estimates until then, over gamma. Runs that did not get there have
      used NaN.
    """
    count = len(streams)
    found: dict[str, Any] = {name: np.zeros(count) for name in ("fresh", "perturbations", "error", "mean_square")}
    found |= {"reached": np.zeros(count, dtype=bool), "used": np.full(count, np.nan)}
    found["steps"] = np.full(count, max_steps)
    least = ramps.least_eigenvalue.numpy()

    def ended(block: Block) -> NDArray[np.bool_]:
        accuracy = ramps.accuracy.numpy()[block.going]
        norms = np.linalg.norm(block.gradients, axis=-1)
        hits = norms <= accuracy
        near = hits.nonzero()  # the Hessian is asked for there alone
        runs, points = block.going[near[1]], torch.from_numpy(block.points[near])
        hits[near] = ramps.take(torch.as_tensor(runs)).smallest_eigenvalue(points).numpy() >= least[runs]
        hit: NDArray[np.bool_] = np.logical_or.reduce(hits)
        first = np.where(hit, hits.argmax(0), len(hits))
        until = np.arange(len(hits))[:, None] < first
        errors = np.linalg.norm(block.gradients - block.estimates, axis=-1) / accuracy * until
        at = block.going
        found["error"][at] = np.maximum(found["error"][at], errors.max(0))
        found["mean_square"][at] += (errors**2).sum(0)
        found["fresh"][at] += (block.fresh & until).sum(0)
        found["perturbations"][at] += (block.perturbed & until).sum(0)
        ends = at[hit]
        found["reached"][ends] = True
        found["steps"][ends] = block.first + first[hit]
        found["used"][ends] = block.used[first[hit], hit.nonzero()[0]]
        return hit

    walk(ramps, parameters, streams, max_steps, ended)
    mean_square = found.pop("mean_square") / np.maximum(found["steps"], 1)
    return {**found, "typical_error": np.sqrt(mean_square)}
