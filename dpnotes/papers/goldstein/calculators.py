"""Sample sizes, accuracies and parameters of Kornowski, Liu and Talwar (2025) as functions of plain numbers.

The paper states orders of magnitude. `constants="paper"` evaluates the printed formulas with 1 for every hidden
constant. `"one"` corrects the errata and drops logarithms: an order is the largest of its monomials, and the noise is
the accountant's. The printed noise is not private.
`"corrected"` evaluates the bounds of a proof with every constant; `proved.single_pass` names the lemmas. Where no such
proof exists, `"corrected"` is an error.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from dpnotes.papers.goldstein import notation as s
from dpnotes.papers.goldstein import proved
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.theory import blocks
from dpnotes.theory.calculators import Calculator, Measure, accuracies, evaluations, parameters, sample_sizes
from dpnotes.theory.refusals import Vacuous, require

_TOLERANCE = 1e-12  # relative, of a bisection


# ---------------------------------------------------------------- sample sizes: sums of coefficient * beta**-power
_Terms = list[tuple[Any, float]]


def _prior(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(Phi * L**2 * d / alpha, 3.0), (Phi * L * d**1.5 / (epsilon * alpha), 2.0)]


def _single(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(Phi * L**2 * d**0.5 / alpha, 3.0), (Phi * L * d / (epsilon * alpha), 2.0)]


def _multi(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [((Phi / alpha) ** 0.5 * L * d**0.75 / epsilon, 1.5)]


def _generalisation(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(L**2 * d, 2.0)]


def _plain_single(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [(Phi * L**2 / alpha, 3.0), (Phi * L**2 * d**0.5 / (epsilon * alpha), 3.0)]


def _plain_multi(d: Any, alpha: Any, epsilon: Any, Phi: Any, L: Any) -> _Terms:
    return [((Phi / alpha) ** 0.5 * L * d**0.5 / epsilon, 1.5)]


_METHODS: dict[str, tuple[tuple[Callable[..., _Terms], ...], str]] = {
    "prior": ((_prior,), "eq. (1), Zhang et al. (2024)"),
    "single_pass": ((_single,), "Theorems 3.1 and 6.1"),
    "multi_pass_empirical": ((_multi,), "Theorem 4.1, for the empirical objective"),
    "multi_pass": ((_multi, _generalisation), "Theorem 4.1 and Remark 4.2"),
    "plain_single_pass": ((_plain_single,), "one pass without variance reduction, own result"),
    "plain_multi_pass_empirical": ((_plain_multi,), "many passes without variance reduction, own result"),
    "plain_multi_pass": ((_plain_multi, _generalisation), "the same, for the population"),
}


def _terms(name: str, *problem: Any) -> _Terms:
    return [term for part in _METHODS[name][0] for term in part(*problem)]


def _size(name: str, d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any, constants: str) -> Any:
    sizes = [term * beta**-power for term, power in _terms(name, d, alpha, epsilon, Phi, L)]
    return reduce(np.maximum, sizes) if constants == "one" else sum(sizes)


def _smoothing_size(d: Any, alpha: Any, beta: Any, epsilon: Any, L: Any, R: Any, constants: str) -> Any:
    power = 4 / 3 if constants == "paper" else 1.0
    return R ** (1 / 3) * L**power * d ** (2 / 3) / (epsilon * alpha ** (1 / 3) * beta)


def _sizes(*given: Any, constants: str) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, Phi, L, R = proved.floats(*given)
    proved.domain(alpha, beta, Phi, L)
    proved.far(d, alpha, R)
    found = {name: _size(name, d, alpha, beta, epsilon, Phi, L, constants) for name in _METHODS}
    return {**found, "lasry_lions": _smoothing_size(d, alpha, beta, epsilon, L, R, constants)}


def _one_size(
    name: str, explicit: Callable[..., Any] | None = None, plain: Callable[..., Any] | None = None
) -> Callable[..., dict[str, Any]]:
    def size(
        d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str
    ) -> dict[str, Any]:
        if constants == "corrected" and explicit is not None:
            problem = d, alpha, beta, epsilon, delta, Phi, L
            return {"n": explicit(*problem)} | ({"n_plain": plain(*problem)} if plain else {})
        d, alpha, beta, epsilon, delta, Phi, L = proved.floats(d, alpha, beta, epsilon, delta, Phi, L)
        proved.domain(alpha, beta, Phi, L)
        return {"n": _size(name, d, alpha, beta, epsilon, Phi, L, constants)}

    return size


def _lasry_lions(*given: Any, constants: str) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, L, R = proved.floats(*given)
    proved.below_lipschitz(beta, L)
    proved.far(d, alpha, R)
    size = _smoothing_size(d, alpha, beta, epsilon, L, R, constants)
    return {"n": size, "lambda": alpha / (3 * L)}


# ---------------------------------------------------------------- accuracy for a sample size
def _one_accuracy(name: str, explicit: Callable[..., Any] | None = None) -> Callable[..., dict[str, Any]]:
    """Return a function for the beta at which a method needs n examples."""

    def accuracy(
        n: Any, d: Any, alpha: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str
    ) -> dict[str, Any]:
        n, d, alpha, epsilon, delta, Phi, L = proved.floats(n, d, alpha, epsilon, delta, Phi, L)
        proved.domain(alpha, L, Phi, L)
        terms = _terms(name, d, alpha, epsilon, Phi, L)
        if constants == "one":
            beta = reduce(np.maximum, [(term / n) ** (1 / power) for term, power in terms])
            require(beta <= L * (1 + 1e-12), _VACUOUS, Vacuous, n=n)
            return {"beta": np.minimum(beta, L)[()]}

        def size(beta: Any) -> Any:
            if explicit is None or constants == "paper":
                return sum(term * beta**-power for term, power in terms)
            return explicit(d, alpha, beta, epsilon, delta, Phi, L)

        return {"beta": _inverse(size, n, L)}

    return accuracy


_VACUOUS = "Expected n={n:g} large enough for beta <= L: the bound is vacuous."


def _inverse(size: Callable[[Any], Any], n: Any, L: Any) -> Any:
    """Return the least beta up to L at which a decreasing size is at most n, by bisection in log(beta)."""
    require(size(L) <= n, _VACUOUS, Vacuous, n=n)
    high = np.log(L) + 0.0 * n  # broadcast over n
    low = high - 1.0
    while np.any(more := size(np.exp(low)) <= n):
        high, low = np.where(more, low, high), np.where(more, low - 1.0, low)
    for _ in range(math.ceil(math.log2(1 / _TOLERANCE))):
        middle = (low + high) / 2
        enough = size(np.exp(middle)) <= n
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.exp(high)[()]


# ---------------------------------------------------------------- parameters
def _sharp_smoothness(d: Any, alpha: Any, L: Any) -> Any:
    """Return the largest smoothness of an L-Lipschitz loss smoothed over a ball (claim own.smoothing_smoothness)."""
    from scipy.special import gammaln

    return 2 * np.exp(gammaln(d / 2 + 1) - gammaln((d + 1) / 2)) / math.sqrt(math.pi) * L / alpha


def _single_parameters(*given: Any, constants: str) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, Phi, L = proved.floats(*given)
    proved.domain(alpha, beta, Phi, L)
    if constants == "corrected":
        found, sensitivity = proved.single_pass(d, alpha, beta, epsilon, delta, Phi, L)
    else:
        found = _single_order(d, alpha, beta, epsilon, Phi, L, constants)
        # The sensitivity of exact smoothed gradients; estimates approach it as the number of directions grows.
        increment = 4 * _sharp_smoothness(d, alpha, L) * found["D"] / found["B2"]
        sensitivity = np.maximum(2 * L / found["B1"], increment)
    scale = sensitivity * np.sqrt(np.maximum(proved.tree_levels(found["Sigma"]), 1))
    if constants == "one":
        found["sigma"] = scale * proved.least_noise(epsilon, delta)
    reached = gaussian_delta(epsilon, found["sigma"] / scale)
    return {**found, **_learner(found, beta, L, constants), "sensitivity": sensitivity, "delta_reached": reached}


def _learner(found: dict[str, Any], beta: Any, L: Any, constants: str) -> dict[str, Any]:
    """Return the step size of the online learner, D/(G1 sqrt(M)) of Proposition 2.6."""
    moment = L + beta / 6 if constants == "corrected" else L
    return {"eta": found["D"] / (moment * np.sqrt(found["M"]))}


def _single_order(d: Any, alpha: Any, beta: Any, epsilon: Any, Phi: Any, L: Any, constants: str) -> dict[str, Any]:
    root = np.sqrt(d)
    if constants == "paper":
        steps = _size("single_pass", d, alpha, beta, epsilon, Phi, L, constants)
        pieces = (
            (Phi**2 * alpha / (L**2 * steps**2)) ** (1 / 3),
            (Phi * alpha * epsilon / (d * L * steps)) ** 0.5,
            (Phi**3 * alpha**2 * epsilon / (d**1.5 * L**3 * steps**3)) ** 0.2,
            (Phi**2 * alpha / (L**2 * steps**2 * root)) ** (1 / 3),
        )
        move = np.minimum(np.minimum(pieces[0], pieces[1]), np.minimum(pieces[2], pieces[3]))
        period = (alpha / (epsilon * move)) ** (2 / 3) + alpha / (move * root)
        directions = d**2 * period**2 + d * alpha**2 / move**2
        block = alpha / (4 * move)
    else:
        move = np.minimum(alpha * beta**2 / (L**2 * root), alpha * epsilon * beta / (L * d))
        steps = Phi / (move * beta)
        period = alpha / (move * root)
        directions = d + 0 * move
        block = alpha / move
    return {
        "n": steps * (1 if constants == "one" else 2),
        "T": steps,
        "D": move,
        "Sigma": period,
        "B1": period,
        "B2": 1.0 + 0 * move,
        "M": block,
        "sigma": L / (period * epsilon) + L * move * root / (alpha * epsilon),
        "m": directions,
        "m_first_order": alpha**2 / (move**2 * d) if constants == "paper" else 1.0 + 0 * move,
    }


def _multi_parameters(*given: Any, constants: str) -> dict[str, Any]:
    d, alpha, beta, epsilon, delta, Phi, L = proved.floats(*given)
    proved.domain(alpha, beta, Phi, L)
    if constants == "corrected":
        found, at_reset, at_increment = proved.multi_pass(d, alpha, beta, epsilon, delta, Phi, L)
    else:
        found = _multi_order(d, alpha, beta, epsilon, delta, Phi, L, constants)
        at_reset = 2 * L / found["n"]
        at_increment = 4 * _sharp_smoothness(d, alpha, L) * found["D"] / found["n"]
    resets, increments = proved.resets_of(found["T"], found["Sigma"])
    if constants == "one":  # half of the budget each, or all of it for resets if there is nothing else
        noise = proved.least_noise(epsilon, delta) * np.sqrt(1.0 + (increments > 0))
        found["sigma1"] = noise * at_reset * np.sqrt(resets)
        found["sigma2"] = noise * at_increment * np.sqrt(np.maximum(increments, 1))
    costs = resets * (at_reset / found["sigma1"]) ** 2 + increments * (at_increment / found["sigma2"]) ** 2
    reached = gaussian_delta(epsilon, 1 / np.sqrt(costs))
    found |= _learner(found, beta, L, constants)
    return {**found, "sensitivity1": at_reset, "sensitivity2": at_increment, "delta_reached": reached}


def _multi_order(
    d: Any, alpha: Any, beta: Any, epsilon: Any, delta: Any, Phi: Any, L: Any, constants: str
) -> dict[str, Any]:
    root = np.sqrt(d)
    logarithm = -np.log(delta) if constants == "paper" else 1.0
    size = _size("multi_pass_empirical", d, alpha, beta, epsilon, Phi, L, constants) * np.sqrt(logarithm)
    if constants == "paper":
        move, steps = alpha**2 * beta**2 / L**2, Phi * L**2 / (alpha**2 * beta**3)
        large = "Expected beta={beta:g} small enough for Sigma = L^2/(alpha beta^2 sqrt(d)) >= 1."
        require(alpha >= move * root, large, beta=beta)
    else:
        move = np.minimum(alpha * beta**2 / L**2, alpha / root)
        steps = Phi / (move * beta)
    period = alpha / (move * root)
    first = L * np.sqrt(steps * logarithm / period) / (size * epsilon)
    second = L * move * np.sqrt(steps * d * logarithm) / (alpha * size * epsilon)
    printed = L**2 * d * period / (size * first**2) + L**2 * d / (size * second**2)
    at_reset, at_increment = d**2 * size**2, d * size**2 * (alpha / move) ** 2
    return {
        "n": size,
        "T": steps,
        "D": move,
        "Sigma": period,
        "M": alpha / move,
        "sigma1": first,
        "sigma2": second,
        "m": printed if constants == "paper" else np.maximum(np.maximum(printed, at_reset), at_increment),
        "m_accuracy": printed,
        "m_reset": at_reset,
        "m_increment": at_increment,
    }


def _plain_parameters(*given: Any, constants: str) -> dict[str, Any]:
    """Return the parameters of the claim own.plain_multi.parameters, and a single pass in batches of n/T."""
    d, alpha, beta, epsilon, delta, Phi, L = proved.floats(*given)
    proved.domain(alpha, beta, Phi, L)
    move = alpha * beta**2 / L**2
    steps, block, noise = Phi / (move * beta), alpha / move, proved.least_noise(epsilon, delta)
    batch = np.maximum(1.0, np.sqrt(d) / epsilon)
    many = _size("plain_multi_pass_empirical", d, alpha, beta, epsilon, Phi, L, constants)
    return {
        "T": steps,
        "D": move,
        "M": block,
        **_learner({"D": move, "M": block}, beta, L, constants),
        "B": batch,
        "sigma_single": 2 * L * noise / batch,
        "n": many,
        "sigma_multi": 2 * L * noise * np.sqrt(np.ceil(steps)) / many,
    }


def _calls(*given: Any, constants: str) -> dict[str, Any]:
    found = _single_parameters(*given, constants=constants)
    calls, first = (found["T"] * found[name] for name in ("m", "m_first_order"))
    return {"calls": calls, "calls_first_order": first, "ratio": calls / first}


def _tree_noise(*given: Any, constants: str) -> dict[str, Any]:
    Sigma, S, epsilon, delta = proved.floats(*given)
    levels = proved.tree_levels(Sigma)
    if constants == "paper":
        require(Sigma >= 2, "Expected Sigma={Sigma:g} >= 2: the printed noise for one step is 0.", Sigma=Sigma)
        noise = 4 * S * np.sqrt(np.log(Sigma) * -np.log(delta)) / epsilon
    else:
        noise = S * np.sqrt(levels) * proved.least_noise(epsilon, delta)
    reached = gaussian_delta(epsilon, noise / (S * np.sqrt(levels)))
    return {"sigma": noise, "levels": levels, "delta_reached": reached}


def _node(t: Any, Sigma: Any, rank: Any, constants: str) -> dict[str, Any]:
    """Return first leaf, last leaf and number of nodes of NODE(t), for the node of this rank; rank 1 is the largest.

    >>> NODE(t=8, Sigma=8, rank=1)
    {'first': 1.0, 'last': 8.0, 'num_nodes': 1.0}
    >>> NODE(t=8, Sigma=8, rank=1, constants="paper"), NODE(t=7, Sigma=8, rank=1, constants="paper")
    ({'first': 1.0, 'last': 4.0, 'num_nodes': 3.0}, {'first': 1.0, 'last': 4.0, 'num_nodes': 3.0})
    """
    require(np.less_equal(t, Sigma), "Expected t={t:g} <= Sigma={Sigma:g}.", t=t, Sigma=Sigma)
    exponent = np.frexp(np.asarray(Sigma, dtype=float) - (1 if constants == "paper" else 0))[1] - 1
    first, last, count = blocks.block(t, rank, 2.0**exponent)
    return {"first": first, "last": last, "num_nodes": count}


def _conversion(*given: Any, constants: str) -> dict[str, Any]:
    Phi, alpha, D, T, M, G0, G1, s = proved.floats(*given)
    require(M * D <= alpha * (1 + 1e-12), "Expected M={M:g} <= alpha/D: a block must stay within alpha.", M=M)
    first, second = (1.5, 1.0) if constants == "paper" else (2.5, 2.0)
    gap = Phi / (D * T)
    return {
        "bound": gap + first * G1 / np.sqrt(M) + second * G0,
        "unbiased_bound": gap + (2.5 * G1 + s) / np.sqrt(M),
        "eta": D / (G1 * np.sqrt(M)),
    }


def _crossovers(*given: Any) -> dict[str, Any]:
    d, alpha, beta, epsilon, Phi, L, R = proved.floats(*given)
    proved.domain(alpha, beta, Phi, L)
    return {
        "epsilon_privacy_free": np.sqrt(d) * beta / L,
        "epsilon_generalisation": Phi / (L * alpha),
        "d_generalisation": (Phi / (alpha * beta)) ** 2,
        "beta_plain_single_pass": L / np.sqrt(d),
        "d_plain_single_pass": (Phi / (epsilon * alpha * beta)) ** 2,
        "d_lasry_lions": Phi**3 / (alpha * beta**3 * R**2),
    }


# ---------------------------------------------------------------- as calculators
def _proved_size(passes: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *problem: passes(*proved.floats(*problem))[0]["n"]


def _explicit_size(name: str) -> Callable[..., Any]:
    """Return a calculator of this size for a total radius alpha, half of which is for smoothing."""
    return lambda d, alpha, *rest: proved.plain(d, np.asarray(alpha) / 2, *rest, constants="corrected")[name]


_SETS, _ORDERS = ("corrected", "paper", "one"), ("one", "paper")
_HIDDEN = {"corrected": "the proof hides its constants in an O, and gives none"}
_SOME_HIDDEN = {"corrected": "not every method here has a proof that gives its constants: ask for one of them"}
_PROBLEM = (s.d, s.alpha, s.beta, s.epsilon, s.delta, s.Phi, s.L)


def _measure(method: str) -> Measure:
    return Measure.GOLDSTEIN_EMPIRICAL if method.endswith("empirical") else Measure.GOLDSTEIN


_SAMPLES = sample_sizes(**{name: f"sample size: {what}" for name, (_, what) in _METHODS.items()})
_SIZE = sample_sizes(n="sample size")
_PARAMETERS = {
    **_SIZE,
    **evaluations(T="steps"),
    **parameters(D="largest move per step", Sigma="steps between two resets", M="steps in a block"),
    **evaluations(
        m="directions per sample and point (corrected: of an increment)",
        m_reset="directions at a reset (of one pass: corrected)",
    ),
    **parameters(
        clip_reset="norm at which a sample's mean over directions is clipped at a reset (corrected)",
        clip_increment="the same of an increment (corrected)",
        eta="step size of the online learner",
        delta_reached="delta at epsilon, an example replaced: what the noise is worth",
    ),
}
SIZES = Calculator(
    _sizes,
    (*_PROBLEM, s.R),
    {**_SAMPLES, **sample_sizes(lasry_lions="sample size: Theorem B.5, component-wise, empirical")},
    _ORDERS,
    _SOME_HIDDEN,
)
_PLAIN_SIZE = _explicit_size("n_single_pass")
SINGLE_PASS = Calculator(
    _one_size("single_pass", _proved_size(proved.single_pass), _PLAIN_SIZE),
    _PROBLEM,
    {**_SIZE, **sample_sizes(n_plain="what one plain pass needs, goldstein.own.plain_single (corrected)")},
    _SETS,
)
MULTI_PASS = Calculator(_one_size("multi_pass_empirical", _proved_size(proved.multi_pass)), _PROBLEM, _SIZE, _SETS)
PLAIN_SINGLE_PASS = Calculator(_one_size("plain_single_pass", _PLAIN_SIZE), _PROBLEM, _SIZE, _SETS)
PLAIN_MULTI_PASS = Calculator(
    _one_size("plain_multi_pass_empirical", _explicit_size("n_multi_pass")), _PROBLEM, _SIZE, _SETS
)
LASRY_LIONS = Calculator(
    _lasry_lions,
    (s.d, s.alpha, s.beta, s.epsilon, s.delta, s.L, s.R),
    {**_SIZE, **parameters(**{"lambda": "smoothing parameter"})},
    _ORDERS,
    _HIDDEN,
)
_GIVEN = (s.n, s.d, s.alpha, s.epsilon, s.delta, s.Phi, s.L)


def _accuracy_calculator(name: str, explicit: Callable[..., Any] | None = None) -> Calculator:
    outputs = accuracies(_measure(name), beta=_METHODS[name][1])
    sets, missing = (_SETS, {}) if explicit else (_ORDERS, _HIDDEN)
    return Calculator(_one_accuracy(name, explicit), _GIVEN, outputs, sets, missing)


PRIOR_ACCURACY, MULTI_PASS_POPULATION_ACCURACY, PLAIN_MULTI_PASS_POPULATION_ACCURACY = map(
    _accuracy_calculator, ("prior", "multi_pass", "plain_multi_pass")
)
SINGLE_PASS_ACCURACY = _accuracy_calculator("single_pass", _proved_size(proved.single_pass))
MULTI_PASS_ACCURACY = _accuracy_calculator("multi_pass_empirical", _proved_size(proved.multi_pass))
PLAIN_SINGLE_PASS_ACCURACY = _accuracy_calculator("plain_single_pass", _PLAIN_SIZE)
PLAIN_MULTI_PASS_ACCURACY = _accuracy_calculator("plain_multi_pass_empirical", _explicit_size("n_multi_pass"))
_PLAIN_PARAMETERS_OUTPUTS = {
    **evaluations(T="steps"),
    **parameters(
        D="largest move per step",
        M="steps in a block",
        eta="step size of the online learner",
        B="minibatch of one pass",
        sigma_single="its noise per coordinate, private by the accountant",
    ),
    **sample_sizes(n="samples of many passes"),
    **parameters(sigma_multi="their noise per coordinate, private by the accountant"),
}
PLAIN_PARAMETERS = Calculator(
    _plain_parameters,
    _PROBLEM,
    _PLAIN_PARAMETERS_OUTPUTS,
    ("one",),
    {"corrected": "goldstein.explicit has the sizes and steps that are proved"},
)
_CALLS_OUTPUTS = evaluations(
    calls="function values of one pass, T m",
    calls_first_order="gradients of one pass, Theorem 6.1",
    ratio="the first over the second",
)
CALLS = Calculator(_calls, _PROBLEM, _CALLS_OUTPUTS, _ORDERS, _HIDDEN)
_SINGLE_PASS_PARAMETERS_OUTPUTS = {
    **_PARAMETERS,
    **parameters(
        B1="minibatch at a reset",
        B2="minibatch at an increment",
        sigma="noise of a node, per coordinate",
        sensitivity="of a leaf: of clipped means (corrected), of exact smoothed gradients (paper, one)",
    ),
    **evaluations(m_first_order="directions with gradients (paper, one)"),
}
SINGLE_PASS_PARAMETERS = Calculator(_single_parameters, _PROBLEM, _SINGLE_PASS_PARAMETERS_OUTPUTS, _SETS)
# Oracles of gradients have no corrected constants: the explicit proof above is for function values.
_FIRST_ORDER = {"constants": _ORDERS, "missing": _HIDDEN}
SINGLE_PASS_FIRST_ORDER = replace(SINGLE_PASS, **_FIRST_ORDER)
SINGLE_PASS_PARAMETERS_FIRST_ORDER = replace(SINGLE_PASS_PARAMETERS, **_FIRST_ORDER)
_MULTI_PASS_PARAMETERS_OUTPUTS = {
    **_PARAMETERS,
    **parameters(
        sigma1="noise at a reset",
        sigma2="noise at an increment",
        sensitivity1="of a reset: of clipped means (corrected), of exact smoothed gradients (paper, one)",
        sensitivity2="of an increment",
    ),
    **evaluations(
        m_accuracy="directions that accuracy asks for, as printed (paper, one)",
        m_increment="directions that an increment's sensitivity asks for (paper, one)",
    ),
}
MULTI_PASS_PARAMETERS = Calculator(_multi_parameters, _PROBLEM, _MULTI_PASS_PARAMETERS_OUTPUTS, _SETS)
_TREE_NOISE_OUTPUTS = parameters(
    sigma="noise per node and coordinate",
    levels="nodes that hold a query",
    delta_reached="delta at epsilon: what the noise is worth",
)
TREE_NOISE = Calculator(
    _tree_noise, (s.whole_period, s.sensitivity, s.epsilon, s.delta), _TREE_NOISE_OUTPUTS, ("corrected", "paper")
)
NODE = Calculator(
    _node,
    (s.index, s.whole_period, s.SYMBOLS.symbol("rank", "which node, largest first", domain=s.COUNT)),
    parameters(first="first query of the node", last="last query", num_nodes="nodes in NODE(t)"),
    ("corrected", "paper"),
)
_CONVERSION_OUTPUTS = {
    **accuracies(
        Measure.GOLDSTEIN, bound="Proposition 2.6", unbiased_bound="for a conditionally unbiased oracle, own result"
    ),
    **parameters(eta="step size of the online learner"),
}
CONVERSION = Calculator(
    _conversion, (s.Phi, s.alpha, s.D, s.T, s.M, s.G0, s.G1, s.spread), _CONVERSION_OUTPUTS, ("corrected", "paper")
)
_CROSSOVERS_OUTPUTS = parameters(
    epsilon_privacy_free="privacy is free in one pass from here on",
    epsilon_generalisation="one pass pays less for privacy than many for generalisation from here on",
    d_generalisation="one pass pays less for sampling than many for generalisation from here on",
    beta_plain_single_pass="one plain pass pays less for privacy than Theorem 3.1 from here on",
    d_plain_single_pass="one plain pass pays less for privacy than many for generalisation from here on",
    d_lasry_lions="many plain passes pay less than Theorem B.5 from here on",
)
CROSSOVERS = Calculator(_crossovers, (s.d, s.alpha, s.beta, s.epsilon, s.Phi, s.L, s.R), _CROSSOVERS_OUTPUTS)
_EXPLICIT_OUTPUTS = {
    **sample_sizes(
        n_single_pass="samples with which one plain pass is proved to reach beta at radius 2 alpha, unrounded"
    ),
    **parameters(B="its minibatch"),
    **evaluations(T_single_pass="its steps"),
    **sample_sizes(n_multi_pass="samples with which many plain passes are proved to, for the empirical objective"),
    **evaluations(T_multi_pass="their steps"),
    **parameters(ratio="sensitivity over noise that (epsilon, delta) allows one Gaussian"),
}
EXPLICIT = Calculator(proved.plain, _PROBLEM, _EXPLICIT_OUTPUTS, ("corrected", "best"))
