"""Specs, canonical JSON, and the identification of an experiment."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dpnotes.experiments.spec import Experiment, Spec, canonical_json


def spec(paper: str = "toy", name: str = "mean", profile: str = "quick", **parameters) -> Spec:
    return Spec(paper, name, profile, {"decision_rule": "always", **parameters})


def nothing(*_):
    raise NotImplementedError


def experiment(paper: str = "toy", name: str = "mean", profile: str = "quick", **parameters) -> Experiment:
    return Experiment(
        paper=paper, name=name, title="", question="", specs={profile: spec(paper, name, profile, **parameters)},
        cells=nothing, run_cell=nothing, decide=nothing,
    )  # fmt: skip


# ---------------------------------------------------------------- canonical JSON
def test_the_order_of_the_keys_does_not_matter_and_the_type_does():
    assert spec(a=1, b={"c": 2, "d": 3}) == spec(b={"d": 3, "c": 2}, a=1) and hash(spec(a=[1])) == hash(spec(a=[1]))
    assert len({spec(a=value) for value in (1, 1.0, True, "1", [1], None)}) == 6
    assert len({experiment(a=value).identity("quick") for value in (1, 1.0, True, "1", [1], None)}) == 6


def test_names_profile_and_data_are_part_of_the_identity_and_what_only_the_rule_reads_is_not():
    made = [experiment(p, e, f) for p in "ab" for e in "cd" for f in ("quick", "paper")]
    found = {each.identity(next(iter(each.specs))) for each in made}
    assert len(found | {replace(made[0], data=("numbers",)).identity("quick")}) == 9
    for rule, same in (("limit",), True), ((), False):
        one, other = (replace(experiment(limit=value), rule=rule) for value in (0, 1))
        assert (one.identity("quick") == other.identity("quick")) == same
        assert (one.rule_record("quick") != other.rule_record("quick")) == same
        assert ("limit" in one.computing("quick").parameters) != same
    assert one.rule_record("quick") != replace(one, rule_version=2).rule_record("quick")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "Out of range float values"),
        ([1, {"b": float("inf")}], "Out of range float values"),
        (np.int64(1), "Object of type int64 is not JSON"),
    ],
)
def test_what_is_no_json_is_refused(value, message: str):
    with pytest.raises((TypeError, ValueError), match=f"Expected parameters to be JSON: {message}"):
        spec(a=value)


def test_a_spec_is_its_text_whatever_becomes_of_the_callers_dict():
    parameters = {"sizes": [1, 2], "rates": [0.1, 1e-8], "nothing": None}
    made = spec(**parameters)
    text = made.json
    for sizes in (parameters["sizes"], made["sizes"]):
        sizes.append(3)  # type: ignore[union-attr]
        assert made.json == text and Spec.from_json(text)["sizes"] == [1, 2]
    assert Spec.from_json(text) == made == pickle.loads(pickle.dumps(made))
    assert canonical_json({"a": "é"}) == '{"a":"\\u00e9"}'


def test_bad_specs_and_rules_are_named():
    for names, message in (
        (("Toy", "mean", "quick"), "Expected paper='Toy' to be lower-case"),
        (("toy", "a.b", "quick"), "Expected experiment='a.b' to be lower-case"),
        (("toy", "mean", "fast"), "Expected profile='fast' to be one of: quick, cpu, paper"),
    ):
        with pytest.raises(ValueError, match=message):
            spec(*names)
    for rule in (None, " ", 3):
        with pytest.raises(ValueError, match=f"Expected decision_rule={rule!r} of toy.mean to say when"):
            experiment(decision_rule=rule)
    with pytest.raises(ValueError, match="Expected the spec of toy.median.quick, got that of toy.mean.quick"):
        replace(experiment(), name="median")
