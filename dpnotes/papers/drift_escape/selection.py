"""Selection of a model to publish: Algorithm 4 of the anonymous submission, and a trusted server in its place.

Each client has examples that no model was trained on, and sends a noisy gradient and a noisy Hessian of each model.
The point that `distributed_drift_escape` returns needs no selection: the run itself tested it.
"""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from dpnotes.core import WHOLE, Estimate, Guarantee, Relation, Status
from dpnotes.guarantees import Assumption
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients, ClientsState
from dpnotes.oracles.release import Answer, Ask, Bound, Meter, ReleasePlan, Releases, ReleasingOracle, State
from dpnotes.papers.drift_escape.derivatives import Derivatives, apart_again, smallest_eigenvalues
from dpnotes.privacy import search
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.privacy.mechanisms import Exact, Gaussian
from dpnotes.privacy.noise import TOLERANCE
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, Positive, PositiveOrInfinite, Probability, checked


# ---------------------------------------------------------------- the acceptance test
@checked
@dataclass(frozen=True)
class Selection:
    """The thresholds and the noise of a selection, with the constants that the proof needs.

    A model is accepted if `|g| <= alpha + gradient_slack` and `lambda_min(H) >= -sqrt(rho alpha) - eigenvalue_slack`,
    for the server's mean gradient and Hessian. Each slack is a bound on the error from sampling and noise, which holds
    for all T models together with probability `1 - failure`. It is the sum of two of these terms:

    * sampling, gradient: `G (1 + sqrt(2 L)) s` with `s^2 = sum_j 1/(m^2 n_j)` and `L = log(6 T / failure)`, by bounded
      differences around a mean of at most `G s`;
    * noise, gradient: `sigma_1 (sqrt(d) + sqrt(2 L))`, because the norm is a 1-Lipschitz function of normal numbers;
    * sampling, eigenvalue: matrix Bernstein (Tropp 2012, arXiv:1004.4389, Theorem 1.4) for summands of norm
      `2 M / (m n_j)`, with dimension factor d for each of the two tails;
    * noise, eigenvalue: `2 sigma_2 (sqrt(d) + sqrt(L))`, because the noise matrix has a mean norm of at most `2
      sqrt(d)` and its norm is sqrt(2)-Lipschitz.

    Differences from the paper: the printed thresholds make no allowance for c_1 and c_2, nor for more than one model,
    so that they reject even a critical point (claims `drift_escape.alg4.gradient_threshold` and
    `.hessian_threshold`), and matrix Bernstein for a norm needs the factor 2d (claim `drift_escape.eq98`).
    `printed_slacks` computes the printed ones. Here the accountant determines the noise, and clients may hold
    different numbers of examples.

    Args:
      accuracy: alpha, above 0, in units of a gradient.
      dim: d.
      sizes: the number of examples of each client.
      num_models: T, the largest number of models that may be tested; the noise is calibrated for T models.
      epsilon: epsilon of each client, above 0; infinite for no privacy.
      delta: in (0, 1).
      gradient_bound: G, the largest norm of an example's gradient.
      smoothness: M, of every example's loss.
      hessian_lipschitz: rho of the objective.
      failure: omega', in (0, 1).

    Raises:
      ValueError: outside these domains.

    Example:
      >>> choice = Selection(
      ...     0.01, 10, (10**6,) * 16, 50, 1.0, 1e-6, gradient_bound=1.0, smoothness=1.0, hessian_lipschitz=1.0
      ... )
      >>> round(choice.noise_multiplier, 2), round(choice.gradient_slack, 5), round(choice.eigenvalue_slack, 5)
      (29.87, 0.00145, 0.00199)
      >>> round(choice.reached, 4)  # by any model that is accepted
      0.0129
    """

    accuracy: Positive
    dim: AtLeastOne
    sizes: tuple[int, ...]
    num_models: AtLeastOne
    epsilon: PositiveOrInfinite
    delta: Probability
    _: KW_ONLY
    gradient_bound: Positive
    smoothness: Positive
    hessian_lipschitz: Positive
    failure: Probability = 0.05

    def __post_init__(self) -> None:
        validate.instance(tuple, sizes=self.sizes)
        validate.at_least(1, num_clients=len(self.sizes))
        for size in self.sizes:
            validate.at_least(1, sizes=size)

    @cached_property
    def noise_multiplier(self) -> float:
        """The standard deviation of each release, divided by the replace-one sensitivity of a client's vector."""
        if self.epsilon == math.inf:
            return 0.0
        return gaussian_std(self.epsilon, self.delta) * math.sqrt(self.num_models)

    @property
    def weight(self) -> float:
        """The factor of a Hessian in the vector: with it, gradient and Hessian have equal bounds (`c_1 = c_2`)."""
        return self.gradient_bound / (self.smoothness * math.sqrt(self.dim))

    @property
    def longest(self) -> float:
        """The bound on the norm of an example's gradient and weighted Hessian as one vector."""
        return math.sqrt(2) * self.gradient_bound

    @property
    def numbers_sent(self) -> int:
        """The number of numbers that each client sends for each model."""
        return self.dim * (self.dim + 3) // 2

    @property
    def gradient_noise(self) -> float:
        """The noise sigma_1 of the server's gradient, per coordinate; its Hessian's entries have `sigma_1 / weight`."""
        moved = 2 * self.longest * math.sqrt(sum(size**-2 for size in self.sizes)) / len(self.sizes)
        return self.noise_multiplier * moved

    @property
    def _spread(self) -> float:
        return math.sqrt(sum(1 / size for size in self.sizes)) / len(self.sizes)

    @property
    def _logarithm(self) -> float:
        return math.log(6 * self.num_models / self.failure)

    @property
    def gradient_slack(self) -> float:
        """The bound on the error of the server's gradient."""
        tail = math.sqrt(2 * self._logarithm)
        return self.gradient_bound * (1 + tail) * self._spread + self.gradient_noise * (math.sqrt(self.dim) + tail)

    @property
    def eigenvalue_slack(self) -> float:
        """The bound on the error of the smallest eigenvalue of the server's Hessian."""
        both = self._logarithm + math.log(self.dim)
        linear = 2 * both / (3 * len(self.sizes) * min(self.sizes))
        sampling = self.smoothness * (linear + math.sqrt(linear**2 + 2 * both * self._spread**2))
        return sampling + 2 * self.gradient_noise / self.weight * (math.sqrt(self.dim) + math.sqrt(self._logarithm))

    @property
    def printed_slacks(self) -> tuple[float, float]:
        """The slacks of line 7 as printed, for the noise that is drawn here.

        Raises:
          ValueError: there is no noise (epsilon is infinite).
        """
        validate.positive(noise_multiplier=self.noise_multiplier)
        c = 8 * (self.epsilon * gaussian_std(self.epsilon, self.delta)) ** 2 / math.log(1 / self.delta)
        bare, of_all = self.gradient_noise / math.sqrt(c), math.log(8 * self.dim / self.failure)
        noise = bare * math.sqrt(self.dim * math.log(16 / self.failure))
        hessian_noise = bare / self.weight * math.sqrt(self.dim * math.log(32 / self.failure))
        gradient = self.gradient_bound * of_all * self._spread + noise
        return gradient, self.smoothness * math.sqrt(of_all) * self._spread + hessian_noise

    def accepts(self, norms: Tensor, eigenvalues: Tensor, *, as_printed: bool = False) -> Tensor:
        """Test models by the norm of the server's gradient and the smallest eigenvalue of its Hessian.

        Args:
          norms: the gradient norms, in any shape.
          eigenvalues: the smallest eigenvalues, in the same shape.
          as_printed: if true, use `printed_slacks`.

        Raises:
          ValueError: the shapes differ.
        """
        validate.flag(as_printed=as_printed)
        if norms.shape != eigenvalues.shape:
            raise ValueError(f"Expected norms {tuple(norms.shape)} and eigenvalues {tuple(eigenvalues.shape)} alike.")
        far, bent = self.printed_slacks if as_printed else (self.gradient_slack, self.eigenvalue_slack)
        least = -math.sqrt(self.hessian_lipschitz * self.accuracy) - bent
        return (norms <= self.accuracy + far) & (eigenvalues >= least)

    @property
    def reached(self) -> float:
        """The accuracy alpha' of any accepted model, with probability `1 - failure`, in units of a gradient."""
        curvature = math.sqrt(self.hessian_lipschitz * self.accuracy) + 2 * self.eigenvalue_slack
        return max(self.accuracy + 2 * self.gradient_slack, curvature**2 / self.hessian_lipschitz)

    @property
    def vacuous(self) -> bool:
        """True if a threshold reaches `gradient_bound` or `smoothness`: one of the two tests then excludes no model."""
        least = math.sqrt(self.hessian_lipschitz * self.accuracy) + self.eigenvalue_slack
        return self.accuracy + self.gradient_slack >= self.gradient_bound or least >= self.smoothness


# ---------------------------------------------------------------- the oracle of a client
@checked
@dataclass(frozen=True, eq=False)
class GradientAndHessian(ReleasingOracle):
    """The oracle of lines 3 to 5 of Algorithm 4: a client's mean gradient and Hessian with noise, as one vector.

    Formal guarantees:
      Replacing one example moves the mean vector by at most `2 sqrt(2) G / n`. This is twice the bound `sqrt(G^2 +
      weight^2 d M^2)` on an example's vector divided by n, because the upper triangle of a Hessian of norm M has norm
      at most `sqrt(d) M`. The accountant composes T Gaussian releases. The bound is enforced where derivatives are
      clipped, and assumed otherwise.

    Args:
      derivatives: the derivatives of each row's examples.
      selection: the bounds, the number T of models, and the noise.
      noise_multiplier: `(rows,)` float64.

    Raises:
      ValueError: the numbers of rows disagree.

    Example:
      >>> from dpnotes.papers.drift_escape.derivatives import ExampleDerivatives
      >>> data = torch.eye(2).repeat(50, 1)
      >>> choice = Selection(
      ...     0.1, 2, (60, 40), 3, 1.0, 1e-5, gradient_bound=1.0, smoothness=1.0, hessian_lipschitz=2.0
      ... )
      >>> loss = lambda x, a: 1 - torch.exp(-(x - a).square().sum() / 2)
      >>> oracle = GradientAndHessian.of(ExampleDerivatives(loss, ((data[:60],), (data[60:],))), choice)
      >>> x, active = torch.zeros(2, 2), torch.tensor([True, True])
      >>> state, estimate = oracle.estimate(oracle.init(x), x, Streams.of(0, ["a", "b"]), active)
      >>> claims = oracle.guarantee(state, 1e-5, Streams.secure(2))
      >>> estimate.gradient.shape, [round(claim.epsilon, 6) for claim in claims]
      (torch.Size([2, 5]), [1.0, 1.0])
    """

    derivatives: Derivatives
    selection: Selection
    noise_multiplier: Tensor

    @staticmethod
    def of(derivatives: Derivatives, selection: Selection) -> "GradientAndHessian":
        """Return the oracle with the noise of a selection."""
        like = derivatives.total.double()
        return GradientAndHessian(derivatives, selection, torch.full_like(like, selection.noise_multiplier))

    def __post_init__(self) -> None:
        validate.provides("mean", "total", "basis", "apart", derivatives=self.derivatives)
        level = self.noise_multiplier
        validate.same_length(noise_multiplier=level, total=self.derivatives.total)
        if level.dim() != 1 or level.dtype != torch.float64 or not bool(((level >= 0) & level.isfinite()).all()):
            given = validate.shown("noise_multiplier", level)
            raise ValueError(f"Expected {given} to be finite numbers >= 0, (rows,) and float64.")
        _ = self.releases, self._asked

    @cached_property
    def _asked(self) -> Ask:
        """The query that is made about every model."""
        # A copy: if the caller changed the tensor later, the price of an answer would change and its noise would not.
        total, level = self.derivatives.total, self.noise_multiplier.clone()
        bound = Bound.of(self.selection.longest, total.double(), level, Relation.REPLACE_ONE, WHOLE)
        # A Hessian costs as much as dim gradients.
        return Ask.with_multiplier(bound, level, gradients=total * (1 + self.selection.dim))

    @cached_property
    def releases(self) -> Releases:
        """The settings of the releases; the budget is T / (2 z^2), the cost of T Gaussian releases."""
        budget = 0.5 * self.selection.num_models / self.noise_multiplier**2
        mechanism = Gaussian("selection: gradient and Hessian") if self.selection.noise_multiplier else Exact()
        derivatives = self.derivatives
        return Releases(
            budget, Relation.REPLACE_ONE, WHOLE, derivatives.basis, mechanism, TOLERANCE, apart=derivatives.apart
        )

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """Return the query, which is the same for every model."""
        return (self._asked,)

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """Return the mean over all examples."""
        mean = self.derivatives.mean(plan.x, self.selection.weight, self.selection.longest)
        return (Answer(mean.detach()),)  # detached: an autograd graph would keep the exact mean

    def release(self, plan: ReleasePlan, streams: Streams) -> tuple[State, Estimate]:
        """Release as `ReleasingOracle.release` does; the estimate keeps its width where every run is refused."""
        state, estimate = super().release(plan, streams)
        if estimate.gradient.shape[1] == self.selection.numbers_sent:
            return state, estimate
        return state, replace(estimate, gradient=plan.x.new_zeros(len(plan.x), self.selection.numbers_sent))

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """Return the assumption about the bound on every example's gradient and Hessian."""
        of_both = f"gradient and Hessian are at most {self.selection.longest:g} long as one vector"
        if self.releases.basis == "enforced":
            return (Assumption(f"of every example {of_both}: they are clipped", "enforced", True),)
        shown = int(meter.exceeded[run]) == 0
        return (Assumption(f"of every example {of_both}", self.releases.basis, None if shown else False),)


# ---------------------------------------------------------------- the front doors
@dataclass(frozen=True, eq=False)
class Selected:
    """The outcome of a selection from a list of models; tensors are `(runs,)` unless stated.

    Args:
      index: the first accepted model; -1 if none was accepted.
      asked: the number of models that the clients were asked about.
      norms: `(models, runs)`, the norms of the server's released gradients; NaN for a model that was not asked about,
        such as one that is not finite.
      eigenvalues: `(models, runs)`, the smallest eigenvalues of the server's Hessians.
      guarantees: one per run; it holds for each of its clients, and covers all messages of that client.
      oracle: the clients' oracle.
      state: the state of that oracle.
    """

    index: Tensor
    asked: Tensor
    norms: Tensor
    eigenvalues: Tensor
    guarantees: tuple[Guarantee, ...]
    oracle: Clients
    state: ClientsState

    @property
    def found(self) -> Tensor:
        """True for each run that accepted a model, `(runs,)` bool."""
        return self.index >= 0


@checked
def distributed_selection(
    models: Tensor, derivatives_of: Callable[[range], Derivatives], selection: Selection, streams: Streams, *,
    blocks: Blocks, as_printed: bool = False, not_covered: tuple[str, ...] = (),
) -> Selected:  # fmt: skip
    """Select a model by Algorithm 4 "Distributed Private Model Selection", with the thresholds that its proof needs.

    The algorithm, by its lines:
      1. for t = 1 ... T                                             (here; it stops at the first that is accepted)
      2. every client j in parallel:                                 (`oracles.clients.Clients`)
      3.   gradient of f(x_t; S_j) + theta_{j,t}                     (`GradientAndHessian`)
      4.   Hessian of f(x_t; S_j) + H_{j,t}
      5.   send both to the server
      6. the server's means                                          (`oracles.blocks.Blocks.sum`)
      7. if both tests pass, 8. return x_t                           (`Selection.accepts`)

    This is not AboveThreshold: the clients pay for every model that is asked about, and the noise is calibrated for T
    models.

    Formal guarantees:
      The messages of each client are (epsilon, delta)-DP under replace-one in its own examples, against any observer
      and for any models, including models that depend on earlier messages. The answers are correct with probability `1
      - failure` only if the models do not depend on the examples that test them, and all examples respect the bounds at
      every model: longer gradients are clipped, and the mean of clipped gradients can be small where the objective's
      gradient is not.

    Args:
      models: `(models, runs, dim)`, at most `selection.num_models`, which must already be public. A model with a
        coordinate that is not finite is neither asked about nor accepted.
      derivatives_of: a function from the clients of a block to their examples; row `run * clients + place`.
      selection: the accuracy, bounds and budget of all runs.
      streams: seeded streams with one key per run, from which the clients' keys are derived, or secret streams. A
        second call with the same seeded streams repeats the noise of the first, and the two guarantees do not compose.
      blocks: the blocks of clients, and the process that computes each block.
      as_printed: if true, use the printed thresholds, which may reject every model.
      not_covered: uses of the data that no release accounts for.

    Returns:
      The choice, and the numbers released about each model; NaN for a model that was not asked about.

    Raises:
      ProcessLost: another process died, hangs or computes something else.
      ValueError: a shape is wrong, there are too many models, or the number of clients or of a client's examples
        differs from `selection.sizes`.

    Example:
      >>> from dpnotes.papers.drift_escape.derivatives import VirtualDerivatives
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 3)]), Separable([(Sine(0.1), 3)]))
      >>> choice = Selection(
      ...     0.05, 3, (10**6,) * 16, 10, 1.0, 1e-6, gradient_bound=2.0, smoothness=2.0, hessian_lipschitz=1.5
      ... )
      >>> def derivatives_of(members):  # each client's own draw
      ...     streams = Streams.of("examples", members)
      ...     return VirtualDerivatives.drawn(data, torch.tensor([10**6] * len(members)), streams)
      >>> hill, slope, valley = torch.zeros(3).double(), torch.ones(3).double(), torch.full((3,), torch.pi).double()
      >>> models = torch.stack([hill, slope, valley])[:, None]
      >>> found = distributed_selection(models, derivatives_of, choice, Streams.of(0, ["run"]), blocks=Blocks(16, 16))
      >>> found.index.tolist(), found.asked.tolist(), round(found.guarantees[0].epsilon, 6)
      ([2], [3], 1.0)
    """
    _check(models, selection, streams, blocks)
    _ = as_printed and selection.printed_slacks  # raises an error before anything is released
    runs = models.shape[1]
    oracle = Clients.of(lambda members: _sized(derivatives_of, selection, members, runs), blocks, runs)
    state, index = oracle.init(models[0]), torch.full_like(models[0, :, 0], -1, dtype=torch.int64)
    norms = torch.full_like(models[..., 0], torch.nan)
    eigenvalues, going = norms.clone(), index < 0
    for place, x in enumerate(models):
        if not bool(going.any()):
            break
        asked = going & _is_point(x)
        state, estimate = oracle.estimate(state, x, streams, asked)
        going = going & (estimate.status == Status.OK)
        asked = asked & going
        gradient, hessian = apart_again(estimate.gradient, selection.dim, selection.weight)
        norms[place] = gradient.norm(dim=1).masked_fill(~asked, torch.nan)
        eigenvalues[place] = smallest_eigenvalues(hessian).masked_fill(~asked, torch.nan)
        yes = asked & selection.accepts(norms[place], eigenvalues[place], as_printed=as_printed)
        index, going = index.masked_fill(yes, place), going & ~yes
    claims = oracle.guarantee(state, selection.delta, streams, not_covered=not_covered)
    return Selected(index, state.meter.calls[:, 0], norms, eigenvalues, claims, oracle, state)


def trusted_search(selection: Selection) -> search.Search:
    """Return the settings of AboveThreshold for a server that is trusted with the exact means of all clients.

    The server publishes only yes-or-no answers, and only the first yes costs privacy, so neither noise nor slack grows
    with the dimension. An example of client j enters the mean over clients with weight `1 / (m n_j)`, so the client
    with the fewest examples determines the sensitivity.

    Args:
      selection: the accuracy, bounds and budget.

    Example:
      >>> sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0}
      >>> choice = Selection(0.01, 1000, (10**4,) * 16, 50, 1.0, 1e-6, **sizes)
      >>> choice.vacuous, round(trusted_search(choice).smallest_eigenvalue, 4)
      (True, -0.1015)
    """
    validate.instance(Selection, selection=selection)
    return search.Search(
        epsilon=selection.epsilon, alpha=selection.accuracy, hessian_lipschitz=selection.hessian_lipschitz,
        norm_bound=selection.gradient_bound, smoothness=selection.smoothness,
        num_examples=len(selection.sizes) * min(selection.sizes), num_candidates=selection.num_models,
        failure=selection.failure,
    )  # fmt: skip


@checked
def trusted_selection(
    models: Tensor, derivatives_of: Callable[[range], Derivatives], selection: Selection, streams: Streams, *,
    blocks: Blocks,
) -> search.Selection:  # fmt: skip
    """Select a model by a trusted server: `privacy.search.select_stationary_point` on all examples.

    This is central privacy, not the privacy of Definition 3: the server sees every client's exact means. It publishes
    only the index, which is (epsilon, 0)-DP under replace-one in the examples of any client, assuming that the bounds
    on examples hold (`trusted_search(selection).guarantee`). Gradient and Hessian of an example are clipped as one
    vector. An example outside the bounds therefore moves the norm by at most sqrt(2) times the assumed amount, and an
    eigenvalue by at most 2 sqrt(d) times.

    Args:
      models: as in `distributed_selection`.
      derivatives_of: as in `distributed_selection`.
      selection: as in `distributed_selection`; its delta is not used.
      streams: one key a run.
      blocks: the clients, in one process.

    Raises:
      ValueError: as in `distributed_selection`, or there is more than one process.
    """
    _check(models, selection, streams, blocks)
    if blocks.processes.size > 1:
        raise ValueError(f"Expected blocks of one process, got {blocks.processes.size}: one server sees all.")
    runs = models.shape[1]
    own = [_sized(derivatives_of, selection, members, runs).derivatives for members in blocks.members]

    def mean(x: Tensor) -> Tensor:
        sent = []
        for derivatives, members in zip(own, blocks.members, strict=True):
            rows = x.repeat_interleave(len(members), 0)
            exact = derivatives.mean(rows, selection.weight, selection.longest).detach()
            sent.append(exact.view(runs, len(members), -1))
        return torch.cat(sent, 1).mean(1)

    def norms(x: Tensor) -> Tensor:
        return mean(x)[:, : selection.dim].norm(dim=1).masked_fill(~_is_point(x), torch.nan)

    def eigenvalues(x: Tensor) -> Tensor:
        return smallest_eigenvalues(apart_again(mean(x), selection.dim, selection.weight)[1])

    return search.select_stationary_point(trusted_search(selection), models, norms, eigenvalues, streams)


def _is_point(x: Tensor) -> Tensor:
    """Return whether each model is finite, `(runs,)` bool."""
    return x.isfinite().all(1)


def _check(models: Tensor, selection: Selection, streams: Streams, blocks: Blocks) -> None:
    if models.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"Expected models of {models.dtype} to be of float32 or float64.")
    shape = (len(streams), selection.dim)
    if models.dim() != 3 or models.shape[1:] != shape or not 1 <= len(models) <= selection.num_models:
        wanted = f"(models, {shape[0]}, {shape[1]}), from 1 to num_models={selection.num_models} of them"
        raise ValueError(f"Expected models of shape {tuple(models.shape)} to be {wanted}.")
    if blocks.num_clients != len(selection.sizes):
        raise ValueError(f"Expected num_clients={blocks.num_clients} to be {len(selection.sizes)}, as sizes says.")


def _sized(
    derivatives_of: Callable[[range], Derivatives], selection: Selection, members: range, runs: int
) -> GradientAndHessian:
    """Return the oracle of a block; refuse clients whose sizes differ from those that the selection's slack assumes."""
    derivatives = derivatives_of(members)
    validate.provides("mean", "total", "basis", "apart", derivatives_of=derivatives)
    sizes = [selection.sizes[client] for client in members] * runs
    if derivatives.total.tolist() != sizes:
        raise ValueError(f"Expected examples={derivatives.total.tolist()} of clients {members} to be sizes={sizes}.")
    return GradientAndHessian.of(derivatives, selection)
