"""The saddle experiments of noisy SGD: their examples, and decision rules."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from specs import simulated

from dpnotes.oracles.fresh import PURPOSE
from dpnotes.papers.noisy_sgd.experiments import appendix_c, escape, fraction, lemma_3_2, slopes
from dpnotes.papers.noisy_sgd.experiments.wells import Instances, WellParameters, Wells, levels, parameters
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.problems.separable import Cosine, Linear, Separable
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams


# ---------------------------------------------------------------- instances and parameters
def test_batches_of_instances_are_those_of_virtual_data_times_a_factor():
    wells = Wells(5, f_max=1.0, sigma=0.3)
    streams, x = Streams.of("instances", range(2)), wells.start(2) + 0.1
    instances = Instances(wells.landscape, wells.feature, torch.tensor([1.0, 0.5]).double())
    virtual = VirtualData(wells.landscape, Separable([(wells.feature, 1), (Linear(0.0), 4)]))
    ours, theirs = (data.fresh(16, streams, "batch", 3).gradient(x) for data in (instances, virtual))
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=1e-14)
    assert float((ours[1] - theirs[1]).abs().max()) > 0.01  # control: the factor counts
    torch.testing.assert_close(instances.gradient(x)[1], 0.5 * wells.landscape.gradient(x)[1], rtol=0, atol=1e-14)
    assert torch.equal(instances.take(torch.tensor([1])).gradient(x[1:])[0], instances.gradient(x)[1])


def test_levels_are_those_of_the_iterates_whatever_runs_are_beside():
    wells, factors = Wells(3, f_max=1.0, sigma=0.3), torch.tensor([1.0, 0.7, 0.9]).double()
    given = [WellParameters(0.1, 0.7, steps, std, 10.0, 16) for steps, std in ((40, 0.05), (25, 0.0), (40, 0.1))]
    streams, rho = Streams.of("levels", range(3)), wells.hessian_lipschitz
    together = levels(wells, streams, given, factors)
    assert [len(path) for path in together] == [40, 25, 40]
    for run, choice in enumerate(given):
        alone, one = torch.tensor([run]), torch.ones(1, 1).double()
        (path,) = levels(wells, streams.take(alone), [choice], factors[alone])
        torch.testing.assert_close(together[run], path, rtol=0, atol=0)
        instances, x = Instances(wells.landscape, wells.feature, factors[alone]), wells.start(1)
        for step in range(choice.num_steps):
            assert float(together[run][step]) == pytest.approx(float(instances.level(x, rho)), rel=1e-6)
            batch = instances.fresh(16, streams.take(alone), PURPOSE, step * one[0].long())
            noise = choice.noise_std * streams.take(alone).normal(Gaussian().purpose, step, 3)
            x = x - 0.7 * (batch.gradient(x) + noise)
        assert (together[run][1:] != together[run][0]).any() == (choice.noise_std > 0)  # control: noise is needed
    wild = [replace(choice, step_size=1e200) for choice in given[2:]]
    assert levels(wells, streams.take(torch.tensor([2])), wild, factors[2:])[0][-1] == torch.inf


def test_the_parameters_are_the_theorems():
    wells = Wells(8, f_max=1.0, sigma=0.01)
    found = parameters(wells, 6e5, 1.0, 1e-6)
    assert found.step_size == pytest.approx(1 / wells.smoothness)
    assert found.num_steps == np.ceil(64 * wells.f_max / (found.step_size * found.alpha**2))
    assert found.noise_std >= wells.sigma / found.batch_size**0.5
    assert 1.0 < found.num_steps * found.batch_size**2 / 6e5**2 * 1.001
    assert found.alpha < wells.saddle_level  # so the start is no alpha-SOSP
    with pytest.raises(ValueError, match="alpha"):
        parameters(wells, 1e4, 1.0, 1e-6)


# ---------------------------------------------------------------- slopes
def reached(exponents: dict[str, float], theorem: dict[str, float] | None = None, spread: float = 0.02, still=0.1):
    """Return simulated accuracies with these exponents; the theorem's alpha has its own exponents, or the same ones."""
    points = pd.DataFrame(slopes.points(slopes.PAPER))[["knob", "value"]]
    frame = points.merge(pd.DataFrame({"repeat": range(20)}), how="cross").assign(noise=True, saddle_level=0.1)
    scatter = np.exp(spread * np.random.default_rng(0).normal(size=len(frame)))
    frame["reached"] = frame["value"] ** frame["knob"].map(exponents) * scatter
    frame["alpha"] = frame["value"] ** frame["knob"].map(theorem or exponents)
    control = frame[:20].assign(knob="n", value=6e4, noise=False, alpha=0.2, reached=still)
    return pd.concat([frame, control], ignore_index=True)


@pytest.mark.parametrize(
    ("change", "verdict", "said"),
    [
        ({}, "reproduced", "20 of 20 runs stay"),
        ({"n": -0.6}, "undecided", "n: -0.600"),
        ({"d": 0.15}, "undecided", "steeper: the bound is not tight here"),
        ({"d": 0.5}, "not reproduced", "worse"),
        ({"epsilon": -0.3}, "not reproduced", "worse"),
        ({"f_max": 1.0}, "not reproduced", "worse"),  # the exponent as printed
    ],
)
def test_the_rule_on_slopes(change, verdict, said):
    decision = slopes.decide(reached({**slopes.EXPONENTS, **change}, slopes.EXPONENTS), slopes.PAPER)
    assert decision.verdict == verdict and said in decision.reason


def test_slopes_that_are_too_uncertain_or_runs_that_left_without_noise_are_not_reproduced():
    assert slopes.decide(reached(slopes.EXPONENTS, spread=2.0), slopes.PAPER).verdict == "undecided"
    left = slopes.decide(reached(slopes.EXPONENTS, still=0.01), slopes.PAPER)
    assert left.verdict == "not reproduced" and "0 of 20" in left.reason


# ---------------------------------------------------------------- escape
@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda f: f, "reproduced"),
        (lambda f: f.assign(predicted=f["predicted"] * 1.35), "undecided"),
        (lambda f: f.assign(predicted=f["predicted"] / 4), "not reproduced"),  # the factor 2 of the difference dropped
        (lambda f: f.assign(growth_predicted=f["growth_predicted"] * 2), "not reproduced"),  # Hessian 2H
        (lambda f: f.assign(growth_predicted=f["growth_measured"] - 5 * f["growth_standard_error"]), "undecided"),
        (lambda f: f.assign(growth_predicted=f["growth_measured"] - 8 * f["growth_standard_error"]), "not reproduced"),
        (lambda f: f.assign(growth_standard_error=f["growth_predicted"] * 0.04), "undecided"),
        (lambda f: f.assign(predicted_time=f["predicted_time"] * 1.1), "undecided"),
        (lambda f: f.assign(predicted_time=f["predicted_time"] * 2), "not reproduced"),
        (lambda f: f.assign(left=[0] * (len(f) - 1) + [1]), "not reproduced"),
        (lambda f: f.assign(variance=np.nan), "not reproduced"),
    ],
)
def test_the_rule_on_escapes(change, verdict):
    assert escape.decide(change(simulated(escape)), escape.QUICK).verdict == verdict


def test_the_standard_error_of_a_growth_is_the_spread_of_growths():
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(300):
        first = torch.randn(200, generator=generator, dtype=torch.float64)
        last = 1.1**5 * first + 0.3 * torch.randn(200, generator=generator, dtype=torch.float64)
        found.append(escape.growth_of(first**2, last**2, 5))
    growths, errors = np.array(found).T
    assert errors.mean() == pytest.approx(growths.std(), rel=0.15)  # the spread of 300 is known to 4%
    # If the probes were independent, the error would be several times as large.
    assert errors.mean() < 0.5 * np.sqrt(2 * 2 / 200) / 2 / 5


def test_spread_is_the_sum_and_the_escape_time_its_inverse():
    assert escape.spread(0.1, 30) ** 2 == pytest.approx(sum(1.1 ** (2 * t) for t in range(30)))
    time = escape.escape_time(0.1, 1e-3, 0.2)
    assert 1e-3 * escape.spread(0.1, time) * 0.6744897501960817 == pytest.approx(0.2)


def test_mirrored_runs_are_those_with_mirrored_noise_on_the_same_batches():
    base, _ = escape.landscape("wells", 4)
    saddle, data = base.saddle, VirtualData(base, Separable([(Cosine(0.5), base.dim)]))
    streams, v, std, size, steps = Streams.of("coupled", range(3)), saddle.direction, 1e-3, 100.0, 30
    x = other = saddle.point.expand(3, -1)
    expected = [(x - other) @ v]
    for step in range(steps):
        batch = data.fresh(size, streams, PURPOSE, step)
        noise = std * streams.normal(Gaussian().purpose, step, data.dim)
        x = x - 0.1 * (batch.gradient(x) + noise)
        other = other - 0.1 * (batch.gradient(other) + noise - 2 * (noise @ v)[:, None] * v)
        expected.append((x - other) @ v)
    place, mirrored, same = (
        escape.places(examples, saddle, streams, 0.1, std, size, steps)
        for examples in (data, escape.Mirrored(data, saddle), data)
    )
    torch.testing.assert_close(place + mirrored, torch.stack(expected), rtol=0, atol=1e-13)
    assert float((place + same - torch.stack(expected)).abs().max()) > 1e-6  # control: the mirror matters


# ---------------------------------------------------------------- fraction
def fractions(own: float, worst: float, none: float) -> pd.DataFrame:
    rows = [(6e4, 1.0, own)] * 19 + [(6e4, 1.0, worst)] + [(6e4, 0.0, none)] * 20 + [(6e4, 64.0, 0.0)] * 20
    return pd.DataFrame(rows, columns=["num_examples", "multiple", "fraction"])


@pytest.mark.parametrize(
    ("own", "worst", "none", "verdict"),
    [
        (0.9, 0.6, 0.0, "reproduced"),
        (0.9, 0.4, 0.0, "undecided"),
        (0.4, 0.4, 0.0, "not reproduced"),
        (0.9, 0.6, 0.01, "not reproduced"),
    ],
)
def test_the_rule_on_fractions(own, worst, none, verdict):
    assert fraction.decide(fractions(own, worst, none), fraction.QUICK).verdict == verdict


# ---------------------------------------------------------------- Lemma 3.2
def largest(factor: float = 1.0, above: tuple[bool, bool] = (False, True), epsilon: float = 0.1) -> pd.DataFrame:
    dims = pd.DataFrame({"dim": [10, 1000], "law": [50.0, 250.0], "exceeds": above})
    frame = dims.merge(pd.DataFrame({"repeat": range(10)}), how="cross").assign(epsilon_assumption_b=epsilon)
    found = frame["law"] * factor + np.random.default_rng(0).normal(size=len(frame))
    bound = found - np.where(frame["exceeds"], 1, -1)
    return frame.assign(largest=found, bound=bound, share_above=0.5 * frame["exceeds"])


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "reproduced"),
        ({"factor": 1.02}, "undecided"),
        ({"factor": 1.2}, "not reproduced"),
        ({"above": (False, False)}, "not reproduced"),
        ({"above": (True, True)}, "undecided"),
        ({"epsilon": 2.0}, "undecided"),
    ],
)
def test_the_rule_on_lemma_3_2(change, verdict):
    assert lemma_3_2.decide(largest(**change), lemma_3_2.QUICK).verdict == verdict


# ---------------------------------------------------------------- Appendix C
@pytest.mark.parametrize(
    ("own", "control", "verdict"), [(0.9, 0.2, "reproduced"), (0.4, 0.2, "not reproduced"), (0.9, 0.8, "undecided")]
)
def test_the_rule_on_appendix_c(own, control, verdict):
    rows = [(outlier, ratio, own if ratio == 1 else control) for outlier in (0.0, 0.1) for ratio in (1.0, 1e4)] * 5
    frame = pd.DataFrame(rows, columns=["outlier", "ratio", "fraction"]).assign(largest=1.0)
    assert appendix_c.decide(frame, appendix_c.QUICK).verdict == verdict


def test_outliers_have_mean_0_and_variance_1():
    streams = Streams.of("outliers", range(1000))
    draws = appendix_c.outlier_means(0.01)(streams, "examples", torch.arange(1000), 100)
    # 100,000 draws with kurtosis about 1/0.01: standard errors 0.0032 and 0.031; 4 of them.
    assert abs(float(draws.mean())) < 0.013 and abs(float(draws.square().mean()) - 1) < 0.13
    assert len(draws.unique()) == 2
