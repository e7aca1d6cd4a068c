"""A plan, which holds all settings of a private training: its function's bits, its claim, a kill, invalid input."""

import copy
import math
import pickle
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from torch import Tensor, nn

from dpnotes.core import Relation, Status
from dpnotes.guarantees import (
    COSTS_ARE_PUBLIC,
    OVERSPENT,
    SHOWN_ALONE,
    TUNED_ON_PRIVATE_DATA,
    CombinationError,
    together,
)
from dpnotes.methods.descent import Descent
from dpnotes.papers.noisy_sgd.algorithms import clipped_noisy_sgd
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Checkpoint, Evaluation
from dpnotes.train.plan import Trained, TrainingPlan

ROOT = Path(__file__).parents[2]
POINTS = Streams.of("plan", [0]).normal("points", 0, 60 * 4).view(60, 4).float()
LABELS = (POINTS[:, 0] + POINTS[:, 1] > 0).long()
PLAN = TrainingPlan(3.0, 1e-4, num_examples=60, batch_size=12, num_steps=10, norm_bound=1.0)
OTHER_PLANS: dict[str, dict[str, Any]] = {
    "Poisson": {},
    "fixed size": {"sampling": "fixed-size", "relation": Relation.REPLACE_ONE},
    "zero-out": {"relation": Relation.ZERO_OUT},
}


@cache
def planned(name: str) -> TrainingPlan:
    """Return a plan; calibrating one takes seconds for batches of fixed size."""
    return replace(PLAN, **OTHER_PLANS[name])


def network() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.copy_(Streams.of("network", [number]).normal("weights", 0, parameter.numel()).view_as(parameter))
    return module


def trained(
    plan: TrainingPlan = PLAN, run: str = "a", points=POINTS, labels=LABELS, module=None, **more: Any
) -> Trained:
    usual: dict[str, Any] = {"step_size": 0.5, "streams": Streams.of("training", [run])}
    return plan.train(module or network(), points, labels, **usual | more)


# ---------------------------------------------------------------- one training after another
def on(module: nn.Module, run: str = "b", plan: TrainingPlan = PLAN, **more: Any) -> Trained:
    return plan.train(module, POINTS, LABELS, step_size=0.5, streams=Streams.of("training", [run]), **more)


class Scaled(nn.Module):
    """A layer that torch.fx cannot trace."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x if len(x) > 0 else x


def test_a_plan_passes_on_a_public_example_and_layers_that_are_vouched_for(tmp_path: Path):
    module, checkpoint = nn.Sequential(Scaled(), network()), Checkpoint(tmp_path / "run.pt", every=10)
    example = torch.ones(1, 4), torch.zeros(1, dtype=torch.int64)
    named = trained(module=module, vouched=(Scaled,), example=example, checkpoint=checkpoint).guarantee
    assert [a.statement[:7] for a in named.assumptions if "vouched" in a.statement] == ["Scaled "]
    assert SHOWN_ALONE not in named.assumptions
    assert SHOWN_ALONE in trained(module=module).guarantee.assumptions, "control"
    with pytest.raises(ValueError, match="other terms"):
        trained(module=module, checkpoint=checkpoint)  # the claim would no longer name the layer
    with pytest.raises(ValueError, match=r"example of shape \(1, 5\)"):
        trained(example=(torch.ones(1, 5), example[1]))


CARRIED = {
    "a copy": copy.deepcopy,
    "from a file": lambda module: pickle.loads(pickle.dumps(module)),
    "with a new head": lambda module: nn.Sequential(module[0], nn.Tanh(), nn.Linear(6, 2)),
    "in a wider network": lambda module: nn.Sequential(nn.Identity(), module),
}


@pytest.mark.parametrize("name", CARRIED)
def test_to_go_on_from_a_trained_network_costs_the_sum(name: str):
    first = trained()
    second = on(CARRIED[name](first.module))
    assert second.guarantee.nominal_epsilon == pytest.approx(2 * first.guarantee.nominal_epsilon)
    assert second.guarantee.delta == 2 * PLAN.delta and COSTS_ARE_PUBLIC in second.guarantee.assumptions
    assert str(second.guarantee).startswith("(6, 0.0002)-DP, add-or-remove-one, by the sum of 2 claims (privacy loss")
    body = nn.Sequential(*list(second.module.children())[:1])
    third = on(body.append(nn.Linear(6, 2)) if name == "a copy" else second.module, "c")
    assert third.guarantee.nominal_epsilon == pytest.approx(3 * first.guarantee.nominal_epsilon)


def test_control_the_network_that_was_given_remembers_nothing():
    given = network()
    on(given, "a")
    assert on(given, "b").guarantee.delta == PLAN.delta


class Twin(nn.Module):
    """A network together with another one, such as an average of its weights."""

    def __init__(self, one: nn.Module, other: nn.Module):
        nn.Module.__init__(self)
        self.one, self.other = one, other

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.one(batch) + self.other(batch)


def test_a_training_counts_once_however_often_its_network_was_copied():
    first = trained()
    twin = Twin(copy.deepcopy(first.module), pickle.loads(pickle.dumps(first.module)))
    assert on(twin).guarantee.nominal_epsilon == pytest.approx(2 * first.guarantee.nominal_epsilon)
    other = trained(run="c")
    both = on(Twin(first.module, other.module))
    assert both.guarantee.nominal_epsilon == pytest.approx(3 * first.guarantee.nominal_epsilon)


def test_what_is_remembered_breaks_no_network_and_no_file():
    assert b"dpnotes.guarantees" not in pickle.dumps(trained().module)
    assert trained().module.state_dict().keys() == network().state_dict().keys()


def test_control_one_claim_for_two_trainings_is_refuted():
    event = Event(PLAN.noise_multiplier, PLAN.relation, PLAN.batches, 10)
    second = on(trained().module)
    assert PLAN.epsilon < account([event, event], PLAN.delta).epsilon < second.guarantee.epsilon


def test_a_start_that_owes_nothing_to_these_data_costs_nothing():
    before = replace(PLAN, epsilon=math.inf).train(network(), POINTS.flip(0), LABELS, step_size=0.5)
    assert on(before.module).guarantee.epsilon == math.inf
    alone = on(before.module, start_is_public=True)
    assert alone.guarantee.nominal_epsilon == pytest.approx(trained().guarantee.nominal_epsilon)
    assert on(alone.module, "c").guarantee.epsilon == math.inf, "the network has not forgotten"


def toys() -> Dataset:
    return Dataset("toys", POINTS, LABELS, POINTS, LABELS, 2, "none needed", "here")


def test_a_checkpoint_of_a_training_that_went_on_is_not_one_that_began(tmp_path: Path):
    def stop(line: str) -> None:
        if line.startswith("step 4/"):
            raise KeyboardInterrupt

    module = trained().module
    kept = {"checkpoint": Checkpoint(tmp_path / "on.pt", every=2), "evaluation": Evaluation(toys(), every=2)}
    with pytest.raises(KeyboardInterrupt):
        on(module, report=stop, **kept)
    fresh = network()
    fresh.load_state_dict(module.state_dict())
    with pytest.raises(ValueError, match=r"Expected the settings .*trained before"):
        on(fresh, **kept)
    assert on(module, **kept).guarantee.delta == 2 * PLAN.delta


def test_claims_for_other_neighbours_do_not_add_up():
    module = trained(planned("zero-out")).module
    with pytest.raises(ValueError, match="Expected relation='add-or-remove-one' to be that of the trainings before"):
        on(module)
    with pytest.raises(ValueError, match=r"Expected claims=\['add-or-remove-one', 'zero-out-one'\] to be for the same"):
        together([trained().guarantee, trained(planned("zero-out")).guarantee])
    with pytest.raises(ValueError, match=r"Expected claims=\[\]"):
        together([])
    with pytest.raises(TypeError, match=r"Expected claims\[1\]="):
        together([trained().guarantee, PLAN])  # type: ignore[list-item]


def test_what_did_not_hold_in_one_training_does_not_hold_for_their_sum():
    claim = trained().guarantee
    broken = replace(claim, assumptions=(*claim.assumptions, OVERSPENT), not_covered=("a", "b"))
    total = together([claim, broken, replace(broken, not_covered=("b", "c"))])
    assert total.epsilon == math.inf and total.not_covered == ("a", "b", "c")
    assert together([claim]) == claim


# ---------------------------------------------------------------- one training
@pytest.mark.parametrize("name", ["Poisson", pytest.param("fixed size", marks=pytest.mark.slow), "zero-out"])
def test_a_plan_is_the_front_door_s_to_the_bit_and_its_claim_is_what_was_asked_for(name: str):
    plan = planned(name)
    found = trained(plan)
    problem = ModuleProblem(network(), POINTS, LABELS)
    streams = Streams.of("training", ["a"])
    runs = clipped_noisy_sgd(
        problem,
        [plan.noise],
        problem.initial(streams, only=[]),
        streams,
        sampling=plan.batches,
        norm_bound=1.0,
        step_size=0.5,
        num_steps=10,
        delta=1e-4,
        relation=plan.relation,
        divisor=12,
    )
    assert torch.equal(found.training.x, runs.x) and found.training.status.tolist() == [Status.FINISHED]
    assert found.guarantee == runs.guarantees[0]
    assert 0.99 * 3.0 < found.guarantee.epsilon <= 3.0 and found.guarantee.relation == plan.relation
    event = Event(plan.noise_multiplier, plan.relation, plan.batches, 10)
    assert account([event], 1e-4).epsilon == pytest.approx(found.guarantee.epsilon)
    louder = account([replace(event, noise_multiplier=0.95 * plan.noise_multiplier)], 1e-4)
    assert louder.epsilon > 3.0, "control"


def test_the_module_has_the_weights_and_the_one_given_keeps_its_own():
    module = network()
    next(module.parameters()).requires_grad_(False)
    before = [parameter.clone() for parameter in module.parameters()]
    found = PLAN.train(module, POINTS, LABELS, step_size=0.5, streams=Streams.of(0, ["a"]))
    assert all(torch.equal(new, old) for new, old in zip(module.parameters(), before, strict=True))
    kept, *changed = found.module.parameters()
    assert torch.equal(kept, before[0]) and not any(
        torch.equal(new, old) for new, old in zip(changed, before[1:], strict=True)
    )
    assert torch.equal(torch.cat([p.detach().reshape(-1) for p in changed]), found.training.x[0])


def test_seeds_are_secret_unless_one_is_given():
    secret = trained(streams=None)
    seeds = [found.guarantee.assumptions[0] for found in (secret, trained())]
    assert "came from the operating system" in seeds[0].statement and "the seed is secret" in seeds[1].statement
    assert not torch.equal(secret.training.x, trained(streams=None).training.x)


def test_a_schedule_of_one_number_is_that_number_and_the_last_one_goes_on():
    constant = trained()
    assert torch.equal(trained(step_size=torch.full((10,), 0.5)).training.x, constant.training.x)
    assert torch.equal(trained(step_size=torch.tensor([0.5])).training.x, constant.training.x)
    assert not torch.equal(trained(step_size=torch.tensor([0.5, 0.4])).training.x, constant.training.x)
    assert not torch.equal(trained(momentum=0.5).training.x, constant.training.x)


def test_under_add_or_remove_one_the_data_may_have_another_number_than_the_plan():
    assert trained(points=POINTS[1:], labels=LABELS[1:]).guarantee.epsilon == trained().guarantee.epsilon
    with pytest.raises(ValueError, match="sampling.num_examples=60 to be the problem's 59"):
        trained(replace(PLAN, epsilon=math.inf, **OTHER_PLANS["fixed size"]), points=POINTS[1:], labels=LABELS[1:])


def test_without_privacy_nothing_is_claimed_and_no_noise_is_drawn():
    plan = replace(PLAN, epsilon=math.inf)
    found = trained(plan)
    assert found.guarantee.epsilon == math.inf and plan.noise_multiplier == 0
    assert torch.equal(found.training.x, trained(plan).training.x)


def test_what_was_tuned_on_the_data_is_named():
    assert TUNED_ON_PRIVATE_DATA in trained(not_covered=(TUNED_ON_PRIVATE_DATA,)).guarantee.not_covered


def test_what_mixes_examples_claims_nothing():
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    with pytest.raises(ValueError, match="batch normalisation"):
        PLAN.train(module, POINTS, LABELS, step_size=0.1, streams=Streams.of(0, ["a"]))


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"batch_size": 61}, ValueError, "batch_size=61 <= num_examples=60"),
        ({"sampling": "fixed-size"}, CombinationError, "fixed"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changes: dict, error: type, said: str):
    with pytest.raises(error, match=said):
        replace(PLAN, **changes)


@pytest.mark.slow
def test_a_delta_that_allows_to_publish_an_example_is_warned_of():
    with pytest.warns(UserWarning, match=r"delta=0.02 to be well below 1 / 60: .* drawn at random"):
        replace(PLAN, delta=0.02)
    replace(PLAN, delta=0.016)  # control: no warning
    replace(PLAN, delta=0.5, epsilon=math.inf)  # nothing is claimed


@pytest.mark.parametrize(("num_examples", "far"), [(29, True), (30, False), (120, False), (121, True)])
def test_data_of_quite_another_number_than_the_plan_s_are_warned_of(num_examples: int, far: bool):
    data: dict[str, Any] = {"points": POINTS.repeat(3, 1)[:num_examples], "labels": LABELS.repeat(3)[:num_examples]}
    if not far:
        assert trained(**data).guarantee.epsilon <= 3.0  # where a warning would be an error
        return
    with pytest.warns(UserWarning, match=f"num_examples=60 to be near that of the data, {num_examples}"):
        trained(**data)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"points": "points.csv"}, TypeError, r"inputs\[0\], a str, to be numbers"),
        ({"step_size": None}, ValueError, "either step_size= or optimizer="),
        ({"step_size": torch.ones(99)}, ValueError, "step_size of 99 entries to have at most"),
        ({"schedule": lambda o: o}, ValueError, "schedule to go with an optimizer"),
        ({"streams": Streams.of(0, ["a", "b"])}, ValueError, "streams of 2 keys to be of one"),
        ({"not_covered": "tuned"}, TypeError, "not_covered='tuned' to be a tuple"),
    ],
)
def test_what_a_new_user_may_hand_in_is_refused_by_its_name(changes: dict, error: type, said: str):
    with pytest.raises(error, match=said) as caught:
        trained(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("step_size", [0.0, torch.tensor([0.1, math.nan]), torch.ones(2, 2), torch.ones(0)])
def test_step_sizes_that_cannot_be_are_refused(step_size):
    with pytest.raises(ValueError, match="step_size"):
        Descent(step_size)


@pytest.mark.slow
def test_the_readme_s_ten_lines_train_a_network_and_are_those_of_the_notebook(capsys: pytest.CaptureFixture[str]):
    (code,) = re.findall(r"```python\n(.*?)\n```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) == 10
    notebook = nbformat.read(ROOT / "notebooks" / "bring_your_own.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.source == code
    with torch.random.fork_rng():
        torch.manual_seed(0)
        names: dict[str, Any] = {}
        exec(compile(code, "README.md", "exec"), names)
    claim, right = capsys.readouterr().out.splitlines()
    assert claim.startswith("(2, 1e-05)-DP, add-or-remove-one") and right == "9 of 10 right: True"
    assert claim in first.outputs[0].text and right in first.outputs[0].text
    assert names["plan"].noise_multiplier == pytest.approx(2.2478, abs=1e-4)
