"""Models of the Hugging Face library, from configurations with random weights, and adapters on frozen layers."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dpnotes.random.streams import Streams
from dpnotes.train.plan import TrainingPlan

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:.*jit.script")
WORDS = torch.arange(16 * 7).view(16, 7) * 11 % 50
PLAN = TrainingPlan(epsilon=8.0, delta=1e-3, num_examples=16, batch_size=8, num_steps=2, norm_bound=1.0)
SIZES: dict[str, Any] = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}


def gpt2() -> nn.Module:
    sizes = {"vocab_size": 50, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, eos_token_id=0))


def bert() -> nn.Module:
    config = transformers.BertConfig(**SIZES, intermediate_size=16, max_position_embeddings=8)
    return transformers.BertForSequenceClassification(config)


def next_word(outputs: Any, words: Tensor) -> Tensor:
    return cross_entropy(outputs["logits"][:, :-1].transpose(1, 2), words[:, 1:], reduction="none").mean(1)


def label(outputs: Any, labels: Tensor) -> Tensor:
    return cross_entropy(outputs.logits, labels, reduction="none")


CASES = {"GPT-2": (gpt2, WORDS, next_word), "BERT": (bert, WORDS[:, 0] % 2, label)}


@pytest.mark.parametrize("name", CASES)
def test_a_language_model_is_trained_by_an_optimiser_of_torch(name: str):
    make, labels, loss = CASES[name]
    module, streams = make(), Streams.of("language", [0])
    trained = PLAN.train(module, WORDS, labels, loss=loss, optimizer=torch.optim.AdamW, streams=streams)
    assert trained.guarantee.epsilon <= 8 and trained.training.x.isfinite().all()
    moved = [not torch.equal(a, b) for a, b in zip(module.parameters(), trained.module.parameters(), strict=True)]
    assert sum(moved) > len(moved) / 2


class LowRank(nn.Module):
    """A frozen layer with a trained product of two narrow ones beside it (LoRA)."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, 2, bias=False), nn.Linear(2, layer.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_adapters_are_trained_and_frozen_layers_stay(autocast: torch.dtype | None):
    frozen = nn.Linear(7, 4)
    network = nn.Sequential(LowRank(frozen), nn.Tanh(), nn.Linear(4, 2))
    how: dict[str, Any] = {"optimizer": torch.optim.Adam, "autocast": autocast, "max_examples_at_once": 3}
    trained = PLAN.train(network, WORDS.float() / 50, WORDS[:, 0] % 2, streams=Streams.of("adapters", [0]), **how)
    module: Any = trained.module
    assert torch.equal(module[0].layer.weight, frozen.weight) and trained.training.x.shape[1] == 14 + 8 + 10
    before: Any = network[0]
    assert not torch.equal(module[0].up.weight, before.up.weight)
