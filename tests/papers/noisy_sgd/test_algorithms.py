"""Algorithms 1 and 2 of Avdiukhin et al. (2024): lines, noise, guarantees and the arguments for them."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dpnotes.core import WHOLE, Relation, Sampling, Status
from dpnotes.guarantees import SHARED_NOISE, STATISTICS_WITHOUT_NOISE, TUNED_ON_PRIVATE_DATA
from dpnotes.oracles import fresh
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.papers.noisy_sgd.algorithms import clipped_noisy_sgd, noisy_sgd, noisy_sgd_on_fresh_data, theorem_3_1_noise
from dpnotes.papers.noisy_sgd.calculators import SENSITIVITY
from dpnotes.papers.noisy_sgd.readings import COUNTED_ONCE, NOT_KNOWN, Premises, Reading, readings
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.quadratics import Quadratic, log_spectrum
from dpnotes.problems.separable import DoubleWell, Linear, Separable
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.train.noise import NoiseChoice, calibrated_noise, no_noise

N = 40
FIXED = Sampling.fixed_size(8, N)
POISSON = Sampling.poisson(0.2)
REPLACE, ZERO = Relation.REPLACE_ONE, Relation.ZERO_OUT


def quadratic(spread: float = 0.5) -> Quadratic:
    return Quadratic.sample(log_spectrum(3, condition_number=10.0), N, spread, seed=0)


def start(runs: int = 1) -> Tensor:
    return torch.ones(runs, 3, dtype=torch.float64)


def by_hand(std: float, epsilon: float = 2.0) -> NoiseChoice:
    return NoiseChoice(std, epsilon, 1e-3, "chosen by hand")


def descend(noise: list[NoiseChoice], *, clipped: bool = False, problem: Any = None, **more: Any):
    options: dict[str, Any] = {
        "sampling": WHOLE, "norm_bound": 4.0, "step_size": 0.1, "num_steps": 6, "delta": 1e-3,
        "streams": Streams.of(0, range(len(noise))), "x": start(len(noise)),
    } | more  # fmt: skip
    x, streams = options.pop("x"), options.pop("streams")
    front_door = clipped_noisy_sgd if clipped else noisy_sgd
    return front_door(problem or quadratic(), noise, x, streams, **options)


def argued(noise: list[NoiseChoice], known: Premises = NOT_KNOWN, **more: Any) -> tuple[dict[str, Reading], ...]:
    return readings(descend(noise, **more), noise, known)


# ---------------------------------------------------------------- how much noise
SIZES: dict[str, Any] = {"norm_bound": 2.5, "batch_size": 512, "num_examples": 50_000, "num_steps": 2328}


def test_the_noise_of_theorem_3_1_is_its_formula_and_knows_its_window():
    delta_std = 2.5 * math.sqrt(2328 * math.log(100)) / (50_000 * 2.0)
    for c_1, inside in ((1.0, False), (10.0, True)):
        choice = theorem_3_1_noise(2.0, 0.01, **SIZES, c_1=c_1, c_2=1.5)
        assert choice.std == pytest.approx(1.5 * delta_std)
        (premise,) = choice.premises
        assert premise.holds is inside
        assert f"c_1 T B^2/n^2 = {c_1 * 2328 * (512 / 50_000) ** 2:.4g}" in premise.statement
    with pytest.raises(ValueError, match="Expected B=60000 <= n=50000"):
        theorem_3_1_noise(2.0, 0.01, **(SIZES | {"batch_size": 60_000}), c_1=1.0, c_2=1.0)


def test_a_baseline_without_noise_guarantees_nothing():
    runs = descend([no_noise()], clipped=True)
    assert math.isinf(runs.guarantees[0].epsilon) and readings(runs, [no_noise()])[0]["theorem 3.1"].vacuous
    unclipped = descend([no_noise()])
    assert all(r.vacuous for r in readings(unclipped, [no_noise()], Premises(sigma=1.0))[0].values())
    assert torch.equal(runs.x, unclipped.x)
    with pytest.raises(ValueError, match=r"Expected noise=\[0.0, 1.0\] in all runs or in none"):
        descend([no_noise(), by_hand(1.0)])


# ---------------------------------------------------------------- what may be claimed
def broken(reading: Reading) -> list[str]:
    assert reading.nominal is not None
    return [a.statement for a in reading.nominal.assumptions if a.holds is False]


def test_clipped_the_nominal_claim_stands_beside_the_accounted_one():
    how = {"sampling": POISSON, "relation": ZERO}
    enough = calibrated_noise(2.0, 1e-3, norm_bound=4.0, **how, num_steps=6, divisor=8)
    half = replace(enough, std=enough.std / 2)
    good, bad = (reading["theorem 3.1"] for reading in argued([enough, half], clipped=True, **how))
    assert good.nominal is not None and good.nominal.holds and good.accounted.holds
    assert good.nominal.epsilon == 2.0 and good.accounted.epsilon == pytest.approx(2.0, rel=1e-5)
    assert bad.nominal is not None and not bad.nominal.holds and bad.accounted.holds
    assert bad.accounted.epsilon > 2.5
    assert "accounted: epsilon = " in broken(bad)[0] and str(bad.nominal).startswith("no guarantee")


def test_what_the_premises_of_theorem_3_3_give():
    # Claim thm3.3.privacy at delta = failure = 0.01: delta + (1 + e^epsilon) delta, vacuous at epsilon = 8.
    choices = [NoiseChoice(9.0, epsilon, 0.01, "by hand") for epsilon in (2.0, 4.0, 8.0)]
    found = argued(choices, delta=0.01)
    deltas = [r["premises"].nominal.delta for r in found if r["premises"].nominal is not None]
    assert deltas == [pytest.approx(0.0939, abs=1e-4), pytest.approx(0.566, abs=1e-3), 1.0]
    for reading in found:
        for name in ("theorem 3.3", "transcript"):
            nominal = reading[name].nominal
            assert nominal is not None and nominal.delta == pytest.approx(0.02)
            assert reading[name].accounted.delta == pytest.approx(0.02)
    # With plenty of noise the accounted epsilon is small, and then e^epsilon costs little.
    assert found[2]["premises"].accounted.delta < 0.05 and not found[2]["premises"].vacuous
    (rare,) = argued(choices[:1], Premises(failure=1e-6))
    assert rare["transcript"].accounted.delta == pytest.approx(1e-3 + 1e-6)
    (loud,) = argued([NoiseChoice(0.1, 8.0, 0.01, "by hand")], delta=0.01)
    assert loud["premises"].vacuous and not loud["transcript"].vacuous


def test_an_exceeded_bound_ends_every_argument_that_rests_on_it():
    noise, known = [by_hand(1.0)], Premises(sigma=0.5, smoothness=1.0)
    below, above = (descend(noise, norm_bound=C) for C in (50.0, 1.0))
    inside, outside = (readings(runs, noise, known)[0] for runs in (below, above))
    assert below.guarantees[0].holds and not above.guarantees[0].holds
    assert above.guarantees[0].epsilon == math.inf > above.guarantees[0].nominal_epsilon
    assert math.inf > below.guarantees[0].epsilon == below.guarantees[0].nominal_epsilon
    assert all(reading.vacuous == (name != "assumption B") for name, reading in outside.items())
    for name, reading in outside.items():
        assert reading.accounted.holds == (name == "assumption B")
        assert inside[name].accounted.holds == (name != "theorem 3.3")
    assert "exceeded by" in str(outside["transcript"].accounted)
    # Without checks, the arguments rest on the event's probability alone.
    blind = argued(noise, norm_bound=50.0, check=0)[0]["transcript"].accounted
    assert blind.holds and "every gradient norm" not in str(blind) and "but for a probability of 0.001" in str(blind)


def test_the_premises_of_theorem_3_3_are_part_of_the_result():
    def printed(step_size: float, known: Premises) -> Reading:
        noise = [by_hand(90.0, epsilon=50.0)]
        return argued(noise, known, norm_bound=1e3, step_size=step_size)[0]["theorem 3.3"]

    known = Premises(sigma=1.0, smoothness=2.0)  # 1 / L = 0.5, 1 / (sigma sqrt(6)) = 0.408
    step = [COUNTED_ONCE.statement]  # the step of the proof that fails in every run
    assert broken(printed(0.4, known)) == step
    assert broken(printed(0.45, known)) == [*step, "eta = 0.45 <= min(1/L, 1/(sigma sqrt(T))) = 0.4082"]
    assert broken(printed(0.45, Premises(sigma=1.0))) == step
    nominal = printed(0.45, Premises()).nominal
    assert nominal is not None and not nominal.holds and (nominal.nominal_epsilon, nominal.delta) == (50.0, 0.002)
    said = "; ".join(a.statement for a in nominal.assumptions)
    assert "leaves the privacy noise out" in said and "in its own run" in said
    window = theorem_3_1_noise(5.0, 1e-3, norm_bound=4.0, batch_size=8, num_examples=N, num_steps=6, c_1=1.0, c_2=9.0)
    assert "epsilon = 5 < c_1 T B^2/n^2 = 0.24 (c_1 = 1)" in broken(argued([window])[0]["theorem 3.3"])[1]


# ---------------------------------------------------------------- Assumption B alone
@pytest.mark.slow
def test_assumption_b_has_a_sensitivity_of_its_own():
    sigma, std = 0.5, 0.6
    noise, known = [by_hand(std)], Premises(sigma=sigma)
    (reading,) = argued(noise, known, sampling=FIXED)
    s = sigma * math.sqrt(math.log(1 + (math.e - 1) * N))
    event = Event(std / (2 * s * N / ((N - 1) * 8)), REPLACE, FIXED, 6)
    claim = reading["assumption B"]
    assert claim.nominal is None and claim.accounted.delta == 1e-3
    assert claim.accounted.epsilon == pytest.approx(account([event], 1e-3).epsilon, rel=1e-12)
    assert "Assumption B holds for both data sets" in str(claim.accounted)
    whole = argued(noise, known, sampling=WHOLE)[0]["assumption B"]
    event = Event(std / (2 * s / (N - 1)), REPLACE, count=6)
    assert whole.accounted.epsilon == pytest.approx(account([event], 1e-3).epsilon, rel=1e-12)
    # The argument needs a sigma, and does not apply where the norms themselves matter.
    assert "assumption B" not in argued(noise)[0]
    assert "assumption B" not in argued(noise, known, sampling=POISSON, relation=ZERO)[0]
    # A sum with another divisor has another sensitivity.
    other = argued(noise, known, sampling=FIXED, divisor=16.0)[0]["assumption B"]
    assert other.accounted.epsilon < claim.accounted.epsilon


def test_neighbours_that_satisfy_assumption_b_move_a_batch_by_at_most_its_sensitivity():
    sigma, far = 1.0, 0.995
    bound = SENSITIVITY(n=N, B=8, sigma=sigma)
    rows = torch.zeros(N, 2, dtype=torch.float64)
    rows[0, 0] = far * bound["sample"] * N / (N - 1)
    other = rows.clone()
    other[0] = -rows[0]

    def holds(data: Tensor) -> bool:
        away = data - data.mean(0)
        return float((away.square().sum(1) / sigma**2).exp().mean()) < math.e

    assert holds(rows) and holds(other)
    x, examples = torch.zeros(1, 2, dtype=torch.float64), torch.arange(8)[None]
    means = [
        CustomProblem(lambda x, row: x @ row, 2, data)
        .gradients(x, examples)
        .weighted_sum(torch.full((1, 8), 1 / 8).double())
        for data in (rows, other)
    ]
    moved = float((means[0] - means[1]).norm())
    assert 0.9 * bound["batch"] < moved <= bound["batch"]
    assert not holds(rows * 1.05)  # the control: a little further out, and Assumption B fails


@pytest.mark.slow
def test_no_argument_holds_where_examples_mix():
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    problem = ModuleProblem(module, torch.randn(N, 4, generator=torch.Generator().manual_seed(0)), torch.arange(N) % 2)
    streams, how = Streams.of(0, ["a"]), {"sampling": FIXED, "norm_bound": 40.0, "num_steps": 3, "delta": 1e-3}
    noise = [by_hand(20.0)]
    for inner, holds in ((problem, False), (quadratic(), True)):
        x = torch.zeros(1, inner.dim, dtype=torch.float32 if inner is problem else torch.float64)
        runs = noisy_sgd(inner, noise, x, streams, **how, step_size=0.01, check=0)
        found = readings(runs, noise, Premises(sigma=1.0))[0]
        del found["theorem 3.3"]  # this argument never holds
        assert {reading.accounted.holds for reading in found.values()} == {holds}


# ---------------------------------------------------------------- fresh data
def test_the_noise_shares_no_draws_with_fresh_batches():
    data = VirtualData(Separable([(DoubleWell(1.0), 2)]), Separable([(Linear(0.5), 2)]))
    with pytest.raises(ValueError, match="to have another purpose"):
        FreshGradient(data, 8, torch.ones(1).double(), 5.0, 3, mechanism=Gaussian(fresh.PURPOSE))


def on_fresh_data(noise: list[NoiseChoice], **more: Any):
    data = VirtualData(Separable([(DoubleWell(1.0), 2)]), Separable([(Linear(0.5), 2)]))
    options: dict[str, Any] = {
        "batch_size": 100, "norm_bound": 6.0, "step_size": 0.1, "num_steps": 150, "delta": 1e-6,
        "x": torch.zeros(len(noise), 2, dtype=torch.float64), "streams": Streams.of(0, range(len(noise))),
    } | more  # fmt: skip
    x, streams = options.pop("x"), options.pop("streams")
    return noisy_sgd_on_fresh_data(data, noise, x, streams, **options), data


def test_on_fresh_data_the_iterates_are_those_of_the_numbered_lines():
    runs, data = on_fresh_data([by_hand(0.1), by_hand(0.3)], num_steps=4)
    streams = Streams.of(0, range(2))
    x = torch.zeros(2, 2, dtype=torch.float64)
    for t in range(4):
        xi = torch.tensor([[0.1], [0.3]], dtype=torch.float64) * streams.normal("gaussian mechanism", t, 2)
        x = x - 0.1 * (data.fresh(100, streams, "fresh batch: examples", t).gradient(x) + xi)
    assert (runs.x - x).abs().max() < 1e-12


def test_noise_leaves_a_saddle_and_no_noise_stays():
    runs, data = on_fresh_data([by_hand(0.1)] * 20)
    assert (runs.state.status == Status.FINISHED).all()
    assert (data.landscape.smallest_eigenvalue(runs.x) > 0.5).double().mean() > 0.9
    quiet, _ = on_fresh_data([no_noise()] * 2, batch_size=10**18, num_steps=100)
    assert (data.landscape.smallest_eigenvalue(quiet.x) < -0.9).all()


@pytest.mark.slow
def test_what_fresh_data_may_claim_is_what_they_are_declared_to_be():
    known, noise = Premises(sigma=2.0), [by_hand(0.5)]
    fresh, _ = on_fresh_data(noise)
    sampled, _ = on_fresh_data(noise, sampling=Sampling.fixed_size(100, 10**6))
    assert torch.equal(fresh.x, sampled.x)
    once = account([Event(0.5 / (2 * 6.0 / 100), REPLACE)], 1e-6).epsilon
    assert fresh.guarantees[0].epsilon == pytest.approx(once)
    assert "assumption B" not in readings(fresh, noise, known)[0]
    claim = readings(sampled, noise, known)[0]["assumption B"].accounted
    moved = SENSITIVITY(n=10**6, B=100, sigma=2.0)["batch"]
    event = Event(0.5 / moved, REPLACE, Sampling.fixed_size(100, 10**6), 150)
    assert claim.epsilon == pytest.approx(account([event], 1e-6).epsilon)
    for runs, said in ((sampled, "batches were drawn from 1000000 examples"), (fresh, "no example is in two batches")):
        arguments = readings(runs, noise, known)[0].values()
        claims = (runs.guarantees[0], *(c for r in arguments for c in (r.nominal, r.accounted) if c is not None))
        assert all(any(a.statement.startswith(said) for a in claim.assumptions) for claim in claims)


@pytest.mark.slow
@pytest.mark.parametrize("augment", [False, True])
def test_assumption_b_speaks_of_examples_as_they_are(augment: bool):
    """Every unchanged picture has gradient 0, and the network never sees the places to which a crop moves it."""
    pictures, layer = torch.zeros(20, 1, 8, 8), nn.Linear(64, 2, bias=False)
    with torch.no_grad():
        pictures[0, 0, 4, 1] = 1.0
        layer.weight.zero_()[:, 33] = torch.tensor([60.0, -60.0])
    problem = ModuleProblem(nn.Sequential(nn.Flatten(), layer), pictures, torch.zeros(20).long())
    x = problem.initial(Streams.of(0, ["a"]), only=[])
    assert problem.gradients(x).norms().max() == 0.0
    augmented = problem.augmented(Streams.of(0, ["a"]), 0) if augment else problem
    assert (augmented.gradients(x).norms().max() > 0.5) == augment
    noise = [by_hand(1e-3)]
    options: dict[str, Any] = {"problem": problem, "x": x, "step_size": 1e-12, "num_steps": 1, "augment": augment}
    (found,) = argued(noise, Premises(sigma=1e-9), **options)
    assert ("assumption B" in found) == (not augment)
    assert augment or found["assumption B"].accounted.epsilon == 0.0


@pytest.mark.slow
def test_a_run_with_less_noise_than_an_accountant_knows_claims_nothing():
    least = 1e-6 * 2 * 6.0 / 100
    noise = [by_hand(0.9 * least), by_hand(1.1 * least)]
    runs, _ = on_fresh_data(noise, num_steps=2, sampling=Sampling.fixed_size(100, 10**6))
    little, enough = runs.guarantees
    assert math.isinf(little.epsilon) and "less noise than an accountant knows" in str(little)
    first, second = readings(runs, noise, Premises(sigma=1e-7))
    assert all(reading.vacuous for reading in first.values())
    assert math.isfinite(enough.epsilon)  # control: finite, like any claim with so little noise
    assert not second["assumption B"].vacuous
    far = readings(runs, noise, Premises(sigma=1e9))[1]["assumption B"]  # its sensitivity is too large
    assert far.vacuous and math.isinf(far.accounted.epsilon)


# ---------------------------------------------------------------- what else is said
def test_what_no_guarantee_covers_is_named():
    runs = descend([by_hand(1.0)], bound_basis="measured", not_covered=(TUNED_ON_PRIVATE_DATA,))
    assert runs.guarantees[0].not_covered == (TUNED_ON_PRIVATE_DATA, STATISTICS_WITHOUT_NOISE)
    (arguments,) = readings(runs, [by_hand(1.0)])
    assert all(argument.accounted.not_covered == runs.guarantees[0].not_covered for argument in arguments.values())
    clipped = descend([by_hand(1.0)], clipped=True, bound_basis="measured")
    assert clipped.guarantees[0].not_covered == (STATISTICS_WITHOUT_NOISE,)
    assert descend([by_hand(1.0)], clipped=True).guarantees[0].not_covered == ()


def test_runs_that_share_their_noise_say_so():
    shared, apart = (
        descend([by_hand(1.0)] * 2, streams=Streams.of(0, names)).guarantees[0] for names in (["a", "a"], ["a", "b"])
    )
    assert SHARED_NOISE in shared.assumptions and SHARED_NOISE not in apart.assumptions
    (secret,) = argued([by_hand(1.0)], streams=Streams.secure(1))
    assert "noise came from the operating system" in str(secret["transcript"].accounted)


def test_a_run_that_diverges_says_so():
    runs = descend([by_hand(1.0)], step_size=1e200)
    assert runs.state.status.tolist() == [Status.DIVERGED] and not runs.guarantees[0].holds
