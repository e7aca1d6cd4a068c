"""Descent with isotropic noise in every step: the baseline that escapes saddles without looking for them."""

from dataclasses import dataclass

from torch import Tensor

from dpnotes import validate
from dpnotes.core import Estimate, Oracle
from dpnotes.methods.descent import Descent, DescentState
from dpnotes.methods.step import arrive, ask
from dpnotes.states import select
from dpnotes.streams import Streams

_PURPOSE = "perturbed descent"


@dataclass(frozen=True)
class PerturbedDescent:
    """Perturbed SGD of Jin, Netrapalli, Ge, Kakade and Jordan (2021), arXiv:1902.04811.

    `x <- x - eta (g + xi)`, where g is the oracle's estimate and `xi ~ N(0, perturbation^2 / d I)` is drawn for every
    step. With an oracle whose noise is Gaussian it changes nothing but that noise's scale; it is a baseline for those
    without. Runs until the oracle ends them.

    Args:
      step_size: eta, above 0.
      perturbation: r, above 0, in the units of a gradient.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> import torch
      >>> from dpnotes.methods.loop import drive
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
      >>> from dpnotes.privacy.mechanisms import Gaussian
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.1), 4)]))
      >>> oracle = Spider(
      ...     VirtualSamples(data, 10**12), Gaussian(), 5.0, torch.tensor([0.02], dtype=torch.float64),
      ...     Refresh.squared_moves(0.5), BatchSizes(10_000, 1000), gradient_bound=2.0, smoothness=2.0,
      ... )
      >>> method, saddle = PerturbedDescent(0.5, 0.05), torch.zeros(1, 4, dtype=torch.float64)
      >>> state = drive(method, oracle, method.init(saddle, oracle), Streams.of(0, ["a"]), 40)
      >>> state.steps.tolist(), bool(data.landscape.smallest_eigenvalue(state.x) > 0)
      ([40], True)
    """

    step_size: float
    perturbation: float

    def __post_init__(self) -> None:
        validate.positive(step_size=self.step_size, perturbation=self.perturbation)

    def init(self, x: Tensor, oracle: Oracle) -> DescentState:
        """Start every run at its row of `x`, `(runs, dim)`."""
        return Descent(self.step_size).init(x, oracle)

    def step(self, state: DescentState, oracle: Oracle, streams: Streams) -> tuple[DescentState, Estimate]:
        """One step of the runs whose status is OK; the others stay where they are."""
        oracle_state, estimate, moves = ask(state, oracle, streams)
        dim = state.x.shape[1]
        noise = streams.only(moves).normal(_PURPOSE, state.steps, dim).mul_(self.perturbation / dim**0.5)
        x = state.x - self.step_size * (estimate.gradient + noise).to(state.x)
        moved, status = arrive(state, estimate, moves, x)
        x = select(moved, x, state.x)
        return DescentState(x, state.average, state.steps + moved, status, oracle_state), estimate

    def output(self, state: DescentState) -> Tensor:
        """The last iterate, `(runs, dim)`."""
        return state.x
