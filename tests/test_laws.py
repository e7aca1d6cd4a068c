"""Every oracle, mechanism and method of the package satisfies the laws; each law detects a planted violation."""

import importlib
import inspect
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import laws
import laws_data
import laws_stated
import pytest
import torch
from laws_data import Bowls, G
from laws_stated import CALLS
from torch import Tensor

import dpnotes
from dpnotes import papers
from dpnotes.core import Oracle
from dpnotes.methods import descent, spider_descent, step
from dpnotes.methods.descent import Descent
from dpnotes.methods.spider_descent import StochasticSpider
from dpnotes.oracles import asks, clipped, minibatch, release, spider
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.spider import Spider
from dpnotes.privacy import filter as filter_module
from dpnotes.privacy import mechanisms, tree
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.museum import module_with_line_replaced
from dpnotes.privacy.tree import Tree
from tests.papers.test_obligations import factories_of

CASES = laws.cases()
# `make test` tests the first factory of every class, and every way to draw a batch; `make test-all` tests all.
SEEN_FIRST = {name for makes in laws.FACTORIES.values() for made in makes for name in laws.names(made, makes[made])[:1]}
SEEN_FIRST |= {*laws.names(MinibatchGradient, laws.ORACLES[MinibatchGradient])}
DEAR = ("selection.GradientAndHessian, of bowls", "discrete.DiscreteGaussian, plain: covariance")  # seconds per law


def slow_unless_first(name: str, *given: Any) -> Any:
    """Return the parameters of a test, marked slow unless `make test` runs it."""
    first = name.partition(":")[0] in SEEN_FIRST and not any(each in name for each in DEAR)
    return pytest.param(*given, id=name, marks=() if first else pytest.mark.slow)


@pytest.mark.parametrize("name", [slow_unless_first(name, name) for name in CASES])
def test_law(name: str) -> None:
    CASES[name]()


# ---------------------------------------------------------------- the registry
def test_every_class_has_a_factory_and_every_factory_a_class() -> None:
    """A paper may bring factories in its own test: tests/papers/test_obligations.py tests the laws of these."""
    for kind, classes in laws.found(dpnotes).items():
        assert not laws.complaints(classes - brought(kind), laws.FACTORIES[kind], "tests/laws.py")


def brought(kind: type) -> set[type]:
    """Return the classes of a kind for which a paper's own test has factories."""
    return {made for paper in papers.PAPERS for made in factories_of(paper).get(kind, {})}


def test_control_a_class_without_a_factory_and_a_factory_without_a_class_are_named() -> None:
    found, without = (
        laws.found(dpnotes)[Oracle] - brought(Oracle),
        {k: made for k, made in laws.ORACLES.items() if k is not Spider},
    )
    (missing,) = laws.complaints(found, without, "tests/laws.py")
    assert missing == "Expected dpnotes.oracles.spider.Spider to have a factory in tests/laws.py."
    (gone,) = laws.complaints(found, laws.ORACLES | {Telling: {"a": Telling}}, "tests/laws.py")
    assert (
        "Expected no factory of test_laws.Telling" in gone or "Telling in tests/laws.py: there is no such class" in gone
    )


class Telling:
    """A class that is no oracle of the package."""


HIDDEN = """
class Outer:
    class Inner(Spider): ...
Made = type("Made", (Spider,), {"__module__": "types"})
class Wrapper:
    def __init__(self, oracle): self.oracle = oracle
    def __getattr__(self, name): return getattr(self.oracle, name)
    def estimate(self, *given): return self.oracle.estimate(*given)
"""


@pytest.mark.parametrize("more", ["", "def make():\n    class Local(Spider): ...\n    return Local\n"])
def test_control_an_oracle_hides_in_no_class_call_wrapper_or_function(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding/__init__.py").touch()
    (tmp_path / "hiding/part.py").write_text(f"from dpnotes.oracles.spider import Spider\n{HIDDEN}{more}")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        package = importlib.import_module("hiding")
        if more:
            with pytest.raises(AssertionError, match=r"no class in a function, .*: \['Local'\] in hiding.part"):
                laws.found(package)
        else:
            assert {kind.__name__ for kind in laws.found(package)[Oracle]} == {"Inner", "Made", "Wrapper"}
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "hiding"]:
            del sys.modules[name]


def test_poisson_batches_of_the_laws_are_empty_and_of_one() -> None:
    (one, _, _, _), *_ = laws_data.on_neighbours(laws.ORACLES[MinibatchGradient]["poisson, zero-out-one, clipped"])
    alike = len(one.estimates[0].gradient) // 3  # after the mixed data set there are two of equal examples, 0.95 G long
    values = torch.stack([(request.answer.value[alike:] * laws_data.ALONG).sum(1) for request, _, _ in one.released])
    sizes = (values * 4 / (0.95 * G)).round()
    assert {0.0, 1.0, 2.0, 8.0} <= {*sizes.flatten().tolist()}


# ---------------------------------------------------------------- what breaks a law
def remade(module: ModuleType, line: str, instead: str, made: Any) -> Any:
    """Return this oracle, mechanism or method with one line of its class replaced."""
    kind = getattr(module_with_line_replaced(module, line, instead), type(made).__name__)
    return kind(**{f.name: getattr(made, f.name) for f in fields(made)})


def broken(factory: Any, module: ModuleType, line: str, instead: str) -> Any:
    return lambda patch: lambda *given: remade(module, line, instead, factory(*given))


def patched(factory: Any, owner: Any, name: str, module: ModuleType, line: str, instead: str) -> Any:
    """Return the factory with the broken line in a part of the library."""

    def patch_and_make(patch: pytest.MonkeyPatch) -> Any:
        wrong = module_with_line_replaced(module, line, instead)
        patch.setattr(owner, name, getattr(getattr(wrong, owner.__name__) if inspect.isclass(owner) else wrong, name))
        return lambda *given: factory(*given)  # a new function, because the results of the correct one are remembered

    return patch_and_make


class Mixed(Bowls):
    """A problem of a module's inputs that claims to keep its examples apart, but sums them up."""

    def __init__(self, module: Any, inputs: Tensor, labels: Tensor, loss: Any) -> None:
        super().__init__(torch.cat([inputs, inputs[:, :2]], 1)[None])

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> Any:
        found = super().gradients(x, examples)
        return replace(found, rows=found.rows.flip(1).cumsum(1))


CLIPPED, LISTENING = (laws.ORACLES[ClippedGradient][name] for name in ("replace-one", "listening"))
POISSON, FIXED = (
    laws.ORACLES[MinibatchGradient][name]
    for name in ("poisson, add-or-remove-one, clipped", "fixed-size, replace-one, clipped")
)
UNCLIPPED = laws.ORACLES[MinibatchGradient]["fixed-size, replace-one"]
SPIDER, VIRTUAL, WHOLE = (laws.ORACLES[Spider][name] for name in ("data set", "virtual", "whole"))
BATCH = "sample = draw(self.sampling, self.problem.num_examples, streams, _PURPOSE, calls)"
REDRAWN = "sample = type(sample)(present=sample.present, examples="
FIXED_TERMS = "self.norm_bound, divisor, self.noise_std, self.num_steps, self.relation, self.sampling,"
BOUND = "return self.releases.bound(self.clip, self.problem.num_examples)"
LOSS_BOUND = "return self.releases.bound(self.loss_clip, self.problem.num_examples, span=True)"
LONGEST = "longest = torch.where(new, self.gradient_bound, self.smoothness * far)"
NORMS = "norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)"
PROPOSED = "multiplier, exists = self.noise.propose(state.memory.plan, state.meter.calls)"
FIRST = "self.problem.gradients(x).losses[:, 0]"
MEANS = "mean = Answer(gradients.weighted_sum(flushed(scale)))"
BELIEF = "return Memory(noise, heard), values[0]"
USED = "used = meter.used if ask.examples is None else meter.used + plan.uses"
ESTIMATE = "return State(memory, meter), Estimate(gradient, price, granted * main.gradients, plan.status, evaluations)"
EVENT = "return [Event(self._multiplier(run), self.relation, self.sampling, 1, noise)]"
ADDED = "gradient = torch.where(plan.begins[:, None], values[0], old.gradient + values[0])"
GRANTED = "granted = asked & (cost >= 0) & (reused + fresh <= self._limit)"
DRAW = "noise = streams.normal(self.purpose, request.call, value.shape[1])"
NOISE = "noisy = noise.mul_(scale[:, None]).add_(value)"
SUMMED = "return state.after(term, request, active, reach, nodes), released, term.price"
PRICE_OF_A_LEAF = "Price(term.multiplier, term.price.charged, term.price.relation, term.price.sampling)"
RELEASED = 'return state, zeroed_except(noisy.to(value.dtype), valid), price_of(request, "gaussian")'
STATUS = "return moved, torch.maximum(state.status, estimate.status)"
DIRECTION = "direction = estimate.gradient"
FORGOTTEN = "return State(memory, now.meter)"
CONTROLS: dict[str, tuple[str, Any, str]] = {
    "a sensitivity 7 times too small": (
        "sensitivity", broken(CLIPPED, clipped, BOUND, BOUND.replace("clip,", "clip / 7,")), "l2_sensitivity to be",
    ),
    "a sensitivity that is never reached": (
        "sensitivity", broken(CLIPPED, clipped, BOUND, BOUND.replace("clip,", "clip * 7,")), "reach l2_sensitivity",
    ),
    "a loss's sensitivity": (
        "sensitivity", broken(LISTENING, clipped, LOSS_BOUND, LOSS_BOUND.replace("_clip,", "_clip / 7,")),
        "0.05 or more in release 1",
    ),
    "a move by its largest coordinate": (
        "sensitivity",
        broken(VIRTUAL, spider, "move = norms(x - memory.point)", "move = (x - memory.point).abs().amax(1).double()"),
        "l2_sensitivity to be",
    ),
    "a difference's sensitivity": (
        "sensitivity", broken(VIRTUAL, spider, LONGEST, LONGEST.replace("far)", "far / 7)")),
        "l2_sensitivity to be",
    ),
    "a Poisson batch divided by its own size": (
        "sensitivity",
        broken(POISSON, minibatch, "weights = sample.present * weights",
               "weights = sample.present * weights * divisor / sample.present.sum(1, keepdim=True)"),
        "l2_sensitivity to be",
    ),
    "an example that is not finite": (
        "sensitivity", broken(CLIPPED, clipped, NORMS, "norms = gradients.norms()"), "l2_sensitivity to be",
    ),
    "no clipping": (
        "sensitivity",
        broken(FIXED, minibatch, "weights = self.norm_bound / divisor / norms.clamp_min(self.norm_bound)",
               "weights = torch.full_like(norms, 1 / divisor)"), "l2_sensitivity to be",
    ),
    "an answer beside the mechanism": (
        "leaks", broken(LISTENING, clipped, BELIEF, f"{BELIEF} + self.problem.gradients(plan.x).rows.mean(1)"),
        "gradient to be public",
    ),
    "a refusal that listens to the data": (
        "leaks",
        broken(CLIPPED, clipped, PROPOSED, f"{PROPOSED}; exists = exists & ({FIRST} > 1)"),
        "public",
    ),
    "a noise that listens to the data": (
        "sensitivity",
        broken(CLIPPED, clipped, PROPOSED, f"{PROPOSED}; multiplier = multiplier + {FIRST}.abs()"),
        "Expected a public noise_std",
    ),
    "a noise that listens to a loss which no neighbour turns": (
        "leaks",
        broken(UNCLIPPED, minibatch, "return self.releases.claimed",
               f"a = self.releases.claimed[0]; more = 1 + ({FIRST.replace('[:, 0]', '.mean(1)')} < 1); "
               "return (type(a).with_std(a.bound, a.noise_std * more, gradients=a.gradients),)"), "to be public",
    ),
    "batches in turn, that are said to be random": (
        "sampled",
        broken(FIXED, minibatch, BATCH, f"{BATCH}\n        {REDRAWN} (torch.arange(4) + 4 * calls[:, None]) % 20)"),
        "a chance of",
    ),
    "one batch again and again": (
        "sampled", broken(POISSON, minibatch, BATCH, BATCH.replace("calls", "0 * calls")), "a chance of 0.04",
    ),
    "a Poisson batch of at most twice its size": (
        "sampled",
        broken(POISSON, minibatch, "weights = sample.present * weights",
               "weights = sample.present * (sample.present.cumsum(1) <= 8) * weights"), "a chance of",
    ),
    "twice the rate that is said, and twice the divisor": (
        "sampled",
        broken(POISSON, minibatch, BATCH, BATCH.replace("self.sampling,", "Sampling.poisson(2 * self.sampling.rate),")),
        "a chance of",
    ),
    "examples used again": (
        "price",
        patched(SPIDER, release.Releases, "_counted", release, USED, USED.replace("meter.used + ", "")), "to be paid",
    ),
    "a price 7 times too low": (
        "price",
        patched(CLIPPED, release.Releases, "release", release, "price = prices[0]",
                "price = replace(prices[0], noise_multiplier=prices[0].noise_multiplier * 7)"), "that of its releases",
    ),
    "a claim for fewer steps": (
        "price",
        patched(POISSON, release.Releases, "events", release, "count = 1 if self.sampling == FRESH else self.steps",
                "count = 1"), "claim to cover",
    ),
    "a claim of less than was spent": (
        "claims",
        patched(SPIDER, release.Releases, "events", release, EVENT, EVENT.replace("self._m", "7 * self._m")),
        "a neighbour's, or more",
    ),
    "a sum that forgets": (
        "unbiased", broken(SPIDER, spider, ADDED, ADDED.replace("old.gradient +", "0.5 * old.gradient +")), "step 1",
    ),
    "a mean of half the batch": (
        "unbiased",
        broken(FIXED, minibatch, "return (Answer(gradients.weighted_sum(flushed(weights))),)",
               "return (Answer(gradients.weighted_sum(weights) / 2),)"), "step 0",
    ),
    "an answer that hears other runs": (
        "alone",
        broken(CLIPPED, clipped, MEANS, "mean = Answer(gradients.weighted_sum(flushed(scale)) * len(scale))"),
        "the answer of run 0",
    ),
    "an answer at another run's point": (
        "alone",
        broken(CLIPPED, clipped, "gradients = self.problem.gradients(plan.x)",
               "gradients = self.problem.gradients(plan.x[:1].expand_as(plan.x))"), "the answer of run 5",
    ),
    "the noise of another run": (
        "alone",
        broken(FIXED, minibatch, FIXED_TERMS, FIXED_TERMS.replace("std,", "std[:1].expand_as(self.noise_std),")),
        "of run 5 to be that of the run alone",
    ),
    "the idle are said to cost": (
        "alone",
        patched(
            CLIPPED, release.ReleasingOracle, "release", release, ESTIMATE,
            ESTIMATE.replace("granted *", "0 * granted +"),
        ),
        "the idle to get and pay nothing",
    ),
    "a filter that grants all": (
        "refusals", patched(WHOLE, filter_module.Filter, "grant", filter_module, GRANTED, "granted = asked"),
        "be refused in the end",
    ),
    "a state that releases twice": (
        "once",
        patched(CLIPPED, release, "on_time", release, "if late is None:", "if True:"),
        "DID NOT RAISE",
    ),
    "a meter that goes back": (
        "once", broken(SPIDER, spider, FORGOTTEN, "return State(memory, saved.meter)"), "leave the meter",
    ),
    "noise that is drawn twice": (
        "drawn_once",
        patched(CLIPPED, mechanisms.Gaussian, "release", mechanisms, DRAW, DRAW.replace("request.call", "0")), "once",
    ),
    "a module that mixes": (
        "modules", lambda patch: patch.setattr(laws_stated, "ModuleProblem", Mixed) or CLIPPED, "a module that sorts",
    ),
    "noise 5% too small": (
        "covariance", broken(Gaussian, mechanisms, NOISE, NOISE.replace("mul_(", "mul_(0.95 * ")), "a price of",
    ),
    "noise 5% too large": (
        "covariance", broken(Gaussian, mechanisms, NOISE, NOISE.replace("mul_(", "mul_(1.05 * ")), "a price of",
    ),
    "noise of one size, whatever is asked": (
        "covariance",
        broken(Gaussian, mechanisms, NOISE, NOISE.replace("scale[:, None]", "1.3")),
        "a price of",
    ),
    "noise that is right on average over the coordinates": (
        "covariance",
        broken(Gaussian, mechanisms, DRAW, f"{DRAW} * torch.tensor([1.4, 1.0, 0.2])[: value.shape[1]]"),
        "a price of",
    ),
    "one number for all coordinates": (
        "covariance", broken(Gaussian, mechanisms, DRAW, f"{DRAW}[:, :1].expand_as(value).clone()"), "of their own",
    ),
    "noise in proportion to the answer": (
        "covariance", broken(Gaussian, mechanisms, NOISE, NOISE.replace("noise.mul_", "noise.mul_(value / 5).mul_")),
        "a price of",
    ),
    "uniform noise": (
        "covariance",
        broken(Gaussian, mechanisms, DRAW, f"{DRAW.replace('normal', 'uniform')}.sub_(0.5).mul_(12**0.5)"),
        "the noise that is named",
    ),
    "the price of another run": (
        "covariance",
        broken(Gaussian, mechanisms, RELEASED,
               "multiplier = request.noise_std / request.answer.l2_sensitivity\n"
               "        given = 0 * multiplier + multiplier[0]\n"
               "        released = zeroed_except(noisy.to(value.dtype), valid)\n"
               '        return state, released, price_of(request, "gaussian", given)'),
        "every run's own",
    ),
    "noise by place, which everybody knows": (
        "asking",
        broken(Gaussian, mechanisms, DRAW, DRAW.replace("streams", "Streams.of(0, range(len(value)))")), "of its own",
    ),
    "half the noise on random batches": (
        "asking",
        broken(Gaussian, mechanisms, DRAW, f"{DRAW} / (1 + (request.answer.sampling.scheme == 'poisson'))"),
        "the same noise for poisson",
    ),
    "half the noise for some neighbours": (
        "asking", broken(Gaussian, mechanisms, DRAW, f"{DRAW} / (1 + (request.answer.relation == 'zero-out-one'))"),
        "the same noise for whole and zero-out-one",
    ),
    "no noise on a second sum": (
        "asking", broken(Gaussian, mechanisms, DRAW, f"{DRAW} * (request.call != {CALLS})[:, None]"),
        "a second sum to have",
    ),
    "a tree at the price of a leaf": (
        "covariance",
        broken(lambda: Tree(8), tree, SUMMED, SUMMED.replace("term.price", PRICE_OF_A_LEAF)),
        "a price of",
    ),
    "the price after is another": (
        "asking",
        broken(lambda: Tree(8), tree, SUMMED, SUMMED.replace("term.price", PRICE_OF_A_LEAF)),
        "the cost that was said before",
    ),
    "the idle get noise": (
        "asking",
        broken(Gaussian, mechanisms, RELEASED, 'return state, noisy.to(value.dtype), price_of(request, "gaussian")'),
        "the idle to get",
    ),
    "a method that looks at the data": (
        "estimates_alone",
        broken(lambda: Descent(0.1), descent, DIRECTION, f"{DIRECTION} + oracle.samples.problem.rows.mean()"),
        "not for samples",
    ),
    "a method that listens to exact counts": (
        "estimates_alone",
        broken(lambda: Descent(0.1), descent, DIRECTION, f"{DIRECTION} / (1 + oracle_state.meter.exceeded[:, None])"),
        "x to follow",
    ),
    "a method that hears other runs": (
        "one_by_one",
        broken(lambda: Descent(0.1), descent, DIRECTION, f"{DIRECTION} - estimate.gradient.mean(0)"), "run alone",
    ),
    "a perturbation that is drawn twice": (
        "one_by_one",
        broken(
            lambda: StochasticSpider(30, 0.1, 5.0, 3.0, 0.3), spider_descent,
            "direction = direction + (scale * streams.normal(_PURPOSE, state.steps, dim)).to(direction)",
            "direction = direction + (scale * streams.normal(_PURPOSE, state.steps // 10, dim)).to(direction)",
        ), "once",
    ),
    "a perturbation that is the mechanism's noise": (
        "one_by_one",
        broken(
            lambda: StochasticSpider(30, 0.1, 5.0, 3.0, 0.3), spider_descent,
            '_PURPOSE = "spider descent: saddle perturbation"', '_PURPOSE = "gaussian mechanism"',
        ), "once",
    ),
    "an ended run that moves": (
        "stopping", broken(lambda: Descent(0.1), descent, "select(moved, x, state.x),", "x * 0.99,"), "to stay",
    ),
    "a divergence that nobody notices": (
        "stopping",
        patched(lambda: Descent(0.1), descent, "arrive", step,
                f"{STATUS}.masked_fill(moves ^ moved, Status.DIVERGED)", STATUS), "the status DIVERGED",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROLS)
def test_control(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    law, breaking, told = CONTROLS[name]
    make = breaking(monkeypatch)
    with pytest.raises((AssertionError, ValueError, pytest.fail.Exception), match=told):
        getattr(laws_stated, law)(make)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        slow_unless_first(label, made, name)
        for made, several in laws.ORACLES.items()
        for label, name in zip(laws.names(made, several), several, strict=True)
    ],
)
def test_control_of_every_oracle_a_sensitivity_is_noticed_that_is_a_tenth_too_small(
    made: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "moved = (1.0 if span else turned) * longest / divisor"
    make = patched(laws.ORACLES[made][name], asks.Bound, "of", asks, line, f"{line} * 0.9")(monkeypatch)
    with pytest.raises(AssertionError, match="Expected l2_sensitivity to be"):
        laws_stated.sensitivity(make)


def test_every_law_has_a_control() -> None:
    assert {law.__name__ for several in laws_stated.LAWS.values() for law in several} == {
        law for law, _, _ in CONTROLS.values()
    }
