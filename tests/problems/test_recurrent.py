"""Recurrent layers unrolled: the same numbers as torch's, gradients by example, in one pass for all examples."""

import itertools
import warnings
from typing import Any

import pytest
import torch
from modules import Both
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.recurrent import Unrolled
from dpnotes.random.streams import Streams

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "LSTM": (nn.LSTM, {}),
    "projected": (nn.LSTM, {"proj_size": 2}),
    "GRU": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_those_of_torch_s_layers(kind: str):
    make, how = KINDS[kind]
    options = itertools.product((1, 3), (True, False), (True, False), (True, False), (True, False), (True, False))
    for layers, both, bias, first, batched, given in options:
        layer = make(3, 4, layers, bidirectional=both, bias=bias, batch_first=first, **how).double()
        x = torch.randn(5, 2, 3, dtype=torch.float64)
        x = x if batched else x[:, 0]
        state: Any = None
        if given:
            zeros = layer(x)[1]
            state = tuple(torch.randn_like(z) for z in zeros) if isinstance(zeros, tuple) else torch.randn_like(zeros)
        found, expected = (tree_leaves(run(x, state)) for run in (Unrolled(layer), layer))
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape and torch.allclose(a, b, atol=1e-14, rtol=0)


def reader(kind: str) -> nn.Module:
    """Return a network that reads words with a recurrent layer, and classifies by its last state."""
    make, how = KINDS[kind]
    layer, last = make(3, 4, 2, batch_first=True, bidirectional=True, **how), nn.Linear(2 * how.get("proj_size", 4), 3)
    return Both(
        lambda m, words: m.last(m.layer(m.words(words))[0][:, -1]), words=nn.Embedding(9, 3), layer=layer, last=last
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_example_are_those_of_plain_autograd(kind: str):
    words, labels = torch.arange(48).view(8, 6) % 9, torch.arange(8) % 3
    network = reader(kind).double()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "examples are passed one by one"
        problem = ModuleProblem(network, words, labels)
        x = problem.initial(Streams.of("recurrent", [0]), only=[])
        gradients = problem.gradients(x)
        norms, total = gradients.norms()[0], gradients.weighted_sum(torch.ones(1, 8, dtype=torch.float64))[0]
    assert problem.keeps_examples_apart and problem.opens is None
    rows = []
    for example in range(8):
        loss = functional.cross_entropy(network(words[example : example + 1]), labels[example : example + 1])
        rows.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, [*network.parameters()])]))
    each = torch.stack(rows)
    assert torch.allclose(norms, each.norm(dim=1), rtol=1e-13) and torch.allclose(total, each.sum(0), atol=1e-14)
