"""The noised mean gradient of a batch of any size that is drawn from a distribution."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from dpnotes.core import FRESH, Mechanism, Relation, Sampling
from dpnotes.guarantees import Assumption, Basis
from dpnotes.oracles.release import Answer, Ask, Meter, ReleasePlan, Releases, ReleasingOracle, State, norms_within
from dpnotes.oracles.samples import FreshData
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, checked

PURPOSE = "fresh batch: examples"


@checked
@dataclass(frozen=True)
class FreshGradient(ReleasingOracle):
    """The gradient of Algorithm 2 of Avdiukhin et al. (2024), arXiv:2410.06878, on examples drawn for the batch.

    Like `MinibatchGradient`, for a distribution instead of a data set, where the distribution of the minibatch's
    gradient is known and batches may be larger than any memory.

    Formal guarantees:
      Under `FRESH` sampling an example is in one batch, so a run costs the same as one release. If declared as
      `Sampling.fixed_size(batch_size, n)`, the run is accounted as if batches were drawn from n examples: this shows
      the effect of the noise in that case, not the privacy of this run. No gradients of single examples exist, so
      `norm_bound` relies on `bound_basis` alone, and only a mean above it is detected.

    Args:
      data: the source of examples.
      batch_size: at least 1.
      noise_std: `(runs,)` float64, at least 0: standard deviation of the noise on each coordinate of the mean.
      norm_bound: the largest norm of an example's gradient, above 0.
      num_steps: at least 1; a run that requests more steps gets the status FINISHED.
      sampling: `FRESH`, or `Sampling.fixed_size(batch_size, n)`.
      bound_basis: the basis of the bound: proved, measured or assumed.
      mechanism: `Gaussian`, or `Exact` for a run without a guarantee.

    Neighbouring data sets differ in one replaced example (replace-one): the size of every batch is public.

    Raises:
      ValueError: for another sampling, or a number outside its domain.

    Example:
      >>> import torch
      >>> class Sphere:
      ...     def fresh(self, batch_size, streams, purpose, call):
      ...         self.noise = streams.normal(purpose, call, 2) / batch_size**0.5
      ...         return self
      ...     def gradient(self, x):
      ...         return x + self.noise
      >>> std = torch.full((1,), 0.1, dtype=torch.float64)
      >>> oracle = FreshGradient(Sphere(), 10**14, std, norm_bound=5.0, num_steps=3)
      >>> x, active = torch.ones(1, 2, dtype=torch.float64), torch.tensor([True])
      >>> state, estimate = oracle.estimate(oracle.init(x), x, Streams.of(0, ["demo"]), active)
      >>> f"{float(oracle.declared()):.3g}"
      '5e-25'
    """

    data: FreshData
    batch_size: AtLeastOne
    noise_std: Tensor
    norm_bound: float
    num_steps: int
    sampling: Sampling = FRESH
    bound_basis: Basis = "assumed"
    mechanism: Mechanism = Gaussian()

    def __post_init__(self) -> None:
        validate.one_of(("fresh", "fixed-size"), sampling=self.sampling.scheme)
        validate.one_of(("proved", "measured", "assumed"), bound_basis=self.bound_basis)
        if self.sampling.scheme == "fixed-size" and self.sampling.batch_size != self.batch_size:
            raise ValueError(f"Expected batch_size={self.batch_size} to be the sampling's {self.sampling.batch_size}.")
        _ = self.releases

    @cached_property
    def releases(self) -> Releases:
        """The planning, making and accounting of this oracle's releases."""
        return Releases.fixed(
            self.norm_bound, self.batch_size, self.noise_std, self.num_steps, Relation.REPLACE_ONE, self.sampling,
            self.bound_basis, self.mechanism, gradients=self.batch_size, draws=(PURPOSE,),
        )  # fmt: skip

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The request for a batch's mean gradient, which is the same at every step."""
        return self.releases.claimed

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The mean gradient of the batch that this call draws."""
        batch = self.data.fresh(self.batch_size, streams, PURPOSE, plan.state.meter.calls)
        return (Answer(batch.gradient(plan.x)),)

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """The assumptions on the gradient norms and on the source of the batches."""
        norms = norms_within(self.norm_bound, self.bound_basis, meter, run)
        if self.sampling == FRESH:
            return *norms, Assumption("no example is in two batches", "assumed")
        drawn = f"batches were drawn from {self.sampling.num_examples} examples (they came from the distribution)"
        return *norms, Assumption(drawn, "assumed")
