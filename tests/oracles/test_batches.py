"""Batches: exact sizes, the right probabilities, and draws that depend only on the run and the call."""

import math
from collections import Counter
from itertools import combinations

import pytest
import torch
from scipy import stats

from dpnotes.core import FRESH, WHOLE, Sampling
from dpnotes.oracles import batches as module
from dpnotes.oracles.batches import distinct, draw
from dpnotes.privacy.museum import module_with_line_replaced
from dpnotes.random.streams import Streams

LEVEL = 1e-3  # for every statistical test here; seeds are fixed


def sets(scheme: Sampling, num_examples: int, runs: int = 6000, call: int = 0, draws=draw) -> Counter[tuple[int, ...]]:
    """Count the draws of each set of examples, over runs with different keys."""
    calls = torch.full((runs,), call)
    sample = draws(scheme, num_examples, Streams.of("sets", range(runs)), "test", calls)
    rows = zip(sample.examples.tolist(), sample.present.tolist(), strict=True)
    return Counter(tuple(sorted(i for i, here in zip(*row, strict=True) if here)) for row in rows)


def p_value(found: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Return the p-value of a chi-square test against these probabilities; an impossible set gives 0."""
    if set(found) - set(expected):
        return 0.0
    total = found.total()
    return float(stats.chisquare([found[s] for s in expected], [total * q for q in expected.values()]).pvalue)


def uniform(num_examples: int, batch_size: int) -> dict[tuple[int, ...], float]:
    every = list(combinations(range(num_examples), batch_size))
    return {chosen: 1 / len(every) for chosen in every}


def coins(num_examples: int, rate: float) -> dict[tuple[int, ...], float]:
    return {
        chosen: rate**size * (1 - rate) ** (num_examples - size)
        for size in range(num_examples + 1)
        for chosen in combinations(range(num_examples), size)
    }


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4])
def test_every_batch_of_a_fixed_size_is_equally_likely(batch_size):
    found = sets(Sampling.fixed_size(batch_size, 5), 5)
    assert all(len(chosen) == batch_size for chosen in found)
    assert p_value(found, uniform(5, batch_size)) > LEVEL
    if batch_size < 4:  # the control: one example of six is never drawn
        assert p_value(found, uniform(6, batch_size)) < LEVEL


def test_control_keeping_repeats_is_seen():
    broken = module_with_line_replaced(module, "torch.ne(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])", "pass")
    assert p_value(sets(Sampling.fixed_size(2, 5), 5, draws=broken.draw), uniform(5, 2)) < LEVEL


def test_a_poisson_batch_tosses_a_coin_for_every_example():
    found = sets(Sampling.poisson(0.3), 4)
    assert p_value(found, coins(4, 0.3)) > LEVEL
    assert p_value(found, coins(4, 0.33)) < LEVEL  # the control: a tenth more


def test_a_poisson_rate_is_rounded_to_the_private_side(monkeypatch: pytest.MonkeyPatch):
    """A coin has 2^32 values, of which 0.3 2^32 = 1288490188.8 would be chosen; the number is rounded down."""
    coin = [torch.tensor([[word]]) for word in (0, 1288490187, 1288490188, 1288490189)]
    monkeypatch.setattr(Streams, "words", lambda *_: coin)
    sample = draw(Sampling.poisson(0.3), 4, Streams.of(0, ["a"]), "test", torch.zeros(1, dtype=torch.int64))
    assert sample.examples is not None and sample.examples.tolist() == [[0, 1]] and sample.present.all()


@pytest.mark.parametrize(("batch_size", "num_examples"), [(1, 1), (512, 60_000), (3, 7), (7, 7), (60, 100), (99, 100)])
def test_a_large_batch_has_its_size_and_no_example_twice(batch_size, num_examples):
    sample = draw(
        Sampling.fixed_size(batch_size, num_examples), num_examples, Streams.of(0, range(3)), "test", torch.arange(3)
    )
    assert sample.examples is not None and sample.examples.shape == (3, batch_size) and sample.present.all()
    assert all(len(row.unique()) == batch_size for row in sample.examples)
    assert sample.examples.min() >= 0 and sample.examples.max() < num_examples


def test_examples_of_a_large_batch_are_drawn_equally_often():
    drawn = distinct(500, 10_000, Streams.of("large", range(1000)), "test", 0)
    counts = torch.bincount(drawn.flatten(), minlength=10_000).double()
    # The variance of a count is 1000 * 0.05 * 0.95.
    statistic = float(((counts - 50) ** 2).sum() / (1000 * 0.05 * 0.95))
    assert LEVEL / 2 < stats.chi2(9999).cdf(statistic) < 1 - LEVEL / 2


@pytest.mark.parametrize("scheme", [Sampling.fixed_size(5, 40), Sampling.fixed_size(35, 40), Sampling.poisson(0.2)])
def test_a_sample_is_a_function_of_the_run_and_the_call_alone(scheme):
    names, calls = ["a", "b", "c"], torch.tensor([0, 5, 5])
    together = draw(scheme, 40, Streams.of(0, names), "test", calls)
    assert together.examples is not None
    for i, name in enumerate(names):
        alone = draw(scheme, 40, Streams.of(0, [name]), "test", calls[i : i + 1])
        assert alone.examples is not None
        assert torch.equal(together.examples[i][together.present[i]], alone.examples[0][alone.present[0]])
    assert not torch.equal(together.examples[1], together.examples[2])
    later = draw(scheme, 40, Streams.of(0, names), "test", calls + 1).examples
    assert later is not None and not torch.equal(later[1], together.examples[1]), "another call is another batch"


def test_draws_that_run_out_are_an_error(monkeypatch):
    streams = Streams.of(0, range(50))
    assert distinct(20, 40, streams, "test", 0).shape == (50, 20)  # the control
    monkeypatch.setattr(module.math, "sqrt", lambda _: -1.5)  # too few in some run
    with pytest.raises(RuntimeError, match="Expected 20 different examples among 19 draws"):
        distinct(20, 40, streams, "test", 0)


@pytest.mark.parametrize(
    ("count", "num_examples"), [(1, 2), (2, 3), (2, 4), (3, 5), (5, 10), (50, 100), (5000, 10_000), (512, 60_000)]
)
def test_draws_run_out_less_than_once_in_a_million_million_million_calls(count: int, num_examples: int, monkeypatch):
    # P(fewer than k distinct ones of n in m draws) <= C(n, k - 1) ((k - 1) / n)^m, by a union over the undrawn ones. It
    # is also <= exp(-2 (mean - k + 1)^2 / m), since one draw changes their number by at most 1 (McDiarmid).
    asked: list[int] = []
    uniform = Streams.uniform
    monkeypatch.setattr(
        Streams, "uniform", lambda s, purpose, call, size: asked.append(size) or uniform(s, purpose, call, size)
    )
    distinct(count, num_examples, Streams.of(0, ["a"]), "test", 0)
    (draws,) = asked
    few = count - 1
    choices = math.lgamma(num_examples + 1) - math.lgamma(few + 1) - math.lgamma(num_examples - few + 1)
    union = choices + draws * math.log(few / num_examples) if few else -math.inf
    mean = -num_examples * math.expm1(draws * math.log1p(-1 / num_examples))
    assert min(union, -2 * (mean - few) ** 2 / draws) < -18 * math.log(10)


def test_all_examples_need_no_index():
    sample = draw(WHOLE, 4, Streams.of(0, range(2)), "test", torch.zeros(2, dtype=torch.int64))
    assert sample.examples is None and sample.present.shape == (2, 4) and sample.present.all()


def test_an_empty_poisson_batch_is_padding():
    sample = draw(Sampling.poisson(1e-9), 3, Streams.of(0, range(2)), "test", torch.zeros(2, dtype=torch.int64))
    assert sample.examples is not None and sample.examples.shape == (2, 1) and not sample.present.any()


@pytest.mark.parametrize(
    ("scheme", "num_examples", "message"),
    [
        (FRESH, 5, "Expected sampling='fresh' to be one of: whole, fixed-size, poisson"),
        (Sampling.fixed_size(2, 5), 6, "Expected sampling.num_examples=5 to be the data's 6"),
    ],
)
def test_bad_input_is_refused(scheme, num_examples, message):
    with pytest.raises(ValueError, match=message):
        draw(scheme, num_examples, Streams.of(0, ["a"]), "test", torch.tensor([0]))


def test_more_than_half_is_not_drawn_one_by_one():
    with pytest.raises(ValueError, match="Expected count=4 <= 3"):
        distinct(4, 5, Streams.of(0, ["a"]), "test", 0)
