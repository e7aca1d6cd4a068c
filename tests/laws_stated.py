"""The laws of oracles, mechanisms and methods; each raises an AssertionError that begins with "Expected"."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any
from unittest import mock

import pytest
import torch
from laws_data import (
    DIM,
    DTYPES,
    LOSS,
    STEPS,
    Bowls,
    Factory,
    G,
    M,
    N,
    Play,
    asked_alike,
    data_sets,
    keys,
    moves,
    on_neighbours,
    overheard,
    path,
    play,
)
from modules import Both
from torch import Tensor, nn

from dpnotes.core import FRESH, WHOLE, Estimate, Mechanism, Method, Oracle, Relation, Request, Sensitive, Status
from dpnotes.guarantees import ALLOWED, CombinationError, Sampling
from dpnotes.oracles.samples import DataSetSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.util.states import flatten, map_state

ATTAINED = 0.9  # share of a sensitivity that some neighbour must reach
UNPRICED = ("exceeded", "checked")  # exact counts over the data, which a guarantee does not cover
FIXED, POISSON = Sampling.fixed_size(4, N), Sampling.poisson(0.2)
MEMBERS = {  # members of each kind, and the members that a wrapper class implements itself
    kind: ([member for member in vars(kind) if not member.startswith("_")], act)
    for kind, act in {Oracle: "estimate", Mechanism: "release", Method: "step"}.items()
}


# ---------------------------------------------------------------- laws of oracles
def kinds(make: Factory, seen: Play) -> list[str]:
    """Return the kind of every release of a play: those that the oracle names in `kinds`, in a step's order.

    Each release is a kind of its own for an oracle that names none.
    """
    named = getattr(make(Bowls(data_sets(True)[:1]), 1), "kinds", None)
    if named is None:
        return [f"release {place}" for place in range(len(seen.released))]
    for step in seen.requests:
        assert len(step) in (0, len(named)), f"Expected a release of each kind, {named}, in a step, got {len(step)}."
    return [kind for step in seen.requests for kind in named[: len(step)]]


def sensitivity(make: Factory) -> None:
    """1: a neighbour moves no answer of a run by more than the declared sensitivity; some reach it, for every kind."""
    noise_alone, answered = on_neighbours(make), on_neighbours(make, aside=False)
    for pair, (one, two, tolerance, dtype) in enumerate([*noise_alone, *answered]):
        attained: dict[str, float] = {}
        for place, (kind, (moved, request)) in enumerate(zip(kinds(make, one), moves(one, two), strict=True)):
            declared = request.answer.l2_sensitivity.double()
            # A difference of gradients has the rounding errors of both.
            slack = tolerance * declared + 8 * torch.finfo(dtype).eps * G
            worst = float((moved - declared - slack).nan_to_num(nan=torch.inf).max())
            least = worst + float(declared.max())
            assert worst <= 0, f"Expected l2_sensitivity to be {least:.3g} or more in release {place}."
            if bool((request.active & (declared > 0)).any()):
                share = float((moved / declared.clamp_min(1e-300)).max())
                attained[kind] = max(share, attained.get(kind, 0.0))
        if pair >= len(noise_alone):  # a bound that follows answers may be above all that tame data reach
            continue
        for kind, share in attained.items():
            assert share > ATTAINED, f"Expected neighbours to reach l2_sensitivity of {kind}, got {share:.3g} of it."
        assert attained, "Expected neighbours to reach l2_sensitivity, got releases that it is 0 of."


def leaks(make: Factory) -> None:
    """Check that all but the mechanisms' answers is independent of the data: refusals, costs, points, meters."""
    rows = data_sets(True)  # once the answers are hidden, any two data sets must behave like neighbours
    others = [0 * rows, -rows, 1e3 * rows, rows.flip(1) + 2 * LOSS, torch.nan * rows]
    plays = [play(make(Bowls(data), len(data)), Streams.of(0, range(3)), torch.float64) for data in (rows, *others)]
    pairs = [(one, two) for one, two, _, _ in [*on_neighbours(make), *on_neighbours(make, aside=False)]]
    pairs += [(plays[0], other) for other in plays[1:]]
    for one, two in pairs:
        for left, right in zip(one.results, two.results, strict=True):
            same(left, right, "to be public")
        for left, right in asked_alike(one, two):
            assert {left.answer.sampling, right.answer.sampling} == {one.released[0][0].answer.sampling}
            assert {left.answer.relation, right.answer.relation} == {one.released[0][0].answer.relation}


def public(value: Any) -> dict[str, Tensor]:
    """Return the tensors of a state or an estimate, without exact counts."""
    if isinstance(value, Estimate):
        parts = {name: part for name, part in vars(value).items() if isinstance(part, Tensor)}
        none = torch.zeros_like(value.status)
        return {"num_evaluations": none, "price": value.price.rho(), "charged": value.price.charged} | parts
    return {name: tensor for name, tensor in flatten(value).items() if name.rpartition(".")[2] not in UNPRICED}


def same(one: Any, other: Any, what: str, left: Any = slice(None), right: Any = slice(None)) -> None:
    """Check that rows of two states, or of two estimates, have the same bits."""
    others = public(other)
    for name, tensor in public(one).items():
        here, there = tensor[left], others[name][right]
        nan = (here != here) & (there != there)  # two of them are the same, too
        assert here.shape == there.shape and bool(((here == there) | nan).all()), f"Expected {name} {what}."


def price(make: Factory) -> None:
    """2: the effect of neighbours costs at most the amount that was priced, metered, declared and claimed."""
    for one, two, tolerance, _ in [*on_neighbours(make), *on_neighbours(make, aside=False)]:
        more = 1 + 100 * tolerance
        cost = sum(0.5 * (moved / request.noise_std.double()) ** 2 for moved, request in moves(one, two))
        reused = fresh = torch.zeros(len(one.estimates[0].gradient), dtype=torch.float64)
        for estimate, requests in zip(one.estimates, one.requests, strict=True):
            rho, charged = estimate.price.rho(), estimate.price.charged
            paid = sum((p.rho() for _, _, p in requests), torch.zeros_like(rho))
            assert torch.allclose(rho, paid, rtol=1e-9), "Expected the estimate's price to be that of its releases."
            assert torch.equal(charged, requests[0][0].active if requests else charged & False)
            if estimate.price.sampling == FRESH:
                fresh = torch.maximum(fresh, rho)
            else:
                reused = reused + rho
        spent = one.states[-1].meter.spent.flatten()  # of one client per run, if there are clients
        assert (cost <= spent * more).all(), "Expected what neighbours tell apart to be paid."
        assert torch.allclose(spent, reused + fresh, rtol=1e-9), "Expected the meter to hold what was paid."
        oracle = make(Bowls(data_sets(True)[:1]), len(spent))
        assert (spent <= oracle.declared() * (1 + 1e-9)).all() and bool((spent > 0).all())
        claimed = sum(0.5 * event.count / event.noise_multiplier**2 for event in oracle.events(0))
        assert float(spent[0]) <= claimed * (1 + 1e-9), "Expected the claim to cover what was spent."
        answer = one.released[0][0].answer
        assert {(event.relation, event.sampling) for event in oracle.events(0)} == {(answer.relation, answer.sampling)}


def claims(make: Factory) -> None:
    """2: the claimed epsilon is at least the exact one of a neighbour, for reused data and for data used once."""
    one, two, *_ = on_neighbours(make)[0]
    told = torch.stack([0.5 * (moved / request.noise_std) ** 2 for moved, request in moves(one, two)]).sum(0)
    index, oracle = told.argmax()[None], make(Bowls(data_sets(True)[:1]), len(told))
    state = map_state(lambda tensor: tensor[index], one.states[-1])
    (claim,) = oracle.take(index).guarantee(state, 1e-5, Streams.secure(1))
    assert claim.holds, f"Expected what holds to be claimed: {claim}"
    if {request.answer.sampling for request, *_ in one.released} <= {FRESH, WHOLE}:
        neighbour = rho_to_epsilon(float(told.max()), 1e-5)
        assert neighbour <= claim.epsilon * (1 + 1e-6), f"Expected epsilon of {neighbour:.4g}, a neighbour's, or more."


def unbiased(make: Factory) -> None:
    """3: for equal examples an estimate without noise is their gradient; for Poisson batches its mean over runs is.

    The noise is that of the same transcript played again: of the same scales, where they follow from what was released.
    """
    rows, runs = data_sets(True)[1:2], 1000
    streams, oracle = Streams(keys("unbiased", runs)), make(Bowls(rows), runs)
    whole = play(oracle, streams, torch.float64, aside=False)
    noise = play(oracle, streams, torch.float64, transcript=whole)
    compared = 0
    for step, (left, right) in enumerate(zip(whole.estimates, noise.estimates, strict=True)):
        if not bool((left.status + right.status).any()):
            exact = (left.gradient - right.gradient)[:, :DIM]  # other estimated values come after the gradient
            error = exact - (rows[0, 0, :DIM] + rows[0, 0, DIM] * path(step, runs, torch.float64))
            near = error.mean(0).abs() <= 5 * error.std(0) / runs**0.5 + 1e-9
            assert near.all(), f"Expected the gradient in step {step}."
            compared += 1
    assert compared, "Expected an estimate in some step."


def varied(oracle: Any, runs: int) -> Any:
    """Return the oracle with different numbers in every run: more noise, a larger budget."""
    own = {f.name: getattr(oracle, f.name) for f in fields(oracle)}
    more = {name: value for name, value in own.items() if isinstance(value, Tensor) and value.shape == (runs,)}
    return replace(oracle, **{name: value * (1 + 0.1 * (torch.arange(runs) % 4)) for name, value in more.items()})


def sampled(make: Factory) -> None:
    """6: random batches have the accounted distribution: their sizes, and independence of examples, steps and runs."""
    rows, runs = torch.zeros(1, N, 5, dtype=torch.float64), 10_000
    (probe, *_), *_ = play(make(Bowls(rows), 1), Streams.of("sampled", [0]), torch.float64, 1).released
    sampling = probe.answer.sampling
    if sampling.scheme not in ("poisson", "fixed-size"):
        return
    rows[0, :, 2] = rows[0, 0, 0] = rows[0, -1, 1] = 0.9 * G
    rows[0, 0, 2] = rows[0, -1, 2] = 0
    seen = play(make(Bowls(rows), runs), Streams(keys("sampled", runs)), torch.float64, STEPS).released
    values = torch.stack([request.answer.value for request, _, _ in seen])  # (steps, runs, DIM)
    counts = (values / values[..., :2].max()).round().long()
    size, (first, last) = counts.sum(2), counts[..., :2].bool().unbind(2)
    k, n, rate = torch.arange(N + 1.0).double(), N, sampling.rate
    ways = (torch.lgamma(k.new_tensor(n + 1)) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)).exp()
    sizes, both = (k == sampling.batch_size).double(), rate * (rate * n - 1) / (n - 1)
    if sampling.scheme == "poisson":
        sizes, both = ways * rate**k * (1 - rate) ** (n - k), rate**2
    expected = [(size >= least, float(sizes[least:].sum())) for least in range(n + 1)]
    expected += [(first, rate), (last, rate), (first & last, both), (first[1:] & first[:-1], rate**2)]
    expected += [(first[:, 1:] & first[:, :-1], rate**2)]
    for happened, chance in expected:
        off = abs(float(happened.double().mean()) - chance) / (chance * (1 - chance) / happened.numel() + 1e-12) ** 0.5
        assert off < 6, f"Expected a chance of {chance:.4g}, got {float(happened.double().mean()):.4g}."


def alone(make: Factory) -> None:
    """5: a run alone, or beside inactive runs, equals the run in its batch, to the bit except for sums.

    Four of twelve runs are compared, the first, the last and two others: one for each remainder by which runs differ.
    """
    for dtype in DTYPES:
        rows, runs = data_sets(True)[:1].to(dtype), 12
        streams, active = Streams.of("alone", range(runs)), torch.arange(runs) % 3 > 0
        oracle = varied(make(Bowls(rows), runs), runs)
        whole, some = play(oracle, streams, dtype), play(oracle, streams, dtype, active=active)
        for run in (0, 5, 10, 11):
            index = torch.tensor([run])
            single = play(oracle.take(index), streams.take(index), dtype, runs=index)
            for together in (some, whole) if active[run] else (whole,):
                for left, right in zip(together.results, single.results, strict=True):
                    same(left, right, f"of run {run} to be that of the run alone", index)
                for left, right in zip(together.requests, single.requests, strict=True):
                    for (request, *_), (other, *_) in zip(left, right, strict=False):  # empty if all are refused
                        # Sums over padded batches are rounded in another order.
                        near = torch.allclose(request.answer.value[index], other.answer.value, 0, DTYPES[dtype])
                        assert near or not request.active[run], f"Expected the answer of run {run} to be that alone."
        before = oracle.init(path(0, runs, dtype))
        for state, estimate in zip(some.states, some.estimates, strict=True):
            same(state, before, "of the idle to stay", ~active, ~active)
            kept = [estimate.gradient, estimate.num_gradients, estimate.price.charged, estimate.status]
            assert not any(bool(tensor[~active].any()) for tensor in kept), "Expected the idle to get and pay nothing."


def refusals(make: Factory) -> None:
    """2: a refused run gets nothing, draws nothing, pays nothing, and its meter never goes back."""
    streams = Streams.of("refused", range(3))
    seen = play(make(Bowls(data_sets(True)[:1]), 3), streams, torch.float64, 5 * STEPS)
    last = flatten(seen.states[0].meter)
    for state, estimate, requests in zip(seen.states, seen.estimates, seen.requests, strict=True):
        refused, meter = estimate.status != Status.OK, flatten(state.meter)
        kept = [estimate.gradient, estimate.num_gradients, estimate.price.charged]
        kept += [request.active for request, *_ in requests]
        assert not any(bool(tensor[refused].any()) for tensor in kept), "Expected the refused to get and pay nothing."
        for name, before in last.items():
            assert (meter[name] >= before).all(), f"Expected meter.{name} to go on."
            assert torch.equal(meter[name][refused], before[refused]), f"Expected meter.{name} of the refused to stay."
        last = meter
    assert bool((seen.estimates[-1].status != Status.OK).all()), "Expected every run to be refused in the end."


def once(make: Factory) -> None:
    """A state releases once; restoring other parts of the state beside its meter does not change this."""
    oracle, streams, every = make(Bowls(data_sets(True)[:1]), 2), Streams.of(0, range(2)), torch.tensor([True, True])
    x = path(0, 2, torch.float64)
    before = oracle.init(x)
    after, _ = oracle.estimate(before, x, streams, every)
    for released in (before, replace(before, memory=after.memory)):
        with pytest.raises(ValueError, match="Expected state to have released nothing yet"):
            oracle.estimate(released, x, streams, every)
    later, _ = oracle.estimate(after, path(1, 2, torch.float64), streams, every)
    if hasattr(oracle, "rollback"):
        for refresh in (True, False):
            back = oracle.rollback(later, after, every, refresh=refresh)
            assert back.meter is later.meter, "Expected rollback to leave the meter."


@contextmanager
def drawn(secret: bool) -> Iterator[list[tuple[str, tuple[int, ...], int]]]:
    """Record the draws from secret streams, or from seeded ones, while this lasts: purpose, calls and first element."""
    found: list[tuple[str, tuple[int, ...], int]] = []
    numbers, words = Streams._numbers, Streams.words

    def note(streams: Streams, purpose: str, call: Any, start: int) -> None:
        if streams.secret == secret:
            key = (streams.keys if streams._replayed is None else streams._replayed)[0]
            found.append((f"{purpose} of {key.tolist()}", tuple(torch.as_tensor(call).reshape(-1).tolist()), start))

    def noted_numbers(streams: Streams, kind: Any, purpose: str, call: Any, size: int, start: int) -> Tensor:
        note(streams, purpose, call, start)
        return numbers(streams, kind, purpose, call, size, start)

    def noted_words(streams: Streams, purpose: str, call: Any, num_blocks: int) -> tuple[Tensor, ...]:
        note(streams, purpose, call, 0)
        return words(streams, purpose, call, num_blocks)

    with mock.patch.object(Streams, "_numbers", noted_numbers), mock.patch.object(Streams, "words", noted_words):
        yield found


def drawn_once(make: Factory) -> None:
    """4: no two releases have the same noise, and nothing is drawn twice for the same purpose and call."""
    seen = play(make(Bowls(data_sets(True)[:1]), 4), Streams.of("once", range(4)), torch.float64)
    noise = torch.cat([value[request.active, :1] for request, value, _ in seen.released])[:, 0]
    assert len(noise) > 4 and len(noise.unique()) == len(noise), (
        "Expected every release to have noise of its own, once."
    )
    with drawn(secret=True) as asked:
        play(make(Bowls(data_sets(True)[:1]), 1), Streams.secure(1), torch.float64)
    assert len({*asked}) == len(asked), "Expected every purpose and call to be drawn for once."


MIXING: dict[str, Callable[[Tensor], Tensor]] = {
    "sorts": lambda h: h.sort(0).values,
    "gates": lambda h: h * (h.mean(0) > 0),
    "sums": lambda h: h.cumsum(0),
}


def modules(make: Factory) -> None:
    """1: the same law for modules whose code sorts, gates or sums its batch."""
    for name, function in MIXING.items():
        inputs = 30 * Streams.of("modules", [0]).normal(name, 0, DIM * N).view(N, DIM)

        def asked(inputs: Tensor, function: Any = function) -> Play:
            labels = torch.ones(len(inputs), dtype=torch.float64)
            loss = lambda h, y: (h[:, 0] - y).square()  # noqa: E731
            module = Both(lambda m, x: function(m.layer(x)), layer=nn.Linear(DIM, 1, bias=False, dtype=torch.float64))
            problem = ModuleProblem(module, inputs, labels, loss=loss)
            return play(make(problem, 1), Streams.of("modules", [0]), torch.float64, 2)

        base = asked(inputs)
        answer = base.released[0][0].answer
        if answer.basis != "enforced":
            return
        last = inputs[-1:]
        other = {Relation.ADD_OR_REMOVE: last[:0], Relation.ZERO_OUT: 0 * last, Relation.REPLACE_ONE: -9 * last}
        for moved, request in moves(base, asked(torch.cat([inputs[:-1], other[answer.relation]]))):
            bounded = (moved <= request.answer.l2_sensitivity * (1 + 1e-9)).all()
            assert bounded, f"Expected l2_sensitivity to hold for a module that {name} its batch."


# ---------------------------------------------------------------- laws of mechanisms
SENSITIVITIES, SPREAD, CALLS = (0.5, 0.25, 1.0), 1.3, 8  # sensitivities in turn; standard deviation of the noise


def asked_of(
    mechanism: Any, sampling: Sampling, streams: Streams, calls: int, active: Any = True, runs: Any = None,
    relation: Relation = Relation.REPLACE_ONE, dtype: Any = torch.float64,
) -> list[Any]:  # fmt: skip
    """Request releases with different numbers in every run and coordinate; return noise, prices, costs and state.

    The noise has standard deviation `SPREAD` in every run, and prices are for a sensitivity of `SENSITIVITIES`.
    """
    runs = torch.arange(len(streams)) if runs is None else runs
    dim = 1 if isinstance(mechanism, Laplace) else DIM
    ones, more, further = torch.ones(len(runs), dtype=torch.float64), 1.0 + runs % 3, 1.0 + runs % 2
    exact = (5 + runs[:, None] % 7 * torch.arange(1, dim + 1)).to(dtype)
    state, call, seen = mechanism.init(exact), torch.zeros(len(ones), dtype=torch.int64), []
    active = (ones > 0) & active
    for step in range(calls):
        restart, scale = torch.full_like(active, step % CALLS == 0), SENSITIVITIES[step % 3] * further * ones
        answer = Sensitive(exact, scale, relation, "proved", sampling)
        cost = mechanism.cost(state, SPREAD * more / scale, sampling, restart)
        request = Request(answer, SPREAD * more * ones, call, active, restart)
        state, value, price = mechanism.release(state, request, streams)
        noise = ((value - exact).double() / more[:, None]).where(active[:, None], value.double())
        seen.append((noise, price, cost, state, (more / further) ** 2 * price.rho()))
        call = call + active
    return seen


def covariance(make: Factory) -> None:
    """4: the drawn noise is worth the charged cost, for an example in one of the releases and for one in all."""
    mechanism = make()
    runs, calls = (1000, 2) if isinstance(mechanism, DiscreteGaussian) else (20_000, CALLS)
    scales = torch.tensor([SENSITIVITIES[step % 3] for step in range(calls)]).double()
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * calls)
    for sampling in (FRESH, WHOLE):
        seen = asked_of(mechanism, sampling, Streams(keys("covariance", runs)), calls)
        noise = torch.stack([each for each, *_ in seen])  # (calls, runs, dim)
        rho = torch.stack([each for *_, each in seen])
        assert torch.allclose(rho, rho[:, :1], rtol=1e-9), "Expected a price of every run's own noise and sensitivity."
        if bool(rho.isinf().all()):
            assert not bool(noise.any()), "Expected noise to be worth something."
            continue
        kind, error = seen[0][1].noise, (2 / runs) ** 0.5  # relative error of a variance
        for one in noise.unbind(2):
            told = 0.5 * scales[:, None] * torch.linalg.inv(one @ one.T / runs) * scales
            worth = told.diagonal() if sampling == FRESH else ((signs @ told) * signs).sum(1).max()[None]
            # Laplace noise is charged by its scale, which is its standard deviation divided by sqrt(2).
            charged = (rho[:, 0] if sampling == FRESH else rho[:, 0].sum()[None]) / (2 if kind == "laplace" else 1)
            off = (charged / worth - 1).abs().max()
            assert off < 5 * error, f"Expected a price of {worth.tolist()} for this noise, not {charged.tolist()}."
        for one, other in itertools.combinations((noise / noise.square().mean(1, keepdim=True).sqrt()).unbind(2), 2):
            together = (one * other).mean(1).abs().max()
            assert together < 5 * error, f"Expected coordinates to have noise of their own, got {together:.3g}."
        fourth = (noise**4).mean((1, 2)) / noise.square().mean((1, 2)) ** 2
        normal = (6.0, 5 * (2520 / runs) ** 0.5) if kind == "laplace" else (3.0, 5 * (96 / runs) ** 0.5)
        assert (fourth - normal[0]).abs().max() < normal[1], f"Expected the noise that is named, got {fourth.tolist()}."


def asking(make: Factory) -> None:
    """2: the stated cost equals the price; inactive runs get and pay nothing; calls and runs differ.

    The noise depends on the run's streams and on the request, not on the run's place, the data's type or other runs.
    """
    streams, active, calls = Streams.of("asking", range(4)), torch.tensor([True, False, True, True]), 3
    some, whole = asked_of(make(), FRESH, streams, calls, active), asked_of(make(), FRESH, streams, calls)
    start = make().init(torch.ones(4, DIM, dtype=torch.float64))
    seeded = not isinstance(make(), DiscreteGaussian)  # its noise comes from the operating system
    for (value, price, cost, state, _), (other, *_, other_state, _) in zip(some, whole, strict=True):
        assert torch.allclose(price.rho()[active], cost[active], rtol=1e-12), "Expected the cost that was said before."
        nothing = not bool(value[~active].any()) and torch.equal(price.charged, active)
        assert nothing, "Expected the idle to get and pay nothing."
        same(state, start, "memory of the idle to stay", ~active, ~active)
        same(state, other_state, "memory to be that beside other runs", active, active)
        assert not seeded or torch.equal(value[active], other[active]), (
            "Expected the noise that is drawn beside others."
        )
    if isinstance(make(), Exact):
        return
    others = asked_of(make(), FRESH, Streams.of("others", range(4)), calls)
    values = torch.cat([value.flatten() for value, *_ in [*whole, *others]])
    assert len(values.unique()) == len(values), "Expected noise of its own."
    run, more = torch.tensor([2]), 2 * CALLS if seeded else calls  # a second sum
    long = asked_of(make(), FRESH, Streams.of("asking", range(40)), more)
    by_itself = asked_of(make(), FRESH, streams.take(run), more, runs=run)
    alone = all(torch.equal(one[0][run], other[0]) for one, other in zip(long, by_itself, strict=True))
    assert not seeded or alone, "Expected noise to follow from the run's streams, not from its place."
    for (first, *_), (again, *_) in zip(long[:CALLS], long[CALLS:], strict=False):
        assert 0.4 < again.std() / first.std() < 2.5, "Expected a second sum to have as much noise."
    for (scheme, relation), dtype in itertools.product(ALLOWED, DTYPES):
        try:
            sampling = {"whole": WHOLE, "fresh": FRESH, "poisson": POISSON, "fixed-size": FIXED}[scheme]
            there = asked_of(make(), sampling, streams, calls, relation=relation, dtype=dtype)
        except CombinationError:
            continue
        for (noise, *_), (value, price, *_) in zip(whole, there, strict=True):
            alike = torch.allclose(noise, value, rtol=1e-5, atol=1e-5)
            assert not seeded or alike, f"Expected the same noise for {scheme} and {relation}."
            assert (price.relation, price.sampling) == (relation, sampling), "Expected the price of what was asked."


# ---------------------------------------------------------------- laws of methods
def steps_of(method: Any, problem: Any, streams: Streams, runs: int, change: Any = None) -> list[tuple[Any, Estimate]]:
    """Return all steps of a method on SPIDER whose mechanism releases noise alone, until no run has budget left."""
    budget = torch.tensor([1.0, 0.4, 0.7] * 9, dtype=torch.float64)[:runs]
    oracle: Any = Spider(
        DataSetSamples(problem), Gaussian(), 4.0, budget, Refresh.every(5), BatchSizes(4), G, M, sampling=WHOLE
    )
    oracle, seen = Reserved(oracle if change is None else change(oracle)), []
    x = 0.05 * Streams.of("laws: start", [0]).normal("x", 0, DIM * runs).view(runs, DIM)
    state = method.init(x, oracle)
    for _ in range(40):
        with overheard([], {Gaussian}):
            state, estimate = method.step(state, oracle, streams)
        seen.append((state, estimate))
    return seen


def estimates_alone(make: Factory) -> None:
    """Check that a method depends on its estimates alone: other data with the same transcript give the same moves."""
    streams = Streams.of("methods", range(3))
    one, two = (
        steps_of(make(), Bowls(rows[None]), streams, 3, change)
        for rows, change in zip(data_sets(False), (None, Exceeding), strict=True)
    )
    for (left, _), (right, _) in zip(one, two, strict=True):
        same(left, right, "to follow from the estimates")


def one_by_one(make: Factory) -> None:
    """5: a run alone equals the run in its batch, to the bit; nothing is drawn twice, by method or mechanism."""
    streams, problem = Streams.of("methods", range(3)), Bowls(data_sets(True)[:1])
    whole = steps_of(make(), problem, streams, 3)
    for (left, _), (right, _) in zip(whole, steps_of(make(), problem, streams.take(slice(0, 1)), 1), strict=True):
        same(left, right, "of the first run to be that of the run alone", slice(0, 1))
    with drawn(secret=False) as asked:
        steps_of(make(), problem, streams, 3)
    ended = {purpose: (purpose, *last) for purpose, *last in asked}.values()  # ended runs stay at their last call
    before = [each for each in asked if each not in ended]
    assert len({*before}) == len(before), "Expected every purpose and call to be drawn for once."


def stopping(make: Factory) -> None:
    """A run that ended stays and pays nothing; a run whose next point is not finite stays in place, DIVERGED."""
    streams, problem = Streams.of("methods", range(3)), Bowls(data_sets(True)[:1])
    seen = steps_of(make(), problem, streams, 3)
    for (before, _), (state, estimate) in itertools.pairwise(seen):
        ended = before.status != Status.OK
        same(state, before, "of a run that ended to stay", ended, ended)
        assert not bool(estimate.price.charged[ended].any()), "Expected a run that ended to pay nothing."
    last = seen[-1][0]
    assert bool((last.status != Status.OK).all()) and torch.equal(make().output(last), last.x)
    seen = steps_of(make(), problem, streams, 3, Overflowing)
    for state in (seen[0][0], seen[-1][0]):
        assert state.status[1] == Status.DIVERGED and bool(state.x.isfinite().all()), "Expected the status DIVERGED."
    assert torch.equal(seen[0][0].x[1], seen[-1][0].x[1]) and seen[0][0].status[0] == Status.OK


class Reserved:
    """An oracle that exposes only the attributes that a method may use."""

    def __init__(self, oracle: Any) -> None:
        self._oracle = oracle

    def __getattr__(self, name: str) -> Any:
        allowed = {*MEMBERS[Oracle][0], "rollback", "forget_drift"}
        assert name in allowed, f"Expected a method to ask its oracle for {sorted(allowed)}, not for {name}."
        return getattr(self._oracle, name)


class Exceeding(Reserved):
    """An oracle that observed exceeded bounds: exact counts, which a method must ignore."""

    def estimate(self, *arguments: Any) -> tuple[Any, Estimate]:
        state, estimate = self._oracle.estimate(*arguments)
        meter = state.meter
        return replace(state, meter=replace(meter, exceeded=meter.calls, checked=4 * meter.calls)), estimate


class Overflowing(Reserved):
    """An oracle whose second run gets an estimate that is not finite."""

    def estimate(self, *arguments: Any) -> tuple[Any, Estimate]:
        state, estimate = self._oracle.estimate(*arguments)
        second = torch.arange(len(estimate.gradient)) == 1
        return state, replace(estimate, gradient=estimate.gradient.masked_fill(second[:, None], torch.inf))


LAWS: dict[type, tuple[Callable[[Factory], None], ...]] = {
    Oracle: (sensitivity, leaks, price, claims, unbiased, sampled, alone, refusals, once, drawn_once, modules),
    Mechanism: (covariance, asking),
    Method: (estimates_alone, one_by_one, stopping),
}
