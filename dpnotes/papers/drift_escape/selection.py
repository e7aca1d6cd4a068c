"""Selection of a model to publish: Algorithm 4 of arXiv:2505.15647, and a trusted server in its place.

Each client has examples that no model was trained on, and sends a noisy gradient and a noisy Hessian of each model.
What `distributed_drift_escape` returns needs neither: it was tested on the way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
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


# ---------------------------------------------------------------- what counts as found
@dataclass(frozen=True)
class Selection:
    """The thresholds and the noise of a selection, with the constants that the proof needs.

    A model is accepted if `|g| <= alpha + gradient_slack` and `lambda_min(H) >= -sqrt(rho alpha) - eigenvalue_slack`,
    for the server's mean gradient and Hessian. Each slack is what sampling and noise are off at most, in all T models
    with probability `1 - failure`:

    * sampling, gradient: `G (1 + sqrt(2 L)) s` with `s^2 = sum_j 1/(m^2 n_j)` and `L = log(6 T / failure)`, by bounded
      differences around a mean of at most `G s`;
    * noise, gradient: `sigma_1 (sqrt(d) + sqrt(2 L))`, which is a 1-Lipschitz function of normal numbers;
    * sampling, eigenvalue: matrix Bernstein (Tropp 2012, arXiv:1004.4389, Theorem 1.4) for summands of norm
      `2 M / (m n_j)`, with d for each of two sides;
    * noise, eigenvalue: `2 sigma_2 (sqrt(d) + sqrt(L))`: the mean is at most `2 sqrt(d)`, the norm sqrt(2)-Lipschitz.

    Differences from the paper: its thresholds allow nothing for c_1 and c_2, nor for more than one model, so that even
    a critical point is rejected (claims `drift_escape.alg4.gradient_threshold` and `.hessian_threshold`), and a norm
    needs 2d in matrix Bernstein (`drift_escape.eq98`); `printed_slacks` are those. The noise is the accountant's.
    Clients may have unequally many examples.

    Args:
      accuracy: alpha, above 0, in units of a gradient.
      dim: d.
      sizes: the number of examples of each client.
      num_models: T: how many models may be tested, which the noise is for.
      epsilon: of each client, above 0; infinite for no privacy.
      delta: in (0, 1).
      gradient_bound: G: the longest gradient of an example.
      smoothness: M of every example.
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

    accuracy: float
    dim: int
    sizes: tuple[int, ...]
    num_models: int
    epsilon: float
    delta: float
    gradient_bound: float = field(kw_only=True)
    smoothness: float = field(kw_only=True)
    hessian_lipschitz: float = field(kw_only=True)
    failure: float = field(default=0.05, kw_only=True)

    def __post_init__(self) -> None:
        validate.positive(accuracy=self.accuracy, gradient_bound=self.gradient_bound, smoothness=self.smoothness)
        validate.positive(hessian_lipschitz=self.hessian_lipschitz)
        validate.instance(tuple, sizes=self.sizes)
        validate.at_least(1, dim=self.dim, num_models=self.num_models, num_clients=len(self.sizes))
        for size in self.sizes:
            validate.at_least(1, sizes=size)
        validate.between(0, 1, delta=self.delta, failure=self.failure)
        validate.or_infinite(validate.positive, epsilon=self.epsilon)

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise of each release over the change of a client's gradient and Hessian when an example is replaced."""
        if self.epsilon == math.inf:
            return 0.0
        return gaussian_std(self.epsilon, self.delta) * math.sqrt(self.num_models)

    @property
    def weight(self) -> float:
        """Factor of a Hessian beside a gradient: the bounds of both are then equal, which is `c_1 = c_2`."""
        return self.gradient_bound / (self.smoothness * math.sqrt(self.dim))

    @property
    def longest(self) -> float:
        """The longest that the derivatives of an example are, as one vector."""
        return math.sqrt(2) * self.gradient_bound

    @property
    def numbers_sent(self) -> int:
        """Numbers that each client sends for each model."""
        return self.dim * (self.dim + 3) // 2

    @property
    def gradient_noise(self) -> float:
        """sigma_1, of each coordinate of the server's gradient; over `weight`, of each entry of its Hessian."""
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
        """Largest error of the server's gradient."""
        tail = math.sqrt(2 * self._logarithm)
        return self.gradient_bound * (1 + tail) * self._spread + self.gradient_noise * (math.sqrt(self.dim) + tail)

    @property
    def eigenvalue_slack(self) -> float:
        """Largest error of the smallest eigenvalue of the server's Hessian."""
        both = self._logarithm + math.log(self.dim)
        linear = 2 * both / (3 * len(self.sizes) * min(self.sizes))
        sampling = self.smoothness * (linear + math.sqrt(linear**2 + 2 * both * self._spread**2))
        return sampling + 2 * self.gradient_noise / self.weight * (math.sqrt(self.dim) + math.sqrt(self._logarithm))

    @property
    def printed_slacks(self) -> tuple[float, float]:
        """The slacks of line 7 as printed, at the noise that is drawn here.

        Raises:
          ValueError: without noise.
        """
        validate.positive(noise_multiplier=self.noise_multiplier)
        c = 8 * (self.epsilon * gaussian_std(self.epsilon, self.delta)) ** 2 / math.log(1 / self.delta)
        bare, of_all = self.gradient_noise / math.sqrt(c), math.log(8 * self.dim / self.failure)
        gradient = self.gradient_bound * of_all * self._spread + bare * math.sqrt(
            self.dim * math.log(16 / self.failure)
        )
        noise = bare / self.weight * math.sqrt(self.dim * math.log(32 / self.failure))
        return gradient, self.smoothness * math.sqrt(of_all) * self._spread + noise

    def accepts(self, norms: Tensor, eigenvalues: Tensor, *, as_printed: bool = False) -> Tensor:
        """Test models by the norm of the server's gradient and the smallest eigenvalue of its Hessian.

        Args:
          norms: `(...)`.
          eigenvalues: of the same shape.
          as_printed: with `printed_slacks`.

        Raises:
          ValueError: for other shapes.
        """
        validate.flag(as_printed=as_printed)
        if norms.shape != eigenvalues.shape:
            raise ValueError(f"Expected norms {tuple(norms.shape)} and eigenvalues {tuple(eigenvalues.shape)} alike.")
        far, bent = self.printed_slacks if as_printed else (self.gradient_slack, self.eigenvalue_slack)
        least = -math.sqrt(self.hessian_lipschitz * self.accuracy) - bent
        return (norms <= self.accuracy + far) & (eigenvalues >= least)

    @property
    def reached(self) -> float:
        """alpha', of any model that is accepted, with probability `1 - failure`; in units of a gradient."""
        curvature = math.sqrt(self.hessian_lipschitz * self.accuracy) + 2 * self.eigenvalue_slack
        return max(self.accuracy + 2 * self.gradient_slack, curvature**2 / self.hessian_lipschitz)

    @property
    def vacuous(self) -> bool:
        """Return whether any model may be accepted: a slack exceeds `gradient_bound` or `smoothness`."""
        least = math.sqrt(self.hessian_lipschitz * self.accuracy) + self.eigenvalue_slack
        return self.accuracy + self.gradient_slack >= self.gradient_bound or least >= self.smoothness


# ---------------------------------------------------------------- the oracle of a client
@dataclass(frozen=True, eq=False)
class GradientAndHessian(ReleasingOracle):
    """Lines 3 to 5 of Algorithm 4: the mean gradient and Hessian of all examples, noised, as one vector.

    Formal guarantees:
      A replaced example moves the vector by at most `2 sqrt(2) G / n`, twice its length `sqrt(G^2 + weight^2 d M^2)`
      over n: the upper triangle of a Hessian of norm M is at most `sqrt(d) M` long. T releases with Gaussian noise are
      accounted as such. Where derivatives are clipped that is enforced, and assumed otherwise.

    Args:
      derivatives: of the examples of each row.
      selection: the bounds, T, and the noise.
      noise_multiplier: `(rows,)` float64.

    Raises:
      ValueError: for another number of rows.

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
        """The oracle with the noise of a selection."""
        validate.instance(Selection, selection=selection)
        validate.provides("total", derivatives=derivatives)
        like = derivatives.total.double()
        return GradientAndHessian(derivatives, selection, torch.full_like(like, selection.noise_multiplier))

    def __post_init__(self) -> None:
        validate.provides("mean", "total", "basis", "apart", derivatives=self.derivatives)
        validate.instance(Selection, selection=self.selection)
        level = self.noise_multiplier
        validate.instance(Tensor, noise_multiplier=level)
        validate.same_length(noise_multiplier=level, total=self.derivatives.total)
        if level.dim() != 1 or level.dtype != torch.float64 or not bool(((level >= 0) & level.isfinite()).all()):
            given = validate.shown("noise_multiplier", level)
            raise ValueError(f"Expected {given} to be finite numbers >= 0, (rows,) and float64.")
        _ = self.releases, self._asked

    @cached_property
    def _asked(self) -> Ask:
        """The ask about every model."""
        # A copy: what the caller does to theirs would change the price of an answer, and not its noise.
        total, level = self.derivatives.total, self.noise_multiplier.clone()
        bound = Bound.of(self.selection.longest, total.double(), level, Relation.REPLACE_ONE, WHOLE)
        return Ask.with_multiplier(bound, level, gradients=total * (1 + self.selection.dim))  # a Hessian is dim of them

    @cached_property
    def releases(self) -> Releases:
        """The terms of its releases: what T of them cost, which is what one with `sqrt(T)` times less noise costs."""
        budget = 0.5 * self.selection.num_models / self.noise_multiplier**2
        mechanism = Gaussian("selection: gradient and Hessian") if self.selection.noise_multiplier else Exact()
        derivatives = self.derivatives
        return Releases(
            budget, Relation.REPLACE_ONE, WHOLE, derivatives.basis, mechanism, TOLERANCE, apart=derivatives.apart
        )

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The ask, which is the same for every model."""
        return (self._asked,)

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The mean over all examples."""
        mean = self.derivatives.mean(plan.x, self.selection.weight, self.selection.longest)
        return (Answer(mean.detach()),)  # a graph of what follows would hold it without noise

    def release(self, plan: ReleasePlan, streams: Streams) -> tuple[State, Estimate]:
        """As `ReleasingOracle.release`; the estimate is as wide where no run is granted one."""
        state, estimate = super().release(plan, streams)
        if estimate.gradient.shape[1] == self.selection.numbers_sent:
            return state, estimate
        return state, replace(estimate, gradient=plan.x.new_zeros(len(plan.x), self.selection.numbers_sent))

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """The bound on a gradient and a Hessian."""
        of_both = f"gradient and Hessian are at most {self.selection.longest:g} long as one vector"
        if self.releases.basis == "enforced":
            return (Assumption(f"of every example {of_both}: they are clipped", "enforced", True),)
        shown = int(meter.exceeded[run]) == 0
        return (Assumption(f"of every example {of_both}", self.releases.basis, None if shown else False),)


# ---------------------------------------------------------------- the front doors
@dataclass(frozen=True, eq=False)
class Selected:
    """The outcome for a list of models, `(runs,)` each.

    Args:
      index: the first model that was accepted; -1: none was.
      asked: models that the clients were asked about.
      norms: `(models, runs)`, of the server's gradients, which are released; NaN: not asked, as of what is no point.
      eigenvalues: `(models, runs)`, the smallest of the server's Hessians.
      guarantees: for every client of a run, of all that it sent.
      oracle: the clients.
      state: of theirs.
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
        """Return whether a model was accepted, `(runs,)` bool."""
        return self.index >= 0


def distributed_selection(
    models: Tensor, derivatives_of: Callable[[range], Derivatives], selection: Selection, streams: Streams, *,
    blocks: Blocks, as_printed: bool = False, not_covered: tuple[str, ...] = (),
) -> Selected:  # fmt: skip
    """Algorithm 4 "Distributed Private Model Selection", with the thresholds that its proof needs.

    The algorithm, by its lines:
      1. for t = 1 ... T                                             (here; it stops at the first that is accepted)
      2. every client j in parallel:                                 (`oracles.clients.Clients`)
      3.   gradient of f(x_t; S_j) + theta_{j,t}                     (`GradientAndHessian`)
      4.   Hessian of f(x_t; S_j) + H_{j,t}
      5.   send both to the server
      6. the server's means                                          (`oracles.blocks.Blocks.sum`)
      7. if both tests pass, 8. return x_t                           (`Selection.accepts`)

    It is not AboveThreshold: every model that is asked about is paid for, and so T of them are.

    Formal guarantees:
      What each client sends is (epsilon, delta)-DP under replace-one in its own examples, whoever sees it, for any
      models, also ones that depend on what was sent before. That answers are right with probability `1 - failure` rests
      on the models not depending on the examples that test them, and on examples within the bounds at each of them: of
      longer ones, which are clipped, the mean may be small where the objective's gradient is not.

    Args:
      models: `(models, runs, dim)`, at most `selection.num_models`; released already. One with a coordinate that is not
        finite is not asked about, and not accepted.
      derivatives_of: from the clients of a block to their examples; row `run * clients + place`.
      selection: what is sought, of all runs.
      streams: one key a run, from which the clients' follow; or secret ones. A second call with seeded ones
        draws the noise of the first again, and what both may claim does not add up.
      blocks: the clients, and which process computes them.
      as_printed: with the thresholds of the paper, under which nothing may be found.
      not_covered: what depends on the data and is in no release.

    Returns:
      The choice, and what was released about each model: NaN of one that was not asked about.

    Raises:
      ProcessLost: if another process dies, hangs or computes something else.
      ValueError: for other shapes, too many models, another number of clients than `selection.sizes`, or a client with
        another number of examples.

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
    validate.flag(as_printed=as_printed)
    _ = as_printed and selection.printed_slacks  # refused before anything is released
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
        if not bool(asked.any()):
            continue
        gradient, hessian = apart_again(estimate.gradient, selection.dim, selection.weight)
        norms[place] = gradient.norm(dim=1).masked_fill(~asked, torch.nan)
        eigenvalues[place] = smallest_eigenvalues(hessian).masked_fill(~asked, torch.nan)
        yes = asked & selection.accepts(norms[place], eigenvalues[place], as_printed=as_printed)
        index, going = index.masked_fill(yes, place), going & ~yes
    claims = oracle.guarantee(state, selection.delta, streams, not_covered=not_covered)
    return Selected(index, state.meter.calls[:, 0], norms, eigenvalues, claims, oracle, state)


def trusted_search(selection: Selection) -> search.Search:
    """AboveThreshold for a server that is trusted with exact means: what it takes to ask, of all clients together.

    Only the answers leave, and only a yes is paid for, so that neither noise nor slack grows with the dimension. An
    example of client j moves the mean over clients by `1 / (m n_j)` of what it moves its own, so the one with fewest
    examples says how far.

    Args:
      selection: what is sought.

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


def trusted_selection(
    models: Tensor, derivatives_of: Callable[[range], Derivatives], selection: Selection, streams: Streams, *,
    blocks: Blocks,
) -> search.Selection:  # fmt: skip
    """The same models, tested by a server that is trusted: `privacy.search.select_stationary_point` on all examples.

    Central privacy, not that of Definition 3: the server sees every client's exact means. What it publishes, the
    index, is (epsilon, 0)-DP under replace-one in the examples of any client, if their bounds hold, which is assumed:
    `trusted_search(selection).guarantee`. Longer ones are clipped as one vector, so that one outside its bounds moves
    the norm at most sqrt(2) times as far as is assumed, and an eigenvalue 2 sqrt(d) times.

    Args:
      models: as `distributed_selection`.
      derivatives_of: as there.
      selection: as there; its delta is not used.
      streams: one key a run.
      blocks: the clients, in one process.

    Raises:
      ValueError: as there, or for more than one process.
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

    return search.select_stationary_point(
        trusted_search(selection),
        models,
        lambda x: mean(x)[:, : selection.dim].norm(dim=1).masked_fill(~_is_point(x), torch.nan),
        lambda x: smallest_eigenvalues(apart_again(mean(x), selection.dim, selection.weight)[1]),
        streams,
    )


def _is_point(x: Tensor) -> Tensor:
    """Return whether each model is finite, `(runs,)` bool."""
    return x.isfinite().all(1)


def _check(models: Tensor, selection: Selection, streams: Streams, blocks: Blocks) -> None:
    validate.instance(Selection, selection=selection)
    validate.instance(Blocks, blocks=blocks)
    validate.instance(Streams, streams=streams)
    validate.instance(Tensor, models=models)
    if models.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"Expected models of {models.dtype} to be of float32 or float64.")
    shape = (len(streams), selection.dim)
    if models.dim() != 3 or models.shape[1:] != shape or not 1 <= len(models) <= selection.num_models:
        raise ValueError(
            f"Expected models of shape {tuple(models.shape)} to be (models, {shape[0]}, {shape[1]}), from 1 to "
            f"num_models={selection.num_models} of them."
        )
    if blocks.num_clients != len(selection.sizes):
        raise ValueError(f"Expected num_clients={blocks.num_clients} to be {len(selection.sizes)}, as sizes says.")


def _sized(
    derivatives_of: Callable[[range], Derivatives], selection: Selection, members: range, runs: int
) -> GradientAndHessian:
    """The oracle of a block, whose clients have as many examples as the selection says: its slack rests on them."""
    derivatives = derivatives_of(members)
    validate.provides("mean", "total", "basis", "apart", derivatives_of=derivatives)
    sizes = [selection.sizes[client] for client in members] * runs
    if derivatives.total.tolist() != sizes:
        raise ValueError(f"Expected examples={derivatives.total.tolist()} of clients {members} to be sizes={sizes}.")
    return GradientAndHessian.of(derivatives, selection)
