"""Losses with kinks: Lipschitz continuous, not smooth, with gradients by example in closed form.

Besides the methods of `core.Problem` each has `losses(x, examples)`, the losses of examples at many points
`(runs, points, dim)`, for oracles that use function values alone. The gradient at a kink is the one that `sign(0) = 0`,
or the first of several minimisers, gives. Kinks have measure 0, and measurements of Goldstein stationarity avoid them.

`AbsoluteDeviations`, `MaxOfLinear` and `MinOfNorms` are here, absolute errors of linear forms in `problems.robust`.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.custom import MaterialisedGradients
from dpnotes.problems.examples import SharedExamples, check_data, check_points, rows
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import full_precision, row_norms
from dpnotes.util.validate import AtLeastOne, NonNegative, Seed, checked

_LOWER_BOUND = Constant(0.0, "proved", "no loss is negative")


@dataclass(frozen=True, eq=False)
class AbsoluteDeviations(SharedExamples):
    """The mean of `f_i(x) = sum_k w_k |x_k - c_ik|`: convex, its minimiser a median of the targets in each coordinate.

    Args:
      targets: `(examples, dim)`, the `c_i`; floating point, finite, shared by all runs.
      weights: `(dim,)`, the `w_k`, >= 0; None: all 1. A weight of 0 leaves its coordinate out, for instance to get
        `|x_1|` in any dimension.

    Raises:
      ValueError: for shapes or types that disagree, NaN or infinite entries, a negative weight.

    Example:
      >>> problem = AbsoluteDeviations(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
      >>> gradients = problem.gradients(torch.tensor([[1.0, 3.0]]))
      >>> gradients.losses, gradients.norms(), gradients.weighted_sum(torch.ones(1, 2) / 2)
      (tensor([[3., 3.]]), tensor([[1.4142, 1.4142]]), tensor([[0., 1.]]))
    """

    targets: Tensor
    weights: Tensor | None = None
    _weights: Tensor = field(init=False, repr=False)  # (dim,)

    def __post_init__(self) -> None:
        check_data(self.targets, ("examples", "dim"), targets=self.targets)
        weights = self.targets.new_ones(self.dim) if self.weights is None else self.weights
        check_data(self.targets, ("dim",), weights=weights)
        validate.same_length(weights=weights, coordinates_of_targets=self.targets[0])
        if bool((weights < 0).any()):
            raise ValueError(f"Expected weights, {float(weights.min()):g}, >= 0.")
        object.__setattr__(self, "_weights", weights)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.targets.shape[1]

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self.targets)

    @property
    def constants(self) -> dict[str, Constant]:
        """A Lipschitz constant of every example, attained away from the kinks."""
        value = float(torch.linalg.vector_norm(self._weights))
        return {"lipschitz": Constant(value, "proved", "the norm of the weights"), "lower_bound": _LOWER_BOUND}

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> MaterialisedGradients:
        """The losses and materialised per-example gradients at the points `x`: a weighted sign for each coordinate.

        Args:
          x: `(runs, dim)`.
          examples: indices `(runs, batch)`; all examples if None.
        """
        check_points(x, self.dim, self.targets.dtype)
        differences = x[:, None] - rows(self.targets[None], examples, len(x))
        return MaterialisedGradients(differences.abs() @ self._weights, differences.sign() * self._weights)

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        """The losses of examples at many points, `(runs, batch, points)`.

        Args:
          x: `(runs, points, dim)`.
          examples: indices `(runs, batch)`; all examples if None.
        """
        check_points(x, self.dim, self.targets.dtype, many=True)
        targets = rows(self.targets[None], examples, len(x))
        return torch.cdist(targets * self._weights, x * self._weights, p=1)


@dataclass(frozen=True, eq=False)
class MaxOfLinear(SharedExamples):
    """The mean of `f_i(x) = max_k a_k' x + b_ik`: convex; with one example its Goldstein norm is known exactly.

    Args:
      slopes: `(pieces, dim)`, the `a_k`; floating point, finite, shared by all runs and examples.
      offsets: `(examples, pieces)`, the `b_ik`; None: one example, with offsets 0.

    Raises:
      ValueError: for shapes or types that disagree, NaN or infinite entries.

    Example:
      >>> largest = MaxOfLinear(torch.eye(3))
      >>> gradients = largest.gradients(torch.tensor([[1.0, 2.0, 0.0]]))
      >>> gradients.losses, gradients.weighted_sum(torch.ones(1, 1))
      (tensor([[2.]]), tensor([[0., 1., 0.]]))
    """

    slopes: Tensor
    offsets: Tensor | None = None
    _offsets: Tensor = field(init=False, repr=False)  # (examples, pieces)
    _norms: Tensor = field(init=False, repr=False)  # of the slopes, (pieces,)

    def __post_init__(self) -> None:
        check_data(self.slopes, ("pieces", "dim"), slopes=self.slopes)
        offsets = self.slopes.new_zeros(1, len(self.slopes)) if self.offsets is None else self.offsets
        check_data(self.slopes, ("examples", "pieces"), offsets=offsets)
        validate.same_length(slopes=self.slopes, pieces_of_offsets=offsets[0])
        object.__setattr__(self, "_offsets", offsets)
        object.__setattr__(self, "_norms", row_norms(self.slopes))

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.slopes.shape[1]

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self._offsets)

    @property
    def constants(self) -> dict[str, Constant]:
        """A Lipschitz constant of every example, attained where the longest slope is active."""
        return {"lipschitz": Constant(float(self._norms.max()), "proved", "the norm of the longest slope")}

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> "ChosenSlopes":
        """The losses, and the per-example gradients as indices of slopes; see `AbsoluteDeviations.gradients`."""
        check_points(x, self.dim, self.slopes.dtype)
        offsets = rows(self._offsets[None], examples, len(x))
        losses, pieces = ((x @ self.slopes.mT)[:, None] + offsets).max(2)
        return ChosenSlopes(losses, pieces, self.slopes, self._norms)

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        """The losses of examples at many points, `(runs, batch, points)`; see `AbsoluteDeviations.losses`."""
        check_points(x, self.dim, self.slopes.dtype, many=True)
        offsets = rows(self._offsets[None], examples, len(x))
        return ((x @ self.slopes.mT)[:, None] + offsets[:, :, None]).amax(3)


@dataclass(frozen=True, eq=False)
class ChosenSlopes:
    """Per-example gradients that are rows of one matrix.

    Args:
      losses: `(runs, examples)`.
      pieces: `(runs, examples)` int64, the row that is each example's gradient.
      slopes: `(pieces, dim)`.
      slope_norms: `(pieces,)`.
    """

    losses: Tensor
    pieces: Tensor
    slopes: Tensor
    slope_norms: Tensor

    def norms(self) -> Tensor:
        """The Euclidean norms of the examples' gradients, `(runs, examples)`."""
        return self.slope_norms[self.pieces]

    @full_precision()
    def weighted_sum(self, weights: Tensor) -> Tensor:
        """The weighted sum `sum_i weights[:, i] * gradient_i`, `(runs, dim)`, for weights `(runs, examples)`."""
        # A matrix product, since a GPU's scatter adds in no fixed order.
        chosen = torch.nn.functional.one_hot(self.pieces, len(self.slopes)).to(weights)
        return torch.bmm(weights[:, None], chosen)[:, 0] @ self.slopes


@dataclass(frozen=True, eq=False)
class MinOfNorms(SharedExamples):
    """The mean of `f_i(x) = min_k |x - c_k - z_i|`: several valleys, kinks between them, no flat region.

    Args:
      centers: `(centers, dim)`, the `c_k`; floating point, finite, shared by all runs and examples.
      shifts: `(examples, dim)`, the `z_i`.

    Raises:
      ValueError: for shapes or types that disagree, NaN or infinite entries.

    Example:
      >>> problem = MinOfNorms(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.zeros(1, 2))
      >>> gradients = problem.gradients(torch.tensor([[3.0, 0.0], [0.5, 0.0]]))
      >>> gradients.losses.T, gradients.weighted_sum(torch.ones(2, 1))
      (tensor([[2.0000, 0.5000]]), tensor([[ 1.,  0.],
              [-1.,  0.]]))
    """

    centers: Tensor
    shifts: Tensor

    def __post_init__(self) -> None:
        check_data(self.centers, ("centers", "dim"), centers=self.centers)
        check_data(self.centers, ("examples", "dim"), shifts=self.shifts)
        validate.same_length(coordinates_of_centers=self.centers[0], coordinates_of_shifts=self.shifts[0])

    @staticmethod
    @checked
    def sample(centers: Tensor, num_examples: AtLeastOne, spread: NonNegative, seed: Seed) -> "MinOfNorms":
        """A problem with normal shifts, of norm about `spread` in any dimension, in the type of the centers.

        Args:
          centers: `(centers, dim)`.
          num_examples: at least 1.
          spread: root mean square of the norm of a shift, >= 0.
          seed: the seed of the draw.
        """
        check_data(centers, ("centers", "dim"), centers=centers)
        dim = centers.shape[1]
        normal = Streams.of("min of norms", [seed], centers.device).normal("shifts", 0, num_examples * dim)
        return MinOfNorms(centers, (spread / dim**0.5 * normal).view(num_examples, dim).to(centers))

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.centers.shape[1]

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self.shifts)

    @property
    def constants(self) -> dict[str, Constant]:
        """A Lipschitz constant of every example, attained away from the kinks."""
        return {
            "lipschitz": Constant(1.0, "proved", "a minimum of distances, whose gradients are unit vectors"),
            "lower_bound": _LOWER_BOUND,
        }

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> MaterialisedGradients:
        """The losses and the materialised per-example gradients, since factors would cancel near a center.

        See `AbsoluteDeviations.gradients`.
        """
        check_points(x, self.dim, self.centers.dtype)
        shifts = rows(self.shifts[None], examples, len(x))
        nearest = self._distances(x[:, None], examples).min(1).indices[:, 0]
        differences = x[:, None] - self.centers[nearest] - shifts
        losses = torch.linalg.vector_norm(differences, dim=2)
        return MaterialisedGradients(losses, differences / torch.where(losses > 0, losses, 1)[..., None])

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        """The losses of examples at many points, `(runs, batch, points)`; see `AbsoluteDeviations.losses`."""
        check_points(x, self.dim, self.centers.dtype, many=True)
        return self._distances(x, examples).amin(1).mT

    def _distances(self, x: Tensor, examples: Tensor | None) -> Tensor:
        """The distances of all points minus all centers to the shifts, `(runs, centers, points, batch)`."""
        points = (x[:, None] - self.centers[:, None]).flatten(1, 2)
        shifts = rows(self.shifts[None], examples, len(x))
        # Not by |a|^2 - 2 a.b + |b|^2, which cancels near a center.
        found = torch.cdist(points, shifts, compute_mode="donot_use_mm_for_euclid_dist")
        return found.unflatten(1, (len(self.centers), -1))
