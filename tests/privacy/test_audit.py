"""Audits: intervals, power and densities against independent computations, valid levels, one run, bad input."""

import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import pld
from scipy import stats
from torch import Tensor

from dpnotes.core import Guarantee, Relation, Request, Sensitive
from dpnotes.guarantees import CombinationError
from dpnotes.privacy import mechanisms
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.audit import (
    GaussianPair,
    LowerBound,
    MixturePair,
    ScaledPair,
    choose_threshold,
    epsilon_from_counts,
    from_scores,
    guess,
    one_run,
    one_run_p_value,
    power,
    runs_for_power,
)
from dpnotes.random.streams import Streams

ZERO_OUT = Relation.ZERO_OUT


# ---------------------------------------------------------------- counts
@pytest.mark.parametrize("level", [0.01, 0.1])
@pytest.mark.parametrize(("hits", "false_hits"), [(0, 0), (7, 0), (50, 0), (50, 3), (50, 50), (49, 1), (3, 40)])
def test_the_bound_is_that_of_clopper_and_pearson(hits: int, false_hits: int, level: float):
    lower = stats.binomtest(hits, 50).proportion_ci(1 - level, "exact").low
    upper = stats.binomtest(false_hits, 60).proportion_ci(1 - level, "exact").high if false_hits <= 60 else 1.0
    expected = max(0.0, math.log(max((lower - 0.01) / upper, 1e-300)))
    got = epsilon_from_counts(hits, 50, false_hits, 60, delta=0.01, level=level)
    assert float(got) == pytest.approx(expected, abs=1e-9)


def test_power_is_the_sum_over_all_outcomes():
    runs, claim = 40, {"epsilon": 0.7, "delta": 0.01, "level": 0.05}
    counts = np.arange(runs + 1)
    bounds = epsilon_from_counts(counts[:, None], runs, counts[None], runs, delta=0.01, level=0.05)
    for hit, false_hit in ((0.8, 0.1), (0.5, 0.2), (1.0, 0.0), (0.3, 0.3)):
        outcomes = np.outer(stats.binom.pmf(counts, runs, hit), stats.binom.pmf(counts, runs, false_hit))
        assert power(hit, false_hit, runs, **claim) == pytest.approx(float(outcomes[bounds > 0.7].sum()), abs=1e-9)


@pytest.mark.parametrize(("hit", "false_hit", "epsilon"), [(0.5, 0.01, 2.0), (0.05, 1e-4, 4.0), (1.0, 0.0, 3.0)])
def test_the_number_of_runs_has_its_power_and_a_few_less_do_not(hit: float, false_hit: float, epsilon: float):
    runs = runs_for_power(hit, false_hit, epsilon=epsilon, delta=1e-5)
    assert power(hit, false_hit, runs, epsilon=epsilon, delta=1e-5) >= 0.99
    assert power(hit, false_hit, int(0.97 * runs) - 1, epsilon=epsilon, delta=1e-5) < 0.99


# ---------------------------------------------------------------- densities
def covariance_root(outputs: int = 5, draws: int = 7) -> Tensor:
    return Streams.of("root", ["a"]).normal("noise", 0, draws * outputs).view(draws, outputs)


def test_the_distance_of_gaussians_is_mahalanobis_s():
    root, shift = covariance_root(), torch.linspace(-1, 2, 5, dtype=torch.float64)
    pair = GaussianPair(torch.ones(5), shift, root)
    assert pair.mu**2 == pytest.approx(float(shift @ torch.linalg.solve(root.T @ root, shift)), rel=1e-10)
    assert pair.epsilon(1e-5) == pytest.approx(rho_to_epsilon(pair.mu**2 / 2, 1e-5))
    same = GaussianPair(torch.ones(5), shift * 0, root)
    assert same.epsilon(1e-5) == 0.0 and not same.score(torch.full((3, 5), 2.0)).any()


def test_a_shift_without_noise_is_seen_and_one_with_little_is_not_taken_for_it():
    root = covariance_root()
    blind = torch.linalg.qr(root.T)[0][:, 0]
    flat = root - torch.outer(root @ blind, blind)  # no component along `blind`
    pair = GaussianPair(torch.zeros(5), blind + 0.3, flat)
    assert math.isinf(pair.mu) and math.isinf(pair.epsilon(1e-5))
    outputs = Streams.of("blind", ["a"]).normal("z", 0, 70).view(10, 7) @ flat
    torch.testing.assert_close(pair.score(outputs), torch.zeros(10, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(pair.score(outputs + pair.shift), torch.ones(10, dtype=torch.float64), atol=1e-9, rtol=0)
    little = GaussianPair(torch.zeros(5), blind, flat + 1e-4 * torch.outer(torch.ones(7), blind))
    assert 1e2 < little.mu < 1e5


def test_the_score_is_standard_normal_and_shifted_by_mu():
    pair = GaussianPair(torch.ones(5), torch.linspace(-1, 2, 5), covariance_root())
    noise = Streams.of("scores", ["a"]).normal("z", 0, 7 * 20_000)[0].view(-1, 7) @ pair.noise
    assert stats.kstest(pair.score(pair.mean + noise).numpy(), stats.norm.cdf).pvalue > 1e-4
    assert stats.kstest(pair.score(pair.mean + pair.shift + noise).numpy(), stats.norm(pair.mu, 1).cdf).pvalue > 1e-4
    assert stats.kstest(pair.score(pair.mean + 1.1 * noise).numpy(), stats.norm.cdf).pvalue < 1e-4  # the control


@pytest.mark.parametrize(
    ("rate", "multiplier", "delta"),
    [
        pytest.param(0.5, 1.0, 1e-5, marks=pytest.mark.slow),
        pytest.param(0.1, 0.7, 1e-3, marks=pytest.mark.slow),
        (0.02, 1.0, 1e-6),
    ],
)
def test_a_sampled_gaussian_s_epsilon_is_that_of_its_privacy_loss_distribution(rate, multiplier, delta):
    pair = MixturePair(np.array([[0.0, 1.0], [1 - rate, rate]]), np.array([[0.0], [1.0]]), multiplier)
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier)))
    assert pair.epsilon(delta) == pytest.approx(accountant.get_epsilon(delta), rel=2e-3)
    assert pair.epsilon(delta) <= accountant.get_epsilon(delta)
    assert pair.epsilon(delta) < rho_to_epsilon(0.5 / multiplier**2, delta)  # the control: sampling amplifies


def test_a_mixture_of_one_is_a_gaussian_and_its_attack_faces_the_right_way():
    one, other = np.array([[-2.0], [1.0]]), np.array([[0.0], [1.0]])
    pair = MixturePair(one, other, 1.0)
    assert pair.epsilon(1e-5) == pytest.approx(rho_to_epsilon(2.0, 1e-5), rel=1e-3)
    hit, false_hit = pair.rates(1.0)  # the example lowers the output, so the score is negated
    assert hit == pytest.approx(stats.norm.sf(-1)) and false_hit == pytest.approx(stats.norm.sf(1))
    assert MixturePair(other, other, 1.0).epsilon(1e-5) == 0.0
    assert math.isinf(MixturePair(np.array([[100.0], [1.0]]), other, 1.0).epsilon(1e-5))


@pytest.mark.slow
@pytest.mark.parametrize("stds", [(0.5, 1.0), (1.0, 0.5)])
def test_two_scales_have_the_epsilon_of_their_densities(stds: tuple[float, float]):
    means = torch.tensor([[0.3], [0.0]], dtype=torch.float64)
    pair, delta = ScaledPair(means, stds), 1e-3
    grid = np.linspace(-12, 12, 400_001)
    one, other = (stats.norm.pdf(grid, float(mean), std) for mean, std in zip(means[:, 0], stds, strict=True))

    def excess(epsilon: float) -> float:
        both = (np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ((one, other), (other, one)))
        return float(max(both) * (grid[1] - grid[0]))

    epsilon = pair.epsilon(delta)
    assert excess(epsilon) == pytest.approx(delta, rel=1e-3)
    assert excess(0.99 * epsilon) > 1.01 * delta  # the control: the grid resolves this small difference


@pytest.mark.parametrize("stds", [(0.5, 1.0), (1.0, 0.5)])
def test_the_rates_of_two_scales_are_those_of_samples(stds: tuple[float, float]):
    means = torch.cat([torch.full((1, 4), 0.3), torch.zeros(1, 4)]).double()
    pair, noise = ScaledPair(means, stds), Streams.of("scales", [0]).normal("draws", 0, 80_000)[0].view(20_000, 4)
    threshold = pair.strongest_threshold(20_000, 1e-3, 0.01)
    outputs = [mean + std * noise for mean, std in zip(means, stds, strict=True)]
    hits = [float((pair.score(side) > threshold).double().mean()) for side in outputs]
    errors = [5 * math.sqrt(rate * (1 - rate) / 20_000) for rate in pair.rates(threshold)]  # one in a million
    assert all(abs(hit - rate) < error for hit, rate, error in zip(hits, pair.rates(threshold), errors, strict=True))
    assert abs(hits[0] - pair.rates(threshold)[1]) > errors[0]  # the control: the two sides differ


def test_two_scales_that_are_almost_one_are_almost_a_gaussian():
    means = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    gaussian = GaussianPair(means[1], means[0], torch.eye(2)).epsilon(1e-5)
    assert ScaledPair(means, (1.0, 1.0001)).epsilon(1e-5) == pytest.approx(gaussian, rel=1e-3)
    assert ScaledPair(means, (1.0, 1.1)).epsilon(1e-5) > 1.1 * gaussian  # the control
    many = [ScaledPair(torch.zeros(2, outputs), (1.0, 1.1)).epsilon(1e-5) for outputs in (1, 10, 100, 1000)]
    assert many == sorted(many) and many[-1] > 10 * many[0]  # every output is another look at the scale

    one_scale = ScaledPair.of(lambda data, noise: data + noise, means[1], means[0], 2)
    two_scales = ScaledPair.of(lambda data, noise: data + noise * (1 + data[:, :1]), means[1], means[0], 2)
    assert isinstance(one_scale, GaussianPair) and isinstance(two_scales, ScaledPair)
    assert two_scales.stds == (2.0, 1.0)
    # Code that used one data set's noise for both reported 4.38 as exact here; the exact value is 37.63.
    with pytest.raises(ValueError, match="the same noise on both data sets"):
        GaussianPair.of(lambda data, noise: data + noise * (1 + data[:, :1]), means[1], means[0], 2)
    with pytest.raises(ValueError, match="noise is a multiple of the draws"):
        ScaledPair.of(lambda data, noise: data + noise.cumsum(1), means[1], means[0], 2)
    for kind in (GaussianPair, ScaledPair):  # data with their own runs axis
        with pytest.raises(ValueError, match=r"Expected release to give \(6, outputs\), got \(6, 6, 2\)"):
            kind.of(lambda data, noise: data + noise, means[1:], means[:1], 2)


NOT_LINEAR = {
    "abs": lambda data, noise: data + noise.abs(),
    "clamp": lambda data, noise: data + noise.clamp(-2, 2),
    "wide clamp": lambda data, noise: data + noise.clamp(-10, 10),
    "clamp of the output": lambda data, noise: (data + noise).clamp(0, 10),
    "infinite": lambda data, noise: data + noise / (noise + 1),
    "abs beside a large number": lambda data, noise: 1e7 + data + noise.abs(),
}
OF_ALL_RUNS = {
    "sum of data": lambda data, noise: data.sum() / 5 + 0.2 * noise,
    "sums of noise": lambda data, noise: data + noise.cumsum(0),
    "the last run's noise": lambda data, noise: data + noise[-1:],
    "noise of its own": lambda data, noise: data + torch.randn_like(noise),
}


@pytest.mark.parametrize("name", [*NOT_LINEAR, *OF_ALL_RUNS])
def test_what_is_not_linear_or_mixes_runs_gets_no_exact_epsilon(name: str):
    release, num_draws = (NOT_LINEAR | OF_ALL_RUNS)[name], 5
    without, included = torch.zeros(num_draws), torch.eye(num_draws)[0]
    message = "linear in its noise" if name in NOT_LINEAR else "answers each run by itself"
    for kind in (GaussianPair, ScaledPair):
        with pytest.raises(ValueError, match=f"Expected a release.* {message}"):
            kind.of(release, without, included, num_draws)
    with pytest.raises(ValueError, match="Expected a release"):  # the first output of a release that adds a coin to it
        MixturePair.of(
            lambda data, coins, noise: release(data, noise)[:, 0] + coins,
            without, included, torch.arange(2.0), torch.ones(2) / 2, num_draws,
        )  # fmt: skip
    linear = GaussianPair.of(lambda data, noise: data - noise, without, included, num_draws)
    assert round(linear.epsilon(1e-5), 3) == 4.377, "the control"


def test_what_is_not_linear_on_one_data_set_alone_or_for_one_coin_is_seen_too():
    without, included, coins = torch.zeros(2), torch.ones(2), torch.arange(2.0)

    def folded(data: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return data + torch.where(data > 0, noise.abs(), noise)

    with pytest.raises(ValueError, match="the same noise on both data sets"):
        GaussianPair.of(folded, without, included, 2)
    with pytest.raises(ValueError, match="linear in its noise"):
        ScaledPair.of(folded, without, included, 2)
    for scale in (lambda data, coins: 1 + coins, lambda data, coins: 1 + data[:, 0]):
        with pytest.raises(ValueError, match="the same noise on both data sets, whatever its coins"):
            MixturePair.of(
                lambda data, coins, noise: data[:, 0] + scale(data, coins) * noise[:, 0],  # noqa: B023
                without, included, coins, torch.ones(2) / 2, 1,
            )  # fmt: skip
    with pytest.raises(ValueError, match="answers each run by itself"):
        MixturePair.of(
            lambda data, coins, noise: data[:, 0] + coins.mean() + noise[:, 0],
            without, included, coins, torch.ones(2) / 2, 1,
        )  # fmt: skip


def test_rounding_is_not_taken_for_noise_that_is_not_linear():
    without, included = torch.full((300,), 1000.0), torch.full((300,), 1000.0)
    included[0] += 1
    weights = Streams.of("rounding", [0]).normal("weights", 0, 300 * 300)[0].view(300, 300)

    def turned(data: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:  # some outputs have no noise but rounding
        turned = noise @ weights
        return torch.cat([data + turned, turned @ weights.inverse() @ weights - turned], 1)

    assert GaussianPair.of(turned, without, included, 300).mu > 0
    short = GaussianPair.of(lambda data, noise: data.float() + noise.float(), without, included, 300)
    assert short.mu == pytest.approx(1, rel=1e-3)  # in float32, where a draw added to 1000 has four digits
    single = GaussianPair.of(lambda data, noise: data + noise.float() @ weights.float(), 0 * without, included, 300)
    assert single.mu > 0  # sums in another order, alone and with others


# ---------------------------------------------------------------- honest levels
# At this large delta the tight event is common, and with many more runs on one side the bound's error comes from one
# interval alone. This is the hardest case for the level that a fixed number of draws can show.
MU, DELTA, LEVEL = 2.0, 0.5, 0.01
TRUE = rho_to_epsilon(MU**2 / 2, DELTA)
HONEST = ("threshold known", "threshold chosen", "one run")
TIGHT = TRUE / MU + MU / 2  # the event above this threshold forces exactly the true epsilon


def gaussian_scores(audits: int, runs: int, included: bool, seed: str) -> Tensor:
    """Return scores `(audits, runs)` of the library's Gaussian mechanism, with or without the example."""
    streams, each = Streams.of(f"{seed} {included}", range(audits)), torch.ones(audits, dtype=torch.float64)
    answer = Sensitive(torch.full((audits, runs), float(included)).double(), each, Relation.ZERO_OUT, "proved")
    request = Request(answer, each / MU, torch.zeros(audits, dtype=torch.int64), each.bool())
    mechanism = mechanisms.Gaussian()
    return mechanism.release(mechanism.init(answer.value), request, streams)[1] * MU


def exceedances(audits: int, runs: int, false_runs: int, seed: str) -> dict[str, int]:
    """Count how often each kind of audit of the correct mechanism exceeds its true epsilon."""
    found: dict[str, int] = dict.fromkeys((*HONEST, "no interval", "ten times the level", "chosen on the same"), 0)
    chunk = 100
    for first in range(0, audits, chunk):
        scores = gaussian_scores(chunk, runs, True, f"{seed} {first}")
        false_scores = gaussian_scores(chunk, false_runs, False, f"{seed} {first}")
        hits, false_hits = ((s > TIGHT).sum(1).numpy() for s in (scores, false_scores))
        for kind, level in (("threshold known", LEVEL), ("ten times the level", 10 * LEVEL)):
            bounds = epsilon_from_counts(hits, runs, false_hits, false_runs, delta=DELTA, level=level)
            found[kind] += int((bounds > TRUE).sum())
        found["no interval"] += int((hits / runs - DELTA > math.exp(TRUE) * false_hits / false_runs).sum())
        coins = Streams.of(f"{seed} coins {first}", range(chunk)).uniform("coins", 0, false_runs) < 0.5
        for row in range(chunk):
            chosen = from_scores(scores[row], false_scores[row], delta=DELTA, relation=ZERO_OUT, level=LEVEL)
            found["threshold chosen"] += chosen.epsilon > TRUE
            greedy = choose_threshold(scores[row], false_scores[row], delta=DELTA, level=LEVEL)
            same = from_scores(
                scores[row], false_scores[row], delta=DELTA, relation=ZERO_OUT, level=0.5, threshold=greedy
            )
            found["chosen on the same"] += same.epsilon > TRUE
            seen = torch.where(coins[row], scores[row, :false_runs], false_scores[row])
            pure = one_run(coins[row], guess(seen, 10, 10), delta=1e-5, relation=ZERO_OUT, level=LEVEL)
            found["one run"] += pure.epsilon > rho_to_epsilon(MU**2 / 2, 1e-5)
    return found


@pytest.mark.slow
def test_audits_of_the_correct_mechanism_keep_their_level():
    # The controls: no interval, a level that is ten times too large, and a threshold chosen on the counted runs.
    found = exceedances(2000, 8000, 400, "slow")
    # The largest count that an exceedance probability of 1e-2 reaches with probability 1 - 1e-6.
    most = stats.binom.isf(1e-6, 2000, LEVEL)
    assert all(found[kind] <= most for kind in HONEST), found
    assert all(found[kind] > most for kind in found.keys() - {*HONEST}), found
    assert found["threshold known"] > 0, (
        "an audit that never errs is far from its level, and this test far from a limit"
    )


# ---------------------------------------------------------------- one run
def test_the_p_value_is_the_theorem_s():
    def by_hand(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
        accuracy = math.exp(epsilon) / (1 + math.exp(epsilon))
        mass = [math.comb(r, k) * accuracy**k * (1 - accuracy) ** (r - k) for k in range(r + 1)]
        worst = max(sum(mass[k] for k in range(r + 1) if v > k >= v - i) / i for i in range(1, m + 1))
        return min(1.0, sum(mass[v:]) + 2 * m * delta * worst)

    for m, r, v, epsilon, delta in (
        (20, 12, 9, 0.8, 1e-3),
        (30, 30, 17, 0.1, 1e-2),
        (9, 4, 4, 2.0, 1e-5),
        (5, 5, 1, 1, 0.1),
    ):
        got = one_run_p_value(m, r, v, epsilon=epsilon, delta=delta)
        assert got == pytest.approx(by_hand(m, r, v, epsilon, delta), rel=1e-12)


def test_the_bound_of_one_run_is_where_the_p_value_reaches_the_level():
    coins = torch.arange(200) % 2 == 0
    guesses = torch.where(
        torch.arange(200) < 100, torch.where(torch.arange(200) < 90, 1, -1) * (2 * coins.long() - 1), 0
    )
    bound = one_run(coins, guesses, delta=1e-5, relation=ZERO_OUT, level=0.05)
    assert bound.method == "90 right guesses of 100"
    at = {"delta": 1e-5}
    assert one_run_p_value(200, 100, 90, epsilon=bound.epsilon, **at) < 0.05
    assert one_run_p_value(200, 100, 90, epsilon=bound.epsilon + 1e-6, **at) >= 0.05
    assert one_run(coins, guesses * 0, delta=1e-5, relation=ZERO_OUT).epsilon == 0.0
    assert one_run(coins[:1], guesses[:1], delta=1e-5, relation=ZERO_OUT).epsilon == 0.0  # a single coin shows nothing
    assert one_run(coins, -guesses, delta=1e-5, relation=ZERO_OUT).epsilon == 0.0
    with pytest.raises(ValueError, match="guesses to be 1, 0 or -1"):
        one_run(coins, 2 * guesses, delta=1e-5, relation=ZERO_OUT)


def test_guesses_go_to_the_ends():
    scores = Streams.of("guesses", range(3)).normal("scores", 0, 50)
    guesses = guess(scores, 7, 5)
    assert ((guesses == 1).sum(1) == 7).all() and ((guesses == -1).sum(1) == 5).all()
    for row in range(3):
        assert scores[row][guesses[row] == 1].min() > scores[row][guesses[row] == 0].max()
        assert scores[row][guesses[row] == -1].max() < scores[row][guesses[row] == 0].min()
    assert (guess(scores, 0, 0) == 0).all() and (guess(scores, 50, 0) == 1).all()


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: epsilon_from_counts(11, 10, 0, 10, delta=0.0, level=0.1), "Expected hits=11.0 to be a whole"),
        (
            lambda: from_scores(torch.tensor([1, math.nan]), torch.ones(9), delta=0.1, relation=ZERO_OUT, threshold=0),
            "without NaN",
        ),
        (lambda: runs_for_power(0.2, 0.2, epsilon=1.0, delta=0.0, most=64), "Expected most=64 runs to refute"),
        (lambda: one_run_p_value(5, 6, 1, epsilon=1.0, delta=0.0), "Expected num_correct=1 <= num_guesses=6 <="),
        (lambda: guess(torch.ones(3), 2, 2), "Expected num_included=2"),
        (lambda: guess(torch.tensor([math.nan, 1.0]), 1, 1), "without NaN"),
        (
            lambda: one_run(torch.ones(3).bool(), torch.full((3,), 2), delta=0.0, relation=ZERO_OUT),
            "guesses to be 1, 0 or -1",
        ),
        (lambda: GaussianPair(torch.zeros(2), torch.zeros(2), torch.full((1, 2), math.inf)), "Expected noise without"),
        (lambda: MixturePair(np.ones((2, 2)), np.ones((2, 1)), 1.0), "Expected the weights of included to sum to 1"),
        (lambda: ScaledPair(torch.zeros(2, 1), (1.0, 1.0)), "Expected stds=\\(1.0, 1.0\\) to differ"),
        (
            lambda: LowerBound(1.0, 1e-5, ZERO_OUT, 0.01, 10, "").exceeds(Guarantee(1.0, 1e-6, ZERO_OUT, "")),
            "Expected the claim's delta=1e-06 to be the audit's, 1e-05",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_bound_accuses_only_a_claim_about_the_same_neighbours():
    scores, coins = torch.arange(200.0), torch.arange(200) % 2 == 0
    claim = Guarantee(0.1, 1e-5, ZERO_OUT, "exact Gaussian")
    for relation in Relation:
        told_apart = {"delta": 1e-5, "relation": relation}
        for bound in (
            from_scores(scores + 1000, scores, threshold=500.0, **told_apart),
            one_run(coins, 2 * coins.long() - 1, **told_apart),
        ):
            assert bound.relation is relation and f", {relation}," in str(bound) and bound.epsilon > claim.epsilon
            assert bound.exceeds(replace(claim, relation=relation)), "the control"
            assert not bound.exceeds(Guarantee(bound.epsilon, 1e-5, relation, "exact Gaussian")), "it is just that"
            if relation is not ZERO_OUT:
                with pytest.raises(CombinationError, match=f"relation=zero-out-one to be the audit's, {relation}"):
                    bound.exceeds(claim)


@pytest.mark.parametrize("far", [30.0, -30.0])
def test_what_lies_far_away_on_one_side_alone_is_seen(far: float):
    near = np.array([[0.0], [1.0]])
    rarely = np.array([[0.0, far], [0.99, 0.01]])
    for included, without in ((rarely, near), (near, rarely)):
        pair = MixturePair(included, without, std=1.0)
        assert pair.epsilon(0.009) > 100 and pair.epsilon(0.011) == 0
