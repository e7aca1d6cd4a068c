"""Streams: known answers, independence of the batch, distribution, and the bits of another implementation."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dpnotes.streams import Streams, philox

# Random123's known answers for philox4x32-10: counter, key, output.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_known_answers(counter, key, expected):
    c0, c1, c2, c3 = (torch.tensor([word]) for word in counter)
    k0, k1 = (torch.tensor([word]) for word in key)
    assert tuple(int(word) for word in philox((k0, k1), (c0, c1, c2, c3))) == expected


def test_a_draw_does_not_depend_on_the_batch_or_on_how_much_is_drawn():
    names = [f"run {i}" for i in range(7)]
    together = Streams.of(3, names)
    for draw in ("normal", "uniform"):
        whole = getattr(together, draw)("noise", 5, 33)
        for i, name in enumerate(names):
            alone = getattr(Streams.of(3, [name]), draw)("noise", 5, 9)
            assert torch.equal(alone[0], whole[i, :9])
        shuffled = getattr(together.take(torch.tensor([4, 2])), draw)("noise", torch.tensor([5, 5]), 33)
        assert torch.equal(shuffled, whole[[4, 2]])


def test_draws_differ_across_runs_purposes_calls_seeds_and_elements():
    streams = Streams.of(0, ["a", "b"])
    draws = [
        streams.normal("noise", 0, 64)[0],
        streams.normal("noise", 0, 64)[1],
        streams.normal("noise", 1, 64)[0],
        streams.normal("other", 0, 64)[0],
        Streams.of(1, ["a"]).normal("noise", 0, 64)[0],
    ]
    everything = torch.cat(draws)
    assert len(torch.unique(everything)) == len(everything)
    # The control: the same key, purpose and call do give the same draw.
    assert torch.equal(draws[0], Streams.of(0, ["a"]).normal("noise", 0, 64)[0])


def test_a_call_number_per_run_is_the_call_number_of_that_run():
    streams = Streams.of(0, ["a", "b"])
    mixed = streams.normal("noise", torch.tensor([3, 8]), 5)
    assert torch.equal(mixed[0], streams.normal("noise", 3, 5)[0])
    assert torch.equal(mixed[1], streams.normal("noise", 8, 5)[1])


def test_normals_are_standard_normal():
    sample = Streams.of(11, ["distribution"]).normal("noise", 0, 400_000)[0].numpy()
    assert stats.kstest(sample, "norm").pvalue > 1e-4
    assert stats.kstest(sample * 1.02, "norm").pvalue < 1e-4  # the control: this sample size sees two per cent
    halves = sample.reshape(-1, 2)
    assert abs(np.corrcoef(halves.T)[0, 1]) < 4 / math.sqrt(len(halves))
    assert abs(np.corrcoef(halves.T**2)[0, 1]) < 4 / math.sqrt(len(halves))


def test_uniforms_are_uniform_and_inside_the_open_interval():
    sample = Streams.of(11, ["distribution"]).uniform("u", 0, 400_000)[0].numpy()
    assert 0 < sample.min() and sample.max() < 1
    assert stats.kstest(sample, "uniform").pvalue > 1e-4
    assert stats.kstest(sample**1.02, "uniform").pvalue < 1e-4  # the control


def test_normals_match_box_and_muller_by_the_mathematical_library():
    streams = Streams.of(5, ["reference"])
    w0, w1, w2, w3 = (word[0].numpy() for word in streams.words("noise", 2, 500))
    u = (((w0 << 20) + (w1 >> 12)) + 0.5) * 2.0**-52
    bits = (w2 << 20) + (w3 >> 12)
    angle = ((bits & (2**50 - 1)) + 0.5) * 2.0**-50 * np.pi / 2 - np.pi / 4
    radius = np.sqrt(-2 * np.log(u)) * np.where(bits & 2**50, 1.0, -1.0)
    swap = (bits & 2**51).astype(bool)
    pair = np.where(swap, np.sin(angle), np.cos(angle)), np.where(swap, np.cos(angle), np.sin(angle))
    expected = (np.stack(pair, axis=1) * radius[:, None]).ravel()
    np.testing.assert_allclose(streams.normal("noise", 2, 1000)[0].numpy(), expected, rtol=0, atol=2e-14)


@pytest.mark.gpu
def test_gpu_and_cpu_give_the_same_bits():
    cpu, gpu = Streams.of(0, ["a", "b"]), Streams.of(0, ["a", "b"], "cuda")
    for draw in ("normal", "uniform"):
        assert torch.equal(getattr(gpu, draw)("noise", 4, 100_001).cpu(), getattr(cpu, draw)("noise", 4, 100_001))


def test_an_empty_draw_is_refused():
    with pytest.raises(ValueError, match="Expected size=0 >= 1"):
        Streams.of(0, ["a"]).normal("noise", 0, 0)
