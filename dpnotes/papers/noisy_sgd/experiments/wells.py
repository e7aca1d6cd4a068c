"""The setting of the studies on saddles: one double well of d at its hill, Theorem 3.5's parameters, paths of runs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dpnotes.experiments import Context, Spec
from dpnotes.experiments.sweeps import Given, Rows, joined
from dpnotes.measure.stationarity import fraction_of_sosp, sosp_level
from dpnotes.oracles.samples import FreshData
from dpnotes.papers.noisy_sgd.algorithms import noisy_sgd_on_fresh_data
from dpnotes.papers.noisy_sgd.calculators import CLOSED_LOOP
from dpnotes.problems.separable import Cosine, DoubleWell, Profile, Separable
from dpnotes.random.streams import Streams
from dpnotes.train.noise import NoiseChoice

# Wells that are parabolas beyond 1.05 of their width have the smoothness 2.3075 gamma and the curvature 2 gamma at the
# minimum. Wells up to their width alone would have both equal: steps of 1/L would forget the last iterate.
_EDGE = 1.05
_STEEPNESS = 3 * _EDGE**2 - 1
# The bound on the gap is strict.
_MARGIN = 1.02
# Constants that the paper does not give. c_eta = 1/(128 c) is what the proof of Lemma B.3 asks for; c, c_1 and c_2 are
# 1, which is a choice of units for n and epsilon: no exponent depends on it, but c_2 = 1 is too small for epsilon to be
# more than nominal.
CONSTANTS = {"c": 1.0, "c_1": 1.0, "c_2": 1.0, "c_eta": 1 / 128}
Means = Callable[[Streams, str, int | Tensor, int], Tensor]


@dataclass(frozen=True)
class Wells:
    """`sum_i phi(x_i)` in `dim` double wells of smoothness 1, with Assumption B's sigma in the first coordinate.

    The start is the hill of the first well and the minimum of all others, so the gap does not grow with `dim`. The
    noise of a gradient is `z a sin(x_1)`, bounded and zero at the start: batches alone do not leave the saddle.

    Args:
      dim: at least 2.
      f_max: above 0, 1.02 times the gap.
      sigma: above 0, of Assumption B.

    Example:
      >>> wells = Wells(8, f_max=1.0, sigma=0.01)
      >>> round(wells.smoothness, 6), round(wells.saddle_level, 4)
      (1.0, 0.2069)
    """

    dim: int
    f_max: float
    sigma: float

    @property
    def width(self) -> float:
        """The distance of the minima from the saddle, at which the gap is `f_max` over the margin."""
        return math.sqrt(4 * (self.f_max / _MARGIN) * _STEEPNESS)

    @property
    def landscape(self) -> Separable:
        """F."""
        return Separable([(DoubleWell(1 / _STEEPNESS, self.width, _EDGE * self.width), self.dim)])

    @property
    def feature(self) -> Profile:
        """The spread of the examples, in the first coordinate."""
        return Cosine(self.sigma / math.sqrt(-2 / math.expm1(-2)))

    @property
    def smoothness(self) -> float:
        """L."""
        return self.landscape.constants["smoothness"].value

    @property
    def hessian_lipschitz(self) -> float:
        """rho."""
        return self.landscape.constants["hessian_lipschitz"].value

    @property
    def saddle_level(self) -> float:
        """The accuracy below which the start is not second-order stationary, `gamma^2 / rho`."""
        return 1 / _STEEPNESS**2 / self.hessian_lipschitz

    def start(self, runs: int, device: torch.device | str = "cpu") -> Tensor:
        """`(runs, dim)` float64."""
        x = torch.full((runs, self.dim), self.width, dtype=torch.float64, device=device)
        x[:, 0] = 0.0
        return x


@dataclass(frozen=True, eq=False)
class Instances:
    """Examples `s F(x) + z h(x_1)`, or a batch of them, with a factor s of its own in every run.

    All are of the class that F's constants describe.

    Args:
      landscape: F.
      feature: h.
      factors: `(runs,)` float64, in (0, 1].
      means: draws the mean of z over a batch times the root of its size, as `Streams.normal` does.
      mean: of z, `(runs,)`; None: 0, that of all examples.
    """

    landscape: Separable
    feature: Profile
    factors: Tensor
    means: Means = Streams.normal
    mean: Tensor | None = None

    def gradient(self, x: Tensor) -> Tensor:
        """The mean gradient at `x`, `(runs, dim)`."""
        gradient = self.landscape.gradient(x).mul_(self.factors[:, None])
        if self.mean is not None:
            gradient[:, 0].addcmul_(self.mean, self.feature.first(x[:, 0]))
        return gradient

    def level(self, x: Tensor, hessian_lipschitz: float) -> Tensor:
        """`sosp_level` at `x` `(runs, dim)`, by exact gradients and Hessians, `(runs,)`."""
        lowest = self.landscape.smallest_eigenvalue(x).mul_(self.factors)
        return sosp_level(torch.linalg.vector_norm(self.gradient(x), dim=-1), lowest, hessian_lipschitz)

    def fresh(self, batch_size: int, streams: Streams, purpose: str, call: int | Tensor) -> "Instances":
        """A batch a run; `oracles.samples.FreshData`."""
        return replace(self, mean=self.means(streams, purpose, call, 1)[:, 0] / batch_size**0.5)

    def take(self, index: Tensor) -> "Instances":
        """The instances of some of the runs."""
        return replace(self, factors=self.factors[index])


@dataclass(frozen=True)
class WellParameters:
    """The parameters of Theorem 3.5: alpha, eta, T, Delta, the C of Lemma 3.2, and the batch size by our rule."""

    alpha: float
    step_size: float
    num_steps: int
    noise_std: float
    norm_bound: float
    batch_size: int


def parameters(wells: Wells, num_examples: float, epsilon: float, delta: float) -> WellParameters:
    """Theorem 3.5 with the corrected constants and c_2 as given, from n, d, epsilon, delta and the class.

    Delta cancels in alpha. It is the least that lets the step size be 1/L, and the batch is the smallest that allows
    this Delta: `sigma / sqrt(B) <= Delta` and `epsilon < c_1 T B^2 / n^2`. Then `T = 64 L f_max / alpha^2`, the least
    that the theorem has.

    Raises:
      ValueError: as `CLOSED_LOOP`: where the theorem says nothing.

    Example:
      >>> found = parameters(Wells(8, f_max=1.0, sigma=0.01), 60_000, 1.0, 1e-6)
      >>> round(found.alpha, 3), found.num_steps, round(found.step_size, 6)
      (0.177, 2037, 1.0)
    """
    given = {
        "n": num_examples, "d": wells.dim, "epsilon": epsilon, "delta": delta, "L": wells.smoothness,
        "f_max": wells.f_max, "sigma": wells.sigma, "rho": wells.hessian_lipschitz, **CONSTANTS,
    }  # fmt: skip
    free = CLOSED_LOOP(B=num_examples, **given, constants="given")
    noise, bound = float(free["Delta"]), float(free["C"])
    window = CONSTANTS["c_2"] * bound / noise * math.sqrt(-math.log(delta) / (CONSTANTS["c_1"] * epsilon))
    batch_size = math.ceil(max((wells.sigma / noise) ** 2, window))
    found = CLOSED_LOOP(B=batch_size, **given, constants="given")
    alpha, step, steps, std, bound = (float(found[name]) for name in ("alpha", "eta", "T", "Delta", "C"))
    return WellParameters(alpha, step, math.ceil(steps), std, bound, batch_size)


def draw_factors(spec: Spec, streams: Streams, repeats: Tensor) -> Tensor:
    """The factor of each run's landscape, log-uniform between the spec's `smallest_factor` and 1, `(runs,)`.

    The repeats of a point share the range out among them, one stratum each, so that points are compared on the same
    mixture of landscapes. An interval that takes repeats for independent is then too wide rather than too narrow.

    Args:
      spec: with `smallest_factor` and `repeats`.
      streams: one key a run.
      repeats: `(runs,)`, from 0 to `spec["repeats"] - 1`.
    """
    strata = (repeats.to(streams.keys.device) + streams.uniform("instance", 0, 1)[:, 0]) / spec["repeats"]
    return spec["smallest_factor"] ** strata


def measured(
    spec: Spec,
    context: Context,
    wells: Wells,
    points: Sequence[tuple[str, Given, WellParameters]],
    measure: Callable[[Tensor, WellParameters, float], Given],
    **examples: Any,
) -> Given:
    """Columns of the spec's `repeats` at each point, all from the saddle: the point's, `repeat`, and what is measured.

    Args:
      spec: as `draw_factors`.
      context: of the cell.
      wells: the landscape.
      points: the name, the columns and the parameters of each.
      measure: is given the `levels` of a run, `(T,)`, its parameters and its landscape's factor, and names numbers.
      **examples: as `levels`.
    """
    rows = [(*point, repeat) for point in points for repeat in range(spec["repeats"])]

    @joined
    def run(chosen: range) -> Rows:
        names, columns, given, repeats = zip(*rows[chosen.start : chosen.stop], strict=True)
        keys = [f"{name}/{repeat}" for name, repeat in zip(names, repeats, strict=True)]
        streams = Streams.of(spec["seed"], keys, context.device)
        factors = draw_factors(spec, streams, torch.tensor(repeats))
        paths = levels(wells, streams, given, factors, **examples)
        for own, repeat, path, one, factor in zip(columns, repeats, paths, given, factors.tolist(), strict=True):
            yield {**own, "repeat": repeat, **measure(path, one, factor)}

    # The levels, 4 bytes an iterate, are written and not touched again: they need no room in the cache.
    return context.in_chunks(run, len(rows), 8 * 20 * wells.dim)


def share_of_sosp(path: Tensor, alpha: float, wells: Wells) -> float:
    """The fraction of iterates that are alpha-SOSPs; a level is a gradient norm that stands for both conditions."""
    return float(fraction_of_sosp(path, path.new_zeros(path.shape), alpha, wells.hessian_lipschitz))


def levels(
    wells: Wells, streams: Streams, given: Sequence[WellParameters], factors: Tensor, **examples: Any
) -> list[Tensor]:
    """`sosp_level` of the iterates x_0 .. x_{T-1} of `noisy_sgd_on_fresh_data`: `(T,)` float32 each.

    Runs that differ in nothing but how much noise they have are one batch. After a run has diverged it is infinite.

    Args:
      wells: the landscape.
      streams: one key a run.
      given: the parameters of each run.
      factors: of each run's landscape, `(runs,)`.
      **examples: `means` as `Instances`, and `feature`, by which examples differ, if it is not the wells'.
    """
    alike: dict[WellParameters, list[int]] = {}
    for run, parameters in enumerate(given):
        alike.setdefault(replace(parameters, noise_std=float(parameters.noise_std > 0)), []).append(run)
    found: dict[int, Tensor] = {}
    for shared, runs in alike.items():
        how = {"feature": wells.feature, **examples}
        instances = Instances(wells.landscape, factors=factors[runs], **how)
        path = along(
            lambda x, going, of=instances: of.take(going).level(x, wells.hessian_lipschitz).float(), instances,
            wells.start(len(runs), factors.device), streams.take(torch.tensor(runs, device=factors.device)),
            [given[run].noise_std for run in runs], batch_size=shared.batch_size, norm_bound=shared.norm_bound,
            step_size=shared.step_size, num_steps=shared.num_steps,
        )  # fmt: skip
        found |= zip(runs, path[:-1].T, strict=True)
    return [found[run] for run in range(len(given))]


def along(
    measure: Callable[[Tensor, Tensor], Tensor],
    data: FreshData,
    x: Tensor,
    streams: Streams,
    noise_std: Sequence[float],
    num_steps: int,
    **how: Any,
) -> Tensor:
    """A number at each of the iterates x_0 .. x_T of `noisy_sgd_on_fresh_data`, `(T + 1, runs)`.

    After a run has diverged it is infinite. Nothing is claimed of the runs: the norm bound is assumed.

    Args:
      measure: is given points `(going, dim)` and which runs they are of, `(going,)`; says a number each, `(going,)`.
      data: as the others, of `noisy_sgd_on_fresh_data`.
      x: `(runs, dim)`, x_0.
      streams: one key a run.
      noise_std: Delta of each run; of all or of none 0.
      num_steps: T.
      **how: its `batch_size`, `norm_bound` and `step_size`.

    Example:
      >>> from dpnotes.problems.separable import DoubleWell, Linear, Separable
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(DoubleWell(1.0), 2)]), Separable([(Linear(0.0), 2)]))
      >>> how = {"batch_size": 1, "norm_bound": 5.0, "step_size": 0.1, "num_steps": 100}
      >>> start, streams = torch.zeros(1, 2, dtype=torch.float64), Streams.of(0, ["demo"])
      >>> lengths = along(lambda x, going: x.norm(dim=1), data, start, streams, [0.01], **how)
      >>> lengths.shape, float(lengths[0]), bool(lengths[-1] > 1)
      (torch.Size([101, 1]), 0.0, True)
    """
    first = measure(x, torch.arange(len(x), device=x.device))
    found = torch.full((num_steps + 1, len(x)), torch.inf, dtype=first.dtype, device=x.device)
    found[0] = first
    rows = iter(found[1:])

    def observe(going: Tensor, state: Any, estimate: Any) -> None:
        if (row := next(rows, None)) is not None:  # one step more tells a run that it has finished
            row[going] = measure(state.x, going)

    noise = [NoiseChoice(std, math.inf, 0.5, "given") for std in noise_std]
    noisy_sgd_on_fresh_data(data, noise, x, streams, num_steps=num_steps, delta=0.5, observe=observe, **how)
    return found
