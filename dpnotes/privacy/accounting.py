"""From what was released to (epsilon, delta), and back: the accountants, and what a run may claim.

`account` takes a list of events (`dpnotes.privacy.events`) to a guarantee. Which accountants know them follows from how
the examples were sampled and who is a neighbour, and of those the one with the least epsilon is taken. Whole and fresh
batches with Gaussian noise have a closed form that is exact; random batches, Laplace noise and pure mechanisms go
through privacy loss distributions, near the least unless delta is so small that rounding counts; what no such
distribution holds through Renyi divergences; of what is only known to be zCDP the cost is converted. No claim is above
that of the same noise on whole batches: drawing batches at random costs nothing. Sampling, sensitivity and accountant
that do not go together are an error.

Three conversions from zCDP, each an upper bound on the true epsilon:

* "classic": `rho + 2 sqrt(rho ln(1/delta))` (Bun and Steinke 2016, arXiv:1605.02065v1, Proposition 1.3);
* "tight": the best over the Renyi orders (Canonne, Kamath and Steinke 2020, arXiv:2004.00010v6, Proposition 12);
  both hold for every rho-zCDP mechanism;
* "exact": for Gaussian releases that cost rho in all. With noise that was fixed in advance they compose to one Gaussian
  mechanism (Dong, Roth and Su 2019, arXiv:1905.02383v3, Corollary 3.3), whose epsilon is known exactly (Balle and
  Wang 2018, arXiv:1805.06530v2, Theorem 8); nothing smaller can be claimed. Where noise follows from what was released,
  and a filter keeps the sum of the costs below rho, they are together no worse than that one (Smith and Thakurta 2022,
  arXiv:2210.17520).
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, get_args

from dpnotes.core import Ledger
from dpnotes.guarantees import (
    FRESH,
    Assumption,
    CombinationError,
    Guarantee,
    Noise,
    Relation,
    Scheme,
    assumptions_of_runs,
)
from dpnotes.privacy import pld
from dpnotes.privacy.events import Event, clipped_sensitivity, events_of, merged, to_dp_event
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import NonNegative, Positive, Probability, checked

Conversion = Literal["classic", "tight", "exact"]
CONVERSIONS: tuple[Conversion, ...] = ("classic", "tight", "exact")
# Below this the better conversions are differences of nearly equal numbers, and may be rounded to 0.
_LEAST_RHO = 1e-18
# Below this they have lost digits, of epsilon up to 3e-6 of itself (by mpmath): more than that is added.
_LITTLE_RHO = 1e-9


@checked
def rho_to_epsilon(rho: NonNegative, delta: Probability, conversion: Conversion = "exact") -> float:
    """The epsilon of a rho-zCDP mechanism ("exact": of Gaussian releases that cost rho).

    Double precision lets the delta that is reached be above it, by a millionth of itself at most, and below a rho of
    1e-15 by 2e-4.

    Args:
      rho: zCDP parameter, at least 0.
      delta: in (0, 1).
      conversion: "classic", "tight" or "exact".

    Example:
      >>> [round(rho_to_epsilon(1.0, 1e-5, c), 3) for c in CONVERSIONS]
      [7.786, 7.077, 6.573]
    """
    if rho == 0:
        return 0.0
    if conversion == "classic" or rho < _LEAST_RHO:
        return rho + 2 * math.sqrt(rho * math.log(1 / delta))
    if conversion == "tight":
        return _tight_epsilon(rho, delta)
    return _gaussian_epsilon(rho, delta)


@lru_cache(maxsize=1024)  # the runs of a batch ask the same, each for itself
def _gaussian_epsilon(rho: float, delta: float) -> float:
    from dp_accounting import get_epsilon_gaussian

    with warnings.catch_warnings():  # a tiny rho takes the logarithm of 0 on the way to epsilon = 0
        warnings.simplefilter("ignore", RuntimeWarning)
        epsilon = float(get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta))
    return epsilon if rho > _LITTLE_RHO else epsilon * (1 + 1e-5)


@lru_cache(maxsize=1024)
def _tight_epsilon(rho: float, delta: float) -> float:
    from scipy.optimize import minimize_scalar

    def epsilon(log_excess: float) -> float:  # of the Renyi order 1 + exp(log_excess); every order gives a bound
        excess = math.exp(log_excess)  # the order itself may round to 1
        log_order = math.log1p(excess)
        return rho + excess * rho + log_excess - log_order - (math.log(delta) + log_order) / excess

    # The best order is near 1 + sqrt(ln(1/delta) / rho); the bracket is wide around it.
    centre = 0.5 * math.log(-math.log(delta) / rho)  # the inverse of a subnormal delta is infinite
    best = minimize_scalar(epsilon, bounds=(centre - 6, centre + 6), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(best.fun))


@checked
def epsilon_to_rho(epsilon: Positive, delta: Probability, conversion: Conversion = "exact") -> float:
    """The largest zCDP budget that a conversion allows, on the private side of the root.

    Args:
      epsilon: above 0.
      delta: in (0, 1).
      conversion: "classic", "tight" or "exact".

    Returns:
      rho with `rho_to_epsilon(rho, delta, conversion) <= epsilon`.

    Example:
      >>> round(epsilon_to_rho(4.0, 1e-8, "classic"), 6)
      0.196352
    """
    if conversion == "classic":  # the root in closed form, written so that nothing cancels
        log = math.log(1 / delta)
        root = (epsilon / (math.sqrt(epsilon + log) + math.sqrt(log))) ** 2
    else:
        from scipy.optimize import brentq

        high = epsilon
        while rho_to_epsilon(high, delta, conversion) <= epsilon:
            high *= 2
        root = float(brentq(lambda rho: rho_to_epsilon(rho, delta, conversion) - epsilon, 0.0, high, xtol=1e-300))  # type: ignore[arg-type]
    step = 2.0**-52
    while rho_to_epsilon(root, delta, conversion) > epsilon:  # to the private side, however the root was rounded
        root *= 1 - step
        step *= 2
    return root


def readings(rho: float, delta: float) -> tuple[Guarantee, Guarantee, Guarantee]:
    """Three true statements about Gaussian releases of clipped means that cost `rho` when one example is zeroed out.

    The classic conversion as papers print it, the exact one, and the exact one when a neighbour *replaces* an
    example, which doubles the sensitivity and so makes rho four times as large.

    Example:
      >>> [round(g.epsilon, 4) for g in readings(epsilon_to_rho(4.0, 1e-8, "classic"), 1e-8)]
      [4.0, 3.4565, 7.4403]
    """
    validate.non_negative(rho=rho)
    moved, moved_further = (clipped_sensitivity(1.0, 1, r) for r in (Relation.ZERO_OUT, Relation.REPLACE_ONE))
    replaced = rho * (moved_further / moved) ** 2
    return (
        Guarantee(rho_to_epsilon(rho, delta, "classic"), delta, Relation.ZERO_OUT, "zCDP, classic conversion"),
        Guarantee(rho_to_epsilon(rho, delta, "exact"), delta, Relation.ZERO_OUT, "exact Gaussian"),
        Guarantee(rho_to_epsilon(replaced, delta, "exact"), delta, Relation.REPLACE_ONE, "exact Gaussian"),
    )


def event(ledger: Ledger, run: int) -> Any:
    """One run's releases as a `dp_accounting.DpEvent`: equal levels merged, fresh data as their costliest release.

    Args:
      ledger: releases with noise.
      run: the row.

    Example:
      >>> import torch
      >>> from dpnotes.core import Price
      >>> price = Price(torch.tensor([2.0]), torch.tensor([True]), Relation.ZERO_OUT)
      >>> event(Ledger([price, price]), run=0)
      SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=2)
    """
    return to_dp_event(events_of(ledger, run))


Accountant = Literal["exact", "PLD", "RDP", "classic", "tight"]
ACCOUNTANTS: tuple[Accountant, ...] = ("exact", "PLD", "RDP", "classic", "tight")
# The sampling and the noise that each of them knows.
_KNOWS: dict[Accountant, set[str]] = {
    "exact": {"whole", "fresh", "gaussian"},
    "PLD": {*get_args(Scheme), "gaussian", "laplace", "pure"},
    "RDP": {*get_args(Scheme), *get_args(Noise)},
    "classic": {"whole", "fresh", *get_args(Noise)},
    "tight": {"whole", "fresh", *get_args(Noise)},
}
_NAMES = {
    "exact": "exact Gaussian",
    "PLD": "privacy loss distributions",
    "RDP": "Renyi divergences",
    "classic": "zCDP, classic conversion",
    "tight": "zCDP, tight conversion",
}


def account(
    events: Iterable[Event],
    delta: float,
    accountant: Accountant | None = None,
    *,
    assumptions: tuple[Assumption, ...] = (),
    not_covered: tuple[str, ...] = (),
) -> Guarantee:
    """What releases that were fixed in advance may claim together.

    Their noise, sampling and number may not depend on what was released (the queries may): where they do, a filter
    bounds their cost, and `guarantee` says what that claims. Fresh events compose in parallel: an example pays for all
    releases that touch all examples and for the fresh one with the least noise.

    Args:
      events: of one neighbouring relation; none claims epsilon = 0 and needs no relation, so at least one.
      delta: in (0, 1).
      accountant: if None, of those that know these events the one with the least epsilon; the guarantee names it.
        "exact": Gaussian noise on whole and fresh batches, in closed form. "PLD": those, random batches, Laplace and
        pure ones, an upper bound near the least; infinite where delta is below its rounding. "RDP": all. "classic" and
        "tight": zCDP with a conversion, for whole and fresh batches.
      assumptions: what the claim rests on.
      not_covered: what depends on the data and is not among the events.

    Raises:
      CombinationError: if the events have different relations, or the accountant does not know one of them; it says
        which does.
      ValueError: if there is no event, or delta is outside (0, 1); with "PLD" also if the distribution would not fit
        (`dpnotes.privacy.pld.LimitError`).

    Example:
      >>> from dpnotes.core import Sampling
      >>> print(account([Event(10.0, Relation.ZERO_OUT, count=100)], 1e-5))
      (4.378, 1e-05)-DP, zero-out-one, by exact Gaussian
      >>> print(account([Event(1.0, Relation.REPLACE_ONE, Sampling.fixed_size(10, 1000), count=100)], 1e-5))
      (0.7681, 1e-05)-DP, replace-one, by privacy loss distributions
    """
    validate.between(0, 1, delta=delta)
    validate.instance(Iterable, events=events)
    events = list(events)
    if not events:
        raise ValueError("Expected at least one event: the relation of the claim is theirs.")
    relation, whole, fresh, schemes, kinds = events[0].relation, 0.0, 0.0, set(), set()
    for event in events:  # all that the closed form needs, in one pass
        if event.relation is not relation:
            raise CombinationError(f"Expected events of one relation, got {relation} and {event.relation}.")
        scheme = event.sampling.scheme if event.sampling.rate < 1 or event.sampling == FRESH else "whole"
        schemes.add(scheme)
        kinds.add(event.noise)
        cost = 0.5 / event.noise_multiplier**2
        if scheme == "fresh":
            fresh = max(fresh, cost)
        else:
            whole += event.count * cost
    rho = whole + fresh
    if accountant is None:
        used, epsilon = _least(events, delta, rho, {m for m in ACCOUNTANTS if schemes | kinds <= _KNOWS[m]})
        return Guarantee(epsilon, delta, relation, _NAMES[used], assumptions, not_covered)
    validate.one_of(ACCOUNTANTS, accountant=accountant)
    if unknown := (schemes | kinds) - _KNOWS[accountant]:
        known = " or ".join(m for m in ACCOUNTANTS if unknown <= _KNOWS[m])
        raise CombinationError(
            f"Expected accountant={accountant!r} without {', '.join(sorted(unknown))}: that goes with {known}."
        )
    return Guarantee(
        _epsilon(events, delta, rho, accountant), delta, relation, _NAMES[accountant], assumptions, not_covered
    )


def _least(events: list[Event], delta: float, rho: float, known: set[Accountant]) -> tuple[Accountant, float]:
    """The accountant with the least epsilon, and that epsilon; no other is asked where one is known to be the best."""
    if "exact" in known:
        return "exact", _epsilon(events, delta, rho, "exact")
    found: dict[Accountant, float] = {}
    if all(event.noise == "gaussian" for event in events):  # whole batches with this noise cost as much or more
        found["exact"] = _epsilon(events, delta, rho, "exact")
    if "PLD" in known:
        try:
            found["PLD"] = _epsilon(events, delta, rho, "PLD")
            if all(pld.near_least(alternative, delta) for alternative in _alternatives(events)):
                return _smallest(found)
        except pld.LimitError:
            pass  # the others need no such memory
    # The conversion looks at all Renyi orders, "RDP" at some, but at more than the zCDP of what is not Gaussian.
    for accountant in ("tight", "RDP"):
        if accountant in known:
            found[accountant] = _epsilon(events, delta, rho, accountant)
    return _smallest(found)


def _smallest(found: dict[Accountant, float]) -> tuple[Accountant, float]:
    used = min(found, key=found.__getitem__)
    return used, found[used]


def _epsilon(events: list[Event], delta: float, rho: float, accountant: Accountant) -> float:
    if accountant in ("exact", "classic", "tight"):
        return rho_to_epsilon(rho, delta, accountant)
    epsilon = pld.epsilon if accountant == "PLD" else _renyi_epsilon
    return max(epsilon(alternative, delta) for alternative in _alternatives(events))


def _alternatives(events: list[Event]) -> list[tuple[Event, ...]]:
    """What an example may pay for, the worst-placed one among them: all reused events with one of the fresh ones."""
    once = merged(events)
    reused = tuple(e for e in once if e.sampling != FRESH)
    return [(*reused, e) for e in once if e.sampling == FRESH] or [reused]


# Whole orders: between them the bounds for random batches interpolate, or sum slow series. Below 2 for whole batches.
_ORDERS = (*range(2, 65), *range(66, 128, 4), *range(128, 257, 16), 320, 384, 448, 512, 640, 768, 896, 1024)
_LOW_ORDERS = tuple(1 + k / 20 for k in range(1, 20))
# More than the library's divergence of one release is rounded by (it takes the logarithm of a number near 1, off by up
# to 4e-16), and the noise multiplier above which that is most of it.
_ROUNDING, _QUIETEST = 1e-14, 1e6
_LOUDEST = 0.05  # below it sampling hardly helps, and the exact epsilon of whole batches is the least


@lru_cache(maxsize=64)
def _renyi_epsilon(events: tuple[Event, ...], delta: float) -> float:
    """The best over the orders; with many levels, over those around the order that is best for their mean level.

    Every order gives a bound, so leaving some out is safe; the search goes on until the best is not at the edge.
    """
    random = {e.sampling.scheme for e in events} - {"whole", "fresh"}
    orders = _ORDERS if random else _LOW_ORDERS + _ORDERS
    if len(events) <= 4:
        return _renyi(events, delta, orders)[0]
    by_scheme: dict[Any, list[Event]] = {}
    for event in events:
        by_scheme.setdefault((event.sampling, event.noise), []).append(event)
    means = []
    for group in by_scheme.values():
        count = sum(e.count for e in group)
        mean = math.sqrt(count / math.fsum(e.count / e.noise_multiplier**2 for e in group))
        means.append(replace(group[0], noise_multiplier=mean, count=count))
    best = orders.index(_renyi(tuple(means), delta, orders)[1])
    while True:
        first, last = max(best - 1, 0), min(best + 1, len(orders) - 1)
        epsilon, order = _renyi(events, delta, orders[first : last + 1])
        found = orders.index(order)
        if first < found < last or found in (0, len(orders) - 1):
            return epsilon
        best = found


def _renyi(events: tuple[Event, ...], delta: float, orders: tuple[float, ...]) -> tuple[float, float]:
    """Epsilon and the order that gave it."""
    from dp_accounting import rdp

    divergences = [math.fsum(_divergence(event, order) for event in events) for order in orders]
    epsilon, order = rdp.compute_epsilon(orders, divergences, delta)
    if all(event.noise in ("laplace", "pure") for event in events):  # the infinite order needs no delta
        epsilon = min(epsilon, math.fsum(event.count / event.noise_multiplier for event in events))
    return float(epsilon), float(order)


@lru_cache(maxsize=2**16)
def _divergence(event: Event, order: float) -> float:
    # What every kind of noise costs without sampling: no mixture over batches has more.
    unsampled = event.count * order * 0.5 / event.noise_multiplier**2
    known = event.sampling.rate == 1 and event.noise != "laplace"
    if event.sampling.scheme == "fixed-size" and not known and event.noise_multiplier >= _LOUDEST:
        sampled = log_moment(order, event.noise_multiplier, event.sampling.rate) / (order - 1)
        divergence = min(unsampled, event.count * sampled)
    elif known or event.sampling.scheme == "fixed-size" or event.noise_multiplier > _QUIETEST:
        divergence = unsampled
    else:
        divergence = min(unsampled, event.count * (_library_divergence(replace(event, count=1), order) + _ROUNDING))
    # No divergence of an epsilon-DP mechanism is above epsilon.
    return min(divergence, event.count / event.noise_multiplier) if event.noise in ("laplace", "pure") else divergence


@lru_cache(maxsize=2**16)
def _library_divergence(event: Event, order: float) -> float:
    import dp_accounting
    from dp_accounting import rdp

    # Multipliers are over the relation's own sensitivity, which is what this accountant takes them for.
    neighbours = dp_accounting.NeighboringRelation
    poisson = event.sampling.scheme == "poisson"
    accountant = rdp.RdpAccountant([order], neighbours.ADD_OR_REMOVE_ONE if poisson else neighbours.REPLACE_ONE)
    accountant.compose(to_dp_event([event]))
    divergence = float(accountant.rdp[0])
    # Of much noise it is rounded to either side of 0; what is no number bounds nothing.
    return math.inf if math.isnan(divergence) else max(0.0, divergence)


def log_moment(order: float, noise_multiplier: float, rate: float) -> float:
    """The log of the moment of the likelihood ratio of one release on a batch of fixed size, one example replaced.

    With `l` the ratio of N(1, z^2) to N(0, z^2) and `L = 1 + q (l - 1)`, the pair of distributions that dominates the
    release (`pld.fixed_size_hockey_stick`) has the moment `1 + E[(L^(a-1) - 1) (L^a - 1) / L^(a-1); L > 1]` under
    N(0, z^2) (docs/derivations/noisy_sgd.md, own.fixed_size). All terms are positive, so nothing cancels; they are
    summed in logarithms, by quadrature where the integrand is within e^-60 of its largest, to a relative error of 1e-9.

    Args:
      order: a, above 1; over `order - 1` the result is the Renyi divergence.
      noise_multiplier: z, above 0, relative to the sensitivity to replacing an example.
      rate: q, batch size over examples, in (0, 1].

    Example:
      >>> [round(log_moment(8, 2.0, rate), 4) for rate in (0.1, 1.0)]  # without sampling it is a (a - 1) / (2 z^2)
      [0.1106, 7.0]
    """
    import numpy as np
    from scipy.special import logsumexp

    validate.positive(order=order, noise_multiplier=noise_multiplier, rate=rate)
    if order <= 1 or rate > 1:
        raise ValueError(f"Expected order={order!r} > 1 and rate={rate!r} <= 1.")
    start, width = 0.5 / noise_multiplier, min(0.25, noise_multiplier / 2)  # in units of the noise; L > 1 from there

    def log_integrand(u: Any) -> Any:
        ratio = (u - start) / noise_multiplier  # log l
        small = np.log1p(rate * np.expm1(np.minimum(ratio, 30.0)))
        mixed = np.where(ratio < 30, small, ratio + np.log(rate + (1 - rate) * np.exp(-ratio)))
        powers = np.log(-np.expm1(-order * mixed)) + np.log(-np.expm1((1 - order) * mixed))
        return order * mixed + powers - u * u / 2

    parts = 2 * math.ceil(0.25 / width)  # of half a noise: no peak of the integrand is narrower than the noise
    with np.errstate(divide="ignore"):
        coarse = np.arange(start, order / noise_multiplier + 12, parts * width)
        middle = log_integrand(coarse + parts * width / 2)
        places = coarse[middle > middle.max() - 60][:, None] + width * np.arange(parts)
        nodes, weights = np.polynomial.legendre.leggauss(20)
        values = log_integrand(places[..., None] + width * (nodes + 1) / 2)
    log_sum = float(logsumexp(values, b=width / 2 * weights)) - 0.5 * math.log(2 * math.pi)
    return float(np.logaddexp(0.0, log_sum))


def guarantee(
    rho: float,
    delta: float,
    relation: Relation,
    *,
    gaussian_noise: bool,
    assumptions: tuple[Assumption, ...] = (),
    not_covered: tuple[str, ...] = (),
) -> Guarantee:
    """What a run of releases may claim whose cost can never exceed `rho`.

    `rho` is what was declared before the run, not what a run happened to spend: when a run stops early, that it did
    so may depend on the data. If the run chooses its noise, the costs compose under the filter that bounds their sum
    (Feldman and Zrnic 2021, arXiv:2008.11193, for every Renyi order at once; Smith and Thakurta 2022, arXiv:2210.17520,
    for Gaussian noise, with the exact conversion).

    Args:
      rho: the zCDP budget, at least 0 and finite.
      delta: in (0, 1).
      relation: the neighbours that the cost was counted for.
      gaussian_noise: whether all noise was Gaussian. If not, as of discrete or Laplace noise, only zCDP is known.
      assumptions: what the claim rests on.
      not_covered: what depends on the data and is not in rho.

    Raises:
      ValueError: outside these domains; a run that releases anything without noise has an infinite rho.
      TypeError: for what is no relation, or neither True nor False.

    Example:
      >>> print(guarantee(1.0, 1e-5, Relation.ZERO_OUT, gaussian_noise=True))
      (6.573, 1e-05)-DP, zero-out-one, by exact Gaussian
      >>> print(guarantee(1.0, 1e-5, Relation.ZERO_OUT, gaussian_noise=False))
      (7.078, 1e-05)-DP, zero-out-one, by zCDP filter, tight conversion
    """
    validate.flag(gaussian_noise=gaussian_noise)
    if gaussian_noise:
        epsilon = rho_to_epsilon(rho, delta, "exact")
        return Guarantee(epsilon, delta, relation, "exact Gaussian", assumptions, not_covered)
    epsilon = rho_to_epsilon(rho, delta, "tight")
    return Guarantee(epsilon, delta, relation, "zCDP filter, tight conversion", assumptions, not_covered)


def assumptions_of(streams: Streams, *, rounded_once: bool = False) -> tuple[Assumption, ...]:
    """What all claims of runs with this randomness rest on.

    Args:
      streams: the runs' randomness.
      rounded_once: as `guarantees.assumptions_of_runs`.

    Example:
      >>> [a.statement for a in assumptions_of(Streams.of(0, ["a", "a"]))][-1]
      'of the runs that share their noise only one is published'
    """
    shared = not streams.secret and len(streams.keys.unique(dim=0)) < len(streams)
    return assumptions_of_runs(secret_seed=streams.secret, shared_noise=shared, rounded_once=rounded_once)
