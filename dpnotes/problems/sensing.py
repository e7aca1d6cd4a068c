"""Phase retrieval and quadratic sensing from examples, with per-example gradients that are never materialised."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.examples import SharedExamples, check_data, check_points
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import full_precision, row_norms

_DRAWN_AT_ONCE = 2**22  # numbers: 32 MiB in float64, and several times as much while they are drawn


def _rows_at_once(size: int) -> int:
    return max(1, _DRAWN_AT_ONCE // size)


@dataclass(frozen=True, eq=False)
class SensingGradients:
    """The gradients `residual_i a_i (a_i' U)` of all examples, as the factors of these outer products.

    Args:
      losses: `(runs, examples)`.
      residuals: `(runs, examples)`, `|U' a_i|^2 - y_i`.
      projections: `(runs, examples, rank)`, `U' a_i`.
      measurements: `(examples, m)`, shared by the runs, or `(runs, examples, m)`.
      measurement_norms: `(examples,)` or `(runs, examples)`.
    """

    losses: Tensor
    residuals: Tensor
    projections: Tensor
    measurements: Tensor
    measurement_norms: Tensor

    def norms(self) -> Tensor:
        """The Euclidean norms of the examples' gradients, `(runs, examples)`."""
        return self.residuals.abs() * self.measurement_norms * row_norms(self.projections)

    @full_precision()
    def weighted_sum(self, weights: Tensor) -> Tensor:
        """The weighted sum `sum_i weights[:, i] * gradient_i`, `(runs, dim)`, for weights `(runs, examples)`."""
        factors = (weights * self.residuals)[..., None] * self.projections
        if not (weights.is_cpu and bool(weights.all())):  # 0 times an infinite gradient is not 0
            factors = torch.where(weights[..., None] == 0, 0, factors)
        if self.measurements.dim() == 3:
            return torch.bmm(self.measurements.mT, factors).flatten(1)
        runs, _, rank = factors.shape
        # One product for all runs, with their factors side by side.
        total = self.measurements.mT @ factors.transpose(0, 1).flatten(1)
        return total.unflatten(1, (runs, rank)).transpose(0, 1).flatten(1)

    def minus(self, other: "SensingGradients") -> "SensingGradients":
        """The differences from the same examples' gradients at other points, as factors: `a_i (r_i p_i - s_i q_i)'`."""
        one, two = (g.residuals[..., None] * g.projections for g in (self, other))
        ones = torch.ones_like(self.residuals)
        return replace(self, losses=self.losses - other.losses, residuals=ones, projections=one - two)


@dataclass(frozen=True, eq=False)
class QuadraticSensing(SharedExamples):
    """The mean of `f_i(U) = (|U' a_i|^2 - y_i)^2 / 4`, a `core.Problem`; with one column it is phase retrieval.

    A point `(runs, dim)` holds U, `(m, rank)`, flat and by rows. With `n` examples and `r` runs `gradients` costs
    `2 r n m rank` operations and `weighted_sum` as many, each one matrix product over all runs; they hold
    `r n (2 rank + 3)` numbers beside the measurements. With chosen examples `(runs, batch)` the rows of the batch are
    copied, `r batch m` numbers. The mean over infinitely many examples is `saddles.PopulationSensing`.

    Args:
      measurements: `(examples, m)`, the rows `a_i`; floating point, finite, shared by all runs.
      targets: `(examples,)`, the `y_i`.
      rank: columns of U, at least 1.

    Raises:
      ValueError: for shapes that disagree, NaN or infinite entries.

    Example:
      >>> signal = torch.tensor([[2.0], [0.0], [1.0]])
      >>> problem = QuadraticSensing.sample(signal, num_examples=10, seed=0)
      >>> x = torch.stack([signal.flatten(), -signal.flatten()])
      >>> problem.gradients(x).norms().max(), problem.gradients(x, torch.tensor([[0, 3], [1, 9]])).losses
      (tensor(0.), tensor([[0., 0.],
              [0., 0.]]))
    """

    measurements: Tensor
    targets: Tensor
    rank: int = 1
    _norms: Tensor = field(init=False, repr=False)  # of the measurements, (examples,)

    def __post_init__(self) -> None:
        validate.at_least(1, rank=self.rank)
        check_data(self.measurements, ("examples", "m"), measurements=self.measurements)
        check_data(self.targets, ("examples",), targets=self.targets)
        validate.same_length(measurements=self.measurements, targets=self.targets)
        # In blocks, since on a GPU a float64 norm makes a float64 copy of all of its rows.
        blocks = self.measurements.split(_rows_at_once(self.measurements.shape[1]))
        object.__setattr__(self, "_norms", torch.cat([row_norms(rows) for rows in blocks]))

    @staticmethod
    def sample(signal: Tensor, num_examples: int, seed: str | int, noise_std: float = 0.0) -> "QuadraticSensing":
        """A problem with standard normal measurements of a signal, `y_i = |S' a_i|^2 + noise_std N(0, 1)`.

        Example i depends on the seed and on i alone: for one seed a smaller sample is the beginning of a larger one.
        The draws are float64 ones, rounded to the type of the signal, on its device.

        Args:
          signal: `(m, rank)`, S.
          num_examples: at least 1.
          seed: the seed of the draw; for fresh examples give a new seed, such as `"step 7"`.
          noise_std: standard deviation of the noise of the targets, >= 0.
        """
        if signal.dim() != 2 or not signal.is_floating_point() or not bool(torch.isfinite(signal).all()):
            raise ValueError(f"Expected signal, {signal.dtype} of shape {tuple(signal.shape)}, to be a finite matrix.")
        validate.at_least(1, num_examples=num_examples, rows_of_signal=len(signal))
        validate.non_negative(noise_std=noise_std)
        validate.text_or_whole(seed=seed)
        keys = Streams.of("quadratic sensing", [seed], signal.device).keys
        blocks = torch.arange(num_examples, device=signal.device).split(_rows_at_once(len(signal)))

        def draw(purpose: str, size: int) -> Tensor:
            drawn = signal.new_empty(num_examples, size)
            for rows in blocks:
                drawn[rows[0] : rows[-1] + 1] = Streams(keys.expand(len(rows), 2)).normal(purpose, rows, size)
            return drawn

        measurements = draw("measurements", len(signal))
        targets = (measurements @ signal).square().sum(1)
        if noise_std:
            targets += noise_std * draw("targets", 1)[:, 0]
        return QuadraticSensing(measurements, targets, signal.shape[1])

    @property
    def dim(self) -> int:
        """The number of entries of U."""
        return self.measurements.shape[1] * self.rank

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self.targets)

    @property
    def constants(self) -> dict[str, Constant]:
        """The known constants: the infimum of the loss is at least 0. Gradients grow like a cube, so clip them."""
        return {"lower_bound": Constant(0.0, "proved", "a mean of squares")}

    @property
    def bytes_per_run(self) -> int:
        """The peak memory of one more run on all examples, its point included."""
        return (self.num_examples * (3 * self.rank + 5) + 4 * self.dim) * self.measurements.element_size()

    def initial(self, streams: Streams, radius: float) -> Tensor:
        """A starting point for each run, `(runs, dim)`, of norm `radius` > 0 in a uniformly random direction.

        The origin is a saddle: a small radius starts close to it.
        """
        validate.positive(radius=radius)
        normal = streams.normal("initial", 0, self.dim)
        return (radius * normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True)).to(self.measurements)

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> SensingGradients:
        """The losses and the factored per-example gradients at the points `x`, `(runs, dim)`.

        Args:
          x: `(runs, dim)`.
          examples: indices `(runs, batch)`; all examples if None.
        """
        check_points(x, self.dim, self.measurements.dtype)
        matrix = x.unflatten(1, (-1, self.rank))
        if examples is None:
            measurements, targets, norms = self.measurements, self.targets, self._norms
            side_by_side = measurements @ matrix.transpose(0, 1).flatten(1)
            projections = side_by_side.unflatten(1, (len(x), self.rank)).transpose(0, 1)
        else:
            validate.same_length(x=x, examples=examples)
            measurements, targets, norms = self.measurements[examples], self.targets[examples], self._norms[examples]
            projections = torch.bmm(measurements, matrix)
        residuals = projections.square().sum(-1) - targets
        return SensingGradients(residuals.square() / 4, residuals, projections, measurements, norms)
