"""Conversion of releases to (epsilon, delta) and back: the accountants, and the guarantees of runs.

`account` computes the guarantee of a list of events (`dpnotes.privacy.events`). The sampling and the neighbouring
relation determine which accountants are valid, and the one with the smallest epsilon is used. Whole and fresh batches
with Gaussian noise have an exact closed form. Random batches, Laplace noise and pure mechanisms use privacy loss
distributions, which are nearly tight unless delta is so small that rounding matters; where such a distribution is too
large, Renyi divergences are used. For mechanisms that are only known to be zCDP the cost is converted. No claim exceeds
that of the same noise on whole batches: sampling never increases the cost. Invalid combinations of sampling,
sensitivity and accountant are an error.

Three conversions from zCDP, each an upper bound on the true epsilon:

* "classic": `rho + 2 sqrt(rho ln(1/delta))` (Bun and Steinke 2016, arXiv:1605.02065v1, Proposition 1.3);
* "tight": the best over the Renyi orders (Canonne, Kamath and Steinke 2020, arXiv:2004.00010v6, Proposition 12);
  both hold for every rho-zCDP mechanism;
* "exact": for Gaussian releases that cost rho in all. With noise that was fixed in advance they compose to one Gaussian
  mechanism (Dong, Roth and Su 2019, arXiv:1905.02383v3, Corollary 3.3), whose epsilon is known exactly (Balle and
  Wang 2018, arXiv:1805.06530v2, Theorem 8); no smaller epsilon holds. If the noise depends on earlier releases, and a
  filter keeps the sum of the costs below rho, the same epsilon holds (Smith and Thakurta 2022, arXiv:2210.17520).
"""

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, get_args

from dpnotes.core import FRESH, Assumption, Guarantee, Ledger, Relation
from dpnotes.guarantees import CombinationError, Noise, Scheme, assumptions_of_runs
from dpnotes.privacy import pld
from dpnotes.privacy.events import Event, clipped_sensitivity, events_of, merged, to_dp_event
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import NonNegative, Positive, Probability, checked

Conversion = Literal["classic", "tight", "exact"]
CONVERSIONS: tuple[Conversion, ...] = ("classic", "tight", "exact")
# Below this rho, "tight" and "exact" compute differences of nearly equal numbers, which may be rounded to 0.
_LEAST_RHO = 1e-18
# Below this rho, epsilon has a relative rounding error of up to 3e-6 (measured with mpmath): more than that is added.
_LITTLE_RHO = 1e-9


@checked
def rho_to_epsilon(rho: NonNegative, delta: Probability, conversion: Conversion = "exact") -> float:
    """The epsilon of a rho-zCDP mechanism ("exact": of Gaussian releases that cost rho).

    By rounding in double precision, the true delta at this epsilon may exceed `delta`, by a relative 1e-6 at most, and
    by 2e-4 for a rho below 1e-15.

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


@lru_cache(maxsize=1024)  # all runs of a batch request the same value
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
    """The largest zCDP budget whose conversion does not exceed epsilon, rounded down.

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
    while rho_to_epsilon(root, delta, conversion) > epsilon:  # towards more privacy, however the root was rounded
        root *= 1 - step
        step *= 2
    return root


def readings(rho: float, delta: float) -> tuple[Guarantee, Guarantee, Guarantee]:
    """Three valid guarantees of Gaussian releases of clipped means that cost `rho` when one example is zeroed out.

    They are the classic conversion as printed in papers, the exact conversion, and the exact conversion when a
    neighbour *replaces* an example, which doubles the sensitivity and so makes rho four times as large.

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
    """The releases of one run as a `dp_accounting.DpEvent`, with equal ones merged, and the costliest fresh one.

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
ACCOUNTANTS: tuple[Accountant, ...] = get_args(Accountant)
# The name of each accountant in a claim, and the sampling schemes and kinds of noise that it supports.
_KNOWN: dict[Accountant, tuple[str, set[str]]] = {
    "exact": ("exact Gaussian", {"whole", "fresh", "gaussian"}),
    "PLD": ("privacy loss distributions", {*get_args(Scheme), "gaussian", "laplace", "pure"}),
    "RDP": ("Renyi divergences", {*get_args(Scheme), *get_args(Noise)}),
    "classic": ("zCDP, classic conversion", {"whole", "fresh", *get_args(Noise)}),
    "tight": ("zCDP, tight conversion", {"whole", "fresh", *get_args(Noise)}),
}


@checked
def account(
    events: Iterable[Event],
    delta: Probability,
    accountant: Accountant | None = None,
    *,
    assumptions: tuple[Assumption, ...] = (),
    not_covered: tuple[str, ...] = (),
) -> Guarantee:
    """The joint guarantee of releases that were fixed in advance.

    Their noise, sampling and number must not depend on earlier releases (the queries may). If they do, a filter must
    bound their cost, and `guarantee` gives the claim. Fresh events compose in parallel: an example pays for every
    release that touches all examples, and for the fresh release with the least noise.

    Args:
      events: at least one, all with the same neighbouring relation.
      delta: in (0, 1).
      accountant: None: among those that support these events, the one with the smallest epsilon; the guarantee names
        it. "exact": Gaussian noise on whole and fresh batches, in closed form. "PLD": also random batches, Laplace and
        pure mechanisms, a nearly tight upper bound; infinite where delta is below its rounding. "RDP": all events.
        "classic" and "tight": zCDP with a conversion, for whole and fresh batches.
      assumptions: the assumptions that the claim depends on.
      not_covered: quantities that depend on the data and are not among the events.

    Raises:
      CombinationError: if the events have different relations, or the accountant does not support one of them; the
        message names one that does.
      ValueError: if there is no event, or delta is outside (0, 1); with "PLD" also if the distribution would not fit
        (`dpnotes.privacy.pld.LimitError`).

    Example:
      >>> from dpnotes.core import Sampling
      >>> print(account([Event(10.0, Relation.ZERO_OUT, count=100)], 1e-5))
      (4.378, 1e-05)-DP, zero-out-one, by exact Gaussian
      >>> print(account([Event(1.0, Relation.REPLACE_ONE, Sampling.fixed_size(10, 1000), count=100)], 1e-5))
      (0.7681, 1e-05)-DP, replace-one, by privacy loss distributions
    """
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
        able: set[Accountant] = {m for m, (_, supported) in _KNOWN.items() if schemes | kinds <= supported}
        accountant, epsilon = _least(events, delta, rho, able)
    elif unknown := (schemes | kinds) - _KNOWN[accountant][1]:
        known = " or ".join(m for m, (_, supported) in _KNOWN.items() if unknown <= supported)
        raise CombinationError(
            f"Expected accountant={accountant!r} without {', '.join(sorted(unknown))}: that goes with {known}."
        )
    else:
        epsilon = _epsilon(events, delta, rho, accountant)
    return Guarantee(epsilon, delta, relation, _KNOWN[accountant][0], assumptions, not_covered).with_events(events)


def _least(events: list[Event], delta: float, rho: float, known: set[Accountant]) -> tuple[Accountant, float]:
    """The accountant with the smallest epsilon, and that epsilon; the search stops where one is known to be best."""
    if "exact" in known:
        return "exact", _epsilon(events, delta, rho, "exact")
    found: dict[Accountant, float] = {}
    if all(event.noise == "gaussian" for event in events):  # whole batches with this noise cost no less
        found["exact"] = _epsilon(events, delta, rho, "exact")
    if "PLD" in known:
        try:
            found["PLD"] = _epsilon(events, delta, rho, "PLD")
            if all(pld.near_least(alternative, delta) for alternative in _alternatives(events)):
                return _smallest(found)
        except pld.LimitError:
            pass  # the other accountants need no such memory
    # "tight" optimises over all Renyi orders of zCDP; "RDP" over some, with better divergences for non-Gaussian noise.
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
    """The sets of events that one example may pay for: all reused events, together with one of the fresh events."""
    once = merged(events)
    reused = tuple(e for e in once if e.sampling != FRESH)
    return [(*reused, e) for e in once if e.sampling == FRESH] or [reused]


# Whole orders: between them, bounds for random batches interpolate or sum slow series. Below 2 for whole batches only.
_ORDERS = (*range(2, 65), *range(66, 128, 4), *range(128, 257, 16), 320, 384, 448, 512, 640, 768, 896, 1024)
_LOW_ORDERS = tuple(1 + k / 20 for k in range(1, 20))
# A bound above the rounding error of the library's divergence of one release (the logarithm of a number near 1, off by
# up to 4e-16), and the noise multiplier above which that error dominates.
_ROUNDING, _QUIETEST = 1e-14, 1e6
_LOUDEST = 0.05  # below this multiplier sampling hardly helps, and the exact epsilon of whole batches is smallest


@lru_cache(maxsize=64)
def _renyi_epsilon(events: tuple[Event, ...], delta: float) -> float:
    """The smallest epsilon over the Renyi orders; for many events, over orders near the best one for their mean noise.

    Every order gives a bound, so omitting some is safe; the search continues until the best order is not at the edge.
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
    """The epsilon and the Renyi order that gives it."""
    from dp_accounting import rdp

    divergences = [math.fsum(_divergence(event, order) for event in events) for order in orders]
    epsilon, order = rdp.compute_epsilon(orders, divergences, delta)
    if all(event.noise in ("laplace", "pure") for event in events):  # the infinite Renyi order needs no delta
        epsilon = min(epsilon, math.fsum(event.count / event.noise_multiplier for event in events))
    return float(epsilon), float(order)


@lru_cache(maxsize=2**16)
def _divergence(event: Event, order: float) -> float:
    # The divergence of every kind of noise without sampling, which bounds that of a mixture over batches.
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

    # This accountant takes multipliers relative to the relation's own sensitivity, as we do.
    neighbours = dp_accounting.NeighboringRelation
    poisson = event.sampling.scheme == "poisson"
    accountant = rdp.RdpAccountant([order], neighbours.ADD_OR_REMOVE_ONE if poisson else neighbours.REPLACE_ONE)
    accountant.compose(to_dp_event([event]))
    divergence = float(accountant.rdp[0])
    # With much noise the divergence is rounded to either side of 0; NaN gives no bound.
    return math.inf if math.isnan(divergence) else max(0.0, divergence)


def log_moment(order: float, noise_multiplier: float, rate: float) -> float:
    """The log moment of the likelihood ratio of one release on a batch of fixed size, when an example is replaced.

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

    parts = 2 * math.ceil(0.25 / width)  # about half a noise: no peak of the integrand is narrower than the noise
    with np.errstate(divide="ignore"):
        coarse = np.arange(start, order / noise_multiplier + 12, parts * width)
        middle = log_integrand(coarse + parts * width / 2)
        places = coarse[middle > middle.max() - 60][:, None] + width * np.arange(parts)
        nodes, weights = np.polynomial.legendre.leggauss(20)
        values = log_integrand(places[..., None] + width * (nodes + 1) / 2)
    log_sum = float(logsumexp(values, b=width / 2 * weights)) - 0.5 * math.log(2 * math.pi)
    return float(np.logaddexp(0.0, log_sum))


def assumptions_of(streams: Streams, *, rounded_once: bool = False) -> tuple[Assumption, ...]:
    """The assumptions behind every guarantee of runs on these streams.

    Args:
      streams: the runs' randomness.
      rounded_once: as `guarantees.assumptions_of_runs`.

    Example:
      >>> [a.statement for a in assumptions_of(Streams.of(0, ["a", "a"]))][-1]
      'of the runs that share their noise only one is published'
      >>> [a.basis for a in assumptions_of(Streams.secure(1))]  # no sum is taken to be rounded once
      ['assumed', 'assumed', 'assumed']
    """
    shared = not streams.secret and len(streams.keys.unique(dim=0)) < len(streams)
    return assumptions_of_runs(secret_seed=streams.secret, shared_noise=shared, rounded_once=rounded_once)
