"""Invalid numbers are refused by name, for every number of every public callable, found by inspection.

A callable is called as in its example, with one argument replaced: by NaN, infinities, -0.0, 0, a negative number, a
bool, a string, an integer beyond any computer's, None and tensors. The result must be a one-line error that names the
argument and its value, or, if the value may be valid, an answer without NaN. A new public callable that takes a number
is tested too: its numbers have usual values, and the test fails if another argument has no example.
"""

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from dpnotes import papers
from dpnotes.core import Guarantee, Ledger, Price, Relation
from dpnotes.privacy import pld
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.calibration import tree_std
from dpnotes.privacy.factorisation import noise_of_sums
from dpnotes.util.validate import AtLeastOne, Positive, checked
from tests.calls import DOORS, KNOWN, call, example
from tests.points import drawn
from tests.public import callables, numbers_of, within

# ---------------------------------------------------------------- what is refused
# Numbers that may be infinite: nothing is claimed, the number of terms alone decides, a run without noise.
INFINITE = {("guarantees.Guarantee", "nominal_epsilon"), ("oracles.spider.Refresh", "threshold")}
INFINITE |= {(f"papers.goldstein.algorithms.{name}", "epsilon") for name in ("single_pass", "multi_pass", "plain")}
INFINITE |= {
    (f"papers.{name}.practical", "epsilon") for name in ("adaptive_batch.algorithms", "drift_escape.algorithms")
}
INFINITE |= {(f"papers.drift_escape.{name}", "epsilon") for name in ("distributed.practical", "selection.Selection")}
INFINITE |= {(f"train.{name}", "epsilon") for name in ("noise.NoiseChoice", "plan.TrainingPlan")}


def refused(name: str, argument: str, annotation: str) -> list[Any]:
    """Return values that are never valid for a numeric argument."""
    values: list[Any] = [math.nan, -math.inf, True]
    values.append(torch.full((2,), math.nan) if "Tensor" in annotation else torch.ones(50))
    values += [math.inf] * ((name, argument) not in INFINITE)
    values += [None] * (not re.search(r"\bNone\b", annotation)) + [0.5] * (not re.search(r"\bfloat\b", annotation))
    return values + ([] if "str" in annotation else ["1", 10**400])


def is_named(message: str, argument: str, value: Any) -> bool:
    """Return whether a message is one line with the argument and its value (for a tensor, its fault)."""
    says = {repr(value)[:10], f"{value:g}"} if isinstance(value, float) else {repr(value)[:10]}
    said = isinstance(value, Tensor) or any(one in message for one in says)
    return said and "\n" not in message and re.search(rf"\b{argument}\b", message) is not None


SLOW = {"privacy.audit.pairs.ScaledPair.strongest_threshold", "privacy.audit.pairs.ScaledPair.threshold"}
EACH = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in DOORS]


@pytest.mark.parametrize("name", EACH)
def test_the_example_works(name: str):
    call(name, example(name))


def wrong_answer(name: str, argument: str, value: Any) -> str | None:
    """Return the fault in the refusal of a call with this value, or None."""
    try:
        call(name, {**example(name), argument: value})
        message = "was taken"
    except (ValueError, TypeError) as error:
        if is_named(str(error), argument, value):
            return None
        message = str(error)
    except Exception as error:  # of an unexpected type
        message = repr(error)
    return f"{argument}={repr(value)[:12]}: {message[:100]!r}"


def found_nan(result: Any) -> bool:
    """Return whether a result contains a NaN."""
    numbers = (part for part in within(result, 9) if isinstance(part, float | Tensor | np.ndarray))
    return any(bool(torch.as_tensor(number).isnan().any()) for number in numbers)


def claims_without_noise(result: Any) -> bool:
    """Return whether a result claims a negative epsilon, or a finite one for a release without noise."""
    parts = [*within(result, 3)]
    claims = [part for part in parts if isinstance(part, Guarantee)]
    prices = [price for part in parts if isinstance(part, Ledger) for price in part.prices]
    free = any(bool((price.charged & (price.noise_multiplier == 0)).any()) for price in prices)
    return any(not claim.epsilon >= 0 or (free and claim.holds and math.isfinite(claim.epsilon)) for claim in claims)


@pytest.mark.parametrize("name", EACH)
def test_what_is_no_number_is_refused_by_name(name: str):
    wrong = [
        wrong_answer(name, argument, value)
        for argument, annotation in numbers_of(DOORS[name]).items()
        for value in refused(name, argument, annotation)
    ]
    assert not any(wrong), "\n" + "\n".join(filter(None, wrong))


BELOW_ONE = {"delta", "level", "momentum", "rate", "beta"}
VACUOUS = {"guarantees.Guarantee"}  # may state that a delta is 1 or more, which claims nothing


@pytest.mark.parametrize("name", [n for n in DOORS if BELOW_ONE & numbers_of(DOORS[n]).keys() and n not in VACUOUS])
def test_what_is_below_one_is_refused_above_it(name: str):
    wrong = [wrong_answer(name, argument, 1.5) for argument in BELOW_ONE & numbers_of(DOORS[name]).keys()]
    assert not any(wrong), "\n" + "\n".join(filter(None, wrong))


@pytest.mark.parametrize("name", EACH)
def test_zero_and_what_is_negative_are_refused_by_name_or_give_numbers(name: str):
    wrong = []
    for argument in numbers_of(DOORS[name]):
        for value in (-0.0, 0, -1):
            try:
                result = call(name, {**example(name), argument: value})
            except (ValueError, TypeError) as error:
                if "\n" in str(error) or not re.search(rf"\b{argument}\b", str(error)):
                    wrong.append(f"{argument}={value}: {str(error)[:100]!r}")
            except Exception as error:
                wrong.append(f"{argument}={value}: {repr(error)[:100]}")
            else:
                if found_nan(result) or claims_without_noise(result):
                    wrong.append(f"{argument}={value}: a result with NaN, or a claim for a release without noise")
    assert not wrong, "\n" + "\n".join(wrong)


def domains_left(function: Callable[..., Any]) -> list[str]:
    """The arguments that are annotated with a domain which nothing checks: `checked` leaves the plain types."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if "dpnotes.util.validate" in modules_of(p.annotation)]


def modules_of(annotation: Any) -> set[str]:
    """The modules of the checks in an annotation."""
    checks = getattr(annotation, "__metadata__", ()) + sum((get_args(part)[1:] for part in get_args(annotation)), ())
    return {getattr(check, "func", check).__module__ for check in checks if callable(check)}


def test_every_domain_is_checked():
    left = [f"{name}: {argument}" for name, function in callables() for argument in domains_left(function)]
    assert not left, f"Expected @checked, for a subclass of its own, too: {left}"


def test_control_a_domain_that_is_not_checked_is_seen():
    def plain(epsilon: Positive, steps: AtLeastOne | None = None, delta: float = 0.1) -> float:
        return epsilon

    assert domains_left(plain) == ["epsilon", "steps"]
    assert domains_left(checked(plain)) == []


# ---------------------------------------------------------------- names
def words_of(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments with invalid values, for which a branch would otherwise be taken in silence."""
    for parameter in inspect.signature(function).parameters.values():
        annotation = inspect.formatannotation(parameter.annotation)
        if annotation.startswith("Literal") or "typing.Literal" in annotation:
            yield parameter.name, "no such word"
        elif parameter.annotation is Relation:
            yield parameter.name, "replace"
            yield parameter.name, "replace-one"  # the member is expected, not its printed form


# Methods that a loop calls at every step with values from the same part.
STEPS = "init step estimate rollback release cost propose grant begin ask batch".split()
WORDS = {
    name: function
    for name, function in KNOWN.items()
    if any(words_of(function)) and not name.endswith(tuple(f".{step}" for step in STEPS))
}


@pytest.mark.parametrize("name", WORDS)
def test_an_unknown_name_is_refused_by_name(name: str):
    wrong = [wrong_answer(name, argument, value) for argument, value in words_of(WORDS[name])]
    assert not any(wrong), "\n" + "\n".join(filter(None, wrong))


# Found by random calls: (callable, argument, value, text that the error must contain).
REFUSED: list[tuple[str, str, Any, str]] = [
    ("oracles.samples.VirtualSamples", "total", 2**63, "total=9223372036854775808"),
    ("papers.adaptive_batch.algorithms.spider_of", "parameters", [], "num_runs=0"),
    ("papers.drift_escape.algorithms.practical", "sampling_drift", 1e308, "sampling_drift=1e[+]308"),
    ("privacy.audit.pairs.MixturePair.of", "weights", torch.ones(7), "weights, .7,."),
    ("privacy.factorisation.BandedSquareRoot.max_cost", "noise_multiplier", 1e-300, "noise_multiplier=1e-300"),
    ("privacy.pld.near_least", "events", (), "num_events=0"),
    ("privacy.tree.Tree.max_cost", "noise_multiplier", 1e-300, "noise_multiplier=1e-300"),
]


@pytest.mark.parametrize(("name", "argument", "value", "named"), REFUSED)
def test_what_random_calls_found_is_refused_by_name(name: str, argument: str, value: Any, named: str):
    with pytest.raises(ValueError, match=f"Expected.*{named}"):
        call(name, example(name) | {argument: value})


def test_what_random_calls_found_is_a_number():
    level = call(
        "measure.stationarity.sosp_level", example("measure.stationarity.sosp_level") | {"hessian_lipschitz": 5e-324}
    )
    assert not level.isnan().any()
    name = "privacy.audit.pairs.Pair.threshold"
    assert math.isfinite(call(name, example(name) | {"epsilon": 1e308}))


@pytest.mark.parametrize("delta", [5e-324, 1e-308, 1e-307])
def test_a_delta_that_has_no_inverse_is_one(delta: float):
    # The best Renyi order is near 1 + sqrt(ln(1/delta) / rho), and epsilon is near rho + 2 sqrt(rho ln(1/delta)).
    simple = 0.5 + 2 * math.sqrt(-0.5 * math.log(delta))
    assert 0.9 * simple < rho_to_epsilon(0.5, delta, "tight") <= simple


def test_numbers_of_numpy_are_numbers():
    assert tree_std(1.0, 1e-6, 1.0, np.int64(3)) == tree_std(1.0, 1e-6, 1.0, 3)  # type: ignore[arg-type]
    assert len(noise_of_sums("tree", np.int64(3))) == len(noise_of_sums("tree", 3))  # type: ignore[arg-type]


def test_what_no_cache_takes_is_named():
    for function in (pld.epsilon, pld.near_least):
        with pytest.raises(TypeError, match=r"Expected delta=\[0.1\] to be a real number"):
            function((), [0.1])  # type: ignore[arg-type]


def test_the_controls_are_caught(monkeypatch: pytest.MonkeyPatch):
    def silent(epsilon: float) -> float:
        return epsilon

    def vague(epsilon: float) -> float:
        raise ValueError("Expected another number.")

    def new(no_usual_name: Tensor) -> Tensor:
        return no_usual_name

    for control, said in ((silent, "was taken"), (vague, "Expected another number.")):
        monkeypatch.setitem(KNOWN, "control", control)
        for value in refused("control", "epsilon", numbers_of(control)["epsilon"]):
            assert said in (wrong_answer("control", "epsilon", value) or "")
    assert found_nan([{"x": torch.tensor([math.nan])}]) and not found_nan([{"x": torch.ones(1)}])
    claim, one = Guarantee(1.0, 0.1, Relation.ZERO_OUT, "a test"), torch.ones(1)
    for noise, said in ((one, False), (0 * one, True)):
        released = Ledger([Price(noise, one.bool(), Relation.ZERO_OUT)])
        assert claims_without_noise((claim, released)) == said
    monkeypatch.setitem(KNOWN, "control", new)
    with pytest.raises(pytest.fail.Exception, match="control has no example of no_usual_name"):
        example("control")


@pytest.mark.parametrize("paper", ["adaptive_batch", "drift_escape"])
def test_infinity_asks_for_a_run_without_noise_by_name(paper: str):
    name = f"papers.{paper}.algorithms.practical"
    assert call(name, {**example(name), "epsilon": math.inf}).noise_multiplier == 0


# ---------------------------------------------------------------- calculators, and through them the command line
CALCULATORS = {claim.id: claim.calculator() for claim in papers.claims() if claim.calculation is not None}
NEVER = (math.nan, math.inf, -math.inf, 10**400, True, "", "abc", None)
PERHAPS = (1e308, -1e308, 5e-324, 10**30, -0.0, 0, -2, 0.5)


@pytest.mark.parametrize("name", CALCULATORS)
@pytest.mark.slow
def test_a_calculator_gives_numbers_or_one_line_that_names_what_it_was_given(name: str):
    calculator, wrong = CALCULATORS[name], []
    usual = drawn(calculator)
    for argument, value in itertools.product(usual, NEVER + PERHAPS):
        never = any(value is one for one in NEVER)
        try:
            found = calculator(**{**usual, argument: value})
        except (ValueError, TypeError) as error:
            # For incompatible numbers an error may name other arguments: with n=5e-324 an accuracy is too large.
            named = not never or is_named(str(error), argument, value)
            if "\n" in str(error) or not str(error).startswith("Expected") or not named:
                wrong.append(f"{argument}={repr(value)[:12]}: {str(error)[:100]!r}")
        except Exception as error:
            wrong.append(f"{argument}={repr(value)[:12]}: {repr(error)[:100]}")
        else:
            if never or any(isinstance(one, float) and not math.isfinite(one) for one in found.values()):
                wrong.append(f"{argument}={repr(value)[:12]}: {found}")
    assert not wrong, "\n" + "\n".join(wrong)
