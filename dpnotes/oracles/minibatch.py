"""The noised mean gradient of a minibatch, with clipping or under a proved, measured or assumed bound."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Mechanism, Problem, Relation, Sampling
from dpnotes.guarantees import BATCH_NORM, STATISTICS_WITHOUT_NOISE, Assumption, Basis, examples_apart
from dpnotes.oracles.batches import draw
from dpnotes.oracles.release import Answer, Ask, Meter, ReleasePlan, Releases, ReleasingOracle, State, norms_within
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import flushed
from dpnotes.util.validate import AtLeastZero, checked

_PURPOSE = "minibatch: examples"


@checked
@dataclass(frozen=True)
class MinibatchGradient(ReleasingOracle):
    """The gradient in Algorithms 1 and 2 of Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024), arXiv:2410.06878.

    The algorithms, by their lines, at x_t, t = 0 ... T-1:
      sample a minibatch B_t of size B                                         (`batches.draw`)
      Algorithm 1: g_i <- grad f_i(x_t) / max(1, |grad f_i(x_t)| / C)          (`clipped=True`)
      Algorithm 2: g_i <- grad f_i(x_t), presumed no longer than C             (`clipped=False`)
      xi_t ~ N(0, Delta^2 I); release mean_i g_i + xi_t                        (`Releases.release`)
    The paper's Delta is `noise_std`, C is `norm_bound`, T is `num_steps`.

    Differences from the paper: sampling and neighbouring relation are stated, and only pairs with an accountant are
    accepted; the sum over a Poisson batch is divided by the expected size, which is public, never by the actual size;
    the norms that Algorithm 2 presumes to be bounded are compared with the bound during the run.

    Formal guarantees:
      The answer has the sensitivity of `privacy.events.clipped_sensitivity`, in exact arithmetic (in float32, rounding
      exceeds it by up to 1e-5 of itself, see `ClippedGradient`). With clipping this is enforced for any loss of a
      problem that keeps its examples apart, and assumed for other problems.
      Without clipping it holds if no gradient of this data set or of its neighbour is longer than `norm_bound`. A run
      that observes a longer one claims nothing; if it observes none, nothing is shown for the neighbours. Amplification
      by sampling assumes that nobody learns which examples a batch contains. The counts of the check are exact, so no
      guarantee covers them.

    Memory and time are those of `problem.gradients` on a batch. An unclipped step without a check computes only a
    weighted sum.

    Args:
      problem: the problem to minimise. If its `draws` is true, its passes need random draws, such as dropout masks:
        `drawing(streams, calls)` is the problem with the draws of a step, functions of (run, call, example).
      sampling: `core.WHOLE`, `Sampling.fixed_size` (replace-one) or `Sampling.poisson` (add-or-remove, zero-out).
      noise_std: `(runs,)` float64, at least 0, in the units of a gradient: standard deviation of the noise on each
        coordinate of the mean. 0 needs the mechanism `Exact`.
      norm_bound: C, above 0: the largest norm of a gradient.
      num_steps: T, at least 1; a run that requests more steps gets the status FINISHED.
      relation: which data sets are neighbours.
      clipped: whether longer gradients are scaled down to C. A gradient that is not finite then counts as zero.
      bound_basis: the basis of C: proved, measured (on the private data, which no guarantee covers, clipped or not) or
        assumed.
      check: an unclipped run compares its batch's norms with C every `check` steps; 0: never. In between only the mean
        is compared, at no cost: a mean longer than C shows that some gradient is longer.
      augment: whether the problem with changed examples, `augmented(streams, calls)`, is used.
      divisor: the public number by which the sum over the batch is divided; None: the size of the batch, for a Poisson
        batch the expected size `rate * num_examples`. Required under add-or-remove-one, where the number of examples is
        private.
      mechanism: `Gaussian`, or `Exact` for a run without a guarantee.

    Raises:
      CombinationError: if no accountant supports this sampling under this relation.
      ValueError: for a fresh sampling, another number of examples than the sampling's, a number outside its domain, a
        missing divisor.

    Example:
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> noise_std = torch.full((1,), 0.1, dtype=torch.float64)
      >>> oracle = MinibatchGradient(problem, Sampling.fixed_size(10, 50), noise_std, norm_bound=2.0, num_steps=3)
      >>> x, streams, active = torch.ones(1, 2), Streams.of(0, ["demo"]), torch.tensor([True])
      >>> state, estimate = oracle.estimate(oracle.init(x), x, streams, active)
      >>> estimate.gradient.shape, state.meter.exceeded.tolist(), state.meter.checked.tolist()
      (torch.Size([1, 2]), [0], [10])
    """

    problem: Problem
    sampling: Sampling
    noise_std: Tensor
    norm_bound: float
    num_steps: int
    relation: Relation = Relation.REPLACE_ONE
    clipped: bool = False
    bound_basis: Basis = "assumed"
    check: AtLeastZero = 1
    augment: bool = False
    divisor: float | None = None
    mechanism: Mechanism = Gaussian()

    def __post_init__(self) -> None:
        validate.one_of(("whole", "fixed-size", "poisson"), sampling=self.sampling.scheme)
        validate.one_of(("proved", "measured", "assumed"), bound_basis=self.bound_basis)
        if self.sampling.scheme == "fixed-size" and self.sampling.num_examples != self.problem.num_examples:
            raise ValueError(
                f"Expected sampling.num_examples={self.sampling.num_examples} to be the problem's "
                f"{self.problem.num_examples}."
            )
        if self.divisor is None and self.relation == Relation.ADD_OR_REMOVE:
            raise ValueError("Expected a divisor under add-or-remove-one: the number of examples is secret there.")
        _ = self.releases

    @cached_property
    def releases(self) -> Releases:
        """The accounting of the releases, with work counted in public numbers (expected sizes for Poisson)."""
        expected = self.sampling.rate * self.problem.num_examples
        divisor = expected if self.divisor is None else self.divisor
        not_covered = (BATCH_NORM,) if getattr(self.problem, "mixes_examples", False) else ()
        if self.clipped and self.bound_basis == "measured":
            not_covered = (*not_covered, STATISTICS_WITHOUT_NOISE)
        return Releases.fixed(
            self.norm_bound, divisor, self.noise_std, self.num_steps, self.relation, self.sampling,
            "enforced" if self.clipped else self.bound_basis, self.mechanism,
            # Under add-or-remove-one the number of examples is not public.
            gradients=divisor if self.relation == Relation.ADD_OR_REMOVE else expected,
            apart=examples_apart(self.problem), not_covered=not_covered, draws=(_PURPOSE,),
        )  # fmt: skip

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The request for a batch's mean gradient, which is the same at every step."""
        return self.releases.claimed

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The mean gradient of the batch that this call draws, clipped or compared with the bound."""
        x, calls, divisor = plan.x, plan.state.meter.calls, plan.asks[0].bound.divisor
        sample = draw(self.sampling, self.problem.num_examples, streams, _PURPOSE, calls)
        problem: Any = self.problem
        if getattr(problem, "draws", False):
            problem = problem.drawing(streams, calls)
        if self.augment:
            problem = problem.augmented(streams, calls)
        gradients = problem.gradients(x, sample.examples)
        if self.clipped:
            # An example without a finite gradient counts as zero: it must not determine the run's status.
            norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)
            weights = self.norm_bound / divisor / norms.clamp_min(self.norm_bound)
            if self.sampling.scheme == "poisson":  # Poisson batches are padded
                weights = sample.present * weights
            return (Answer(gradients.weighted_sum(flushed(weights))),)
        seen, size = None, sample.present.sum(1)
        looked = plan.granted if self.check < 2 else plan.granted & (calls % self.check == 0)
        if self.check == 1 or (self.check and bool(looked.any())):
            longer = sample.present & ~(gradients.norms() <= self.norm_bound)  # NaN counts as longer
            seen = looked, longer.sum(1), size
        mean = gradients.weighted_sum(sample.present.to(x.dtype) * (1 / divisor))
        return (Answer(mean, size, seen),)

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """The assumption on the gradient norms."""
        return norms_within(self.norm_bound, self.releases.basis, meter, run)
