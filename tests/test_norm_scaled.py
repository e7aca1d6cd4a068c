"""A release in two stages satisfies the laws, and each way to get it wrong is refused by the law that is named."""

from types import ModuleType
from typing import Any

import laws
import laws_data
import laws_stated
import norm_scaled
import pytest
import torch
from laws_data import STEPS, Bowls, G, data_sets
from norm_scaled import NormScaled

from dpnotes.core import Oracle
from dpnotes.privacy.museum import module_with_line_replaced
from dpnotes.random.streams import Streams


def made(module: ModuleType = norm_scaled) -> Any:
    return lambda problem, runs: module.NormScaled(problem, G, torch.ones(runs).double(), STEPS)


HELD = laws.cases({Oracle: {NormScaled: {"in two stages": made()}}})


@pytest.mark.parametrize("name", HELD)
def test_law(name: str) -> None:
    HELD[name]()


NORM = "norm = values[1][:, 0].to(self.noise_multiplier)"
CLIP = "clip = 2 * state.memory.norm.nan_to_num(nan=self.norm_bound).clamp(self.norm_bound / 10, self.norm_bound)"
GRADIENT = "gradient = self.releases.bound(clip, self.problem.num_examples)"
BOUND = "norm = self.releases.bound(self.norm_bound, self.problem.num_examples, span=True)"
ANSWERS = "return Answer(gradient), Answer(norm)"
KINDS = 'kinds: ClassVar[tuple[str, ...]] = ("gradient", "norm")'
AGAIN = (
    "from dpnotes.core import Request, Sensitive; more = plan.asks[1]\n"
    "        exact = Sensitive(norm, more.bound.sensitivity, Relation.REPLACE_ONE, 'enforced')\n"
    "        asked = Request(exact, more.noise_std, plan.state.meter.calls, plan.granted)\n"
    "        Gaussian('norm again').release(_NORM.init(norm), asked, streams)"
)
EXACT = "self.problem.gradients({}).norms().nan_to_num(1).clamp_max(1).mean(1).double()"
BROKEN = {
    "a norm without noise": (NORM, f"norm = {EXACT.format('plan.x')}", "leaks", r"memory\.norm to be public"),
    "a norm that is released beside the plan, uncharged": (
        ANSWERS, f"{AGAIN}\n        {ANSWERS}", "price", "price to be that of its releases",
    ),
    "a scale from the norm that is not released": (
        CLIP, f"clip = 2 * {EXACT.format('x')}", "sensitivity", "a public noise_std",
    ),
    "a norm's sensitivity 7 times too small": (
        BOUND, BOUND.replace("norm_bound,", "norm_bound / 7,"), "sensitivity", "0.0594 or more in release 1",
    ),
    "a norm's sensitivity with a wrong power of the bound": (
        BOUND, BOUND.replace("norm_bound,", "norm_bound**0.5,"), "sensitivity", "0.0594 or more in release 1",
    ),
    "a scale from the exact norm where the released one is large": (
        CLIP, f"{CLIP}\n        clip = torch.where(state.memory.norm > 0.5, 2 * {EXACT.format('x')}, clip)",
        "sensitivity", "a public noise_std",
    ),
    "a clip above its bound where the released norm is large": (
        GRADIENT, GRADIENT.replace("clip,", "clip / (1 + (state.memory.norm > 0.5)),"),
        "price", "tell apart to be paid",
    ),
    "a norm without noise where the released one is large": (
        NORM, f"{NORM}\n        norm = torch.where(norm > 0.5, {EXACT.format('plan.x')}, norm)",
        "leaks", r"memory\.norm to be public",
    ),
    "a norm's sensitivity that is never reached": (
        BOUND, BOUND.replace("norm_bound,", "norm_bound * 2,"), "sensitivity", "reach l2_sensitivity of norm, got 0.5",
    ),
    "a clip that is below the norms": (CLIP, CLIP.replace("2 *", "0.5 *"), "unbiased", "the gradient in step 0"),
    "no answer to the second ask": (ANSWERS, "return (Answer(gradient),)", "leaks", "num_answers=1 to be 2, one to e"),
    "kinds that are not declared": (KINDS, "", "sensitivity", "reach l2_sensitivity of release 0, got 0.4"),
    "one kind of two": (KINDS, KINDS.replace(', "norm"', ","), "sensitivity", "a release of each kind"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_control(name: str) -> None:
    line, instead, law, told = BROKEN[name]
    broken = made(module_with_line_replaced(norm_scaled, line, instead))
    with pytest.raises((AssertionError, ValueError), match=told):
        getattr(laws_stated, law)(broken)


def test_the_scales_follow_the_released_norms() -> None:
    """With the answers in place the noise of a step is that of the norm before, and the first is the public one."""
    oracle = made()(Bowls(data_sets(True)[:1]), 2)
    seen = laws_data.play(oracle, Streams.of(0, range(2)), torch.float64, 3, aside=False)
    stds = [step[0][0].noise_std for step in seen.requests]
    for std, norm in zip(
        stds, [torch.full((2,), G).double(), *(step[1][1][:, 0] for step in seen.requests)], strict=False
    ):
        assert torch.allclose(std, 2 * 2 * norm.clamp(G / 10, G) / laws_data.N)
    assert len(torch.stack(stds).unique()) > 2


def test_control_a_release_that_only_some_data_have_is_named() -> None:
    seen = laws_data.play(made()(Bowls(data_sets(True)[:1]), 2), Streams.of(0, range(2)), torch.float64, 3)
    with pytest.raises(AssertionError, match="Expected as many releases on all data, got 6 and 4"):
        list(laws_data.asked_alike(seen, laws_data.Play(seen.requests[:2])))


def test_parts_that_are_nan_on_all_data_are_the_same() -> None:
    memory = norm_scaled.Memory(torch.zeros(2), torch.tensor([torch.nan, 1.0]))
    laws_stated.same(memory, memory, "to be public")
    with pytest.raises(AssertionError, match="Expected norm to be public"):
        laws_stated.same(memory, norm_scaled.Memory(torch.zeros(2), torch.ones(2)), "to be public")
