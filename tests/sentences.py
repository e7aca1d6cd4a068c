"""Sentences and a BERT for tests: a vocabulary of characters that needs no file, and a tiny network."""

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from dpnotes.problems.text import Bert, BertSize
from dpnotes.random.streams import Streams

CHARACTER_PIECES = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *(chr(code) for code in range(33, 127) if not chr(code).isupper()),
    *(f"##{character}" for character in "0123456789abcdefghijklmnopqrstuvwxyz"),
)
TINY_BERT = BertSize(len(CHARACTER_PIECES), 16, 2, 2, 32, 64)  # 7,586 parameters


def character_tokenizer(sentences: Sequence[str], length: int) -> Tensor:
    """Return the word pieces of `CHARACTER_PIECES`, `(sentences, 2, length)`; a word of other characters is unknown."""
    packed = torch.zeros(len(sentences), 2, length, dtype=torch.int64)
    for row, sentence in zip(packed, sentences, strict=True):
        numbers: list[int] = []
        for word in re.findall(r"[^\W_]+|\S", sentence.lower()):
            pieces = [f"##{c}" if i else c for i, c in enumerate(word)]
            known = {*pieces} <= {*CHARACTER_PIECES}
            numbers += [CHARACTER_PIECES.index(piece) for piece in (pieces if known else ["[UNK]"])]
        ends = [CHARACTER_PIECES.index(piece) for piece in ("[CLS]", "[SEP]")]
        numbers = [ends[0], *numbers[: length - 2], ends[1]]
        row[0, : len(numbers)] = torch.tensor(numbers)
        row[1, : len(numbers)] = 1
    return packed


def random_bert(size: BertSize, seed: str | int) -> Bert:
    """Return a BERT with weights and embeddings normal, biases 0, scales 1."""
    with torch.device("meta"):  # skips the draws of torch's own initialisation
        model = Bert(size)
    streams, state = Streams.of("bert", [seed]), {}
    for name, parameter in model.named_parameters():
        if name.endswith(".bias"):
            state[name] = torch.zeros(parameter.shape)
        elif "LayerNorm" in name:
            state[name] = torch.ones(parameter.shape)
        else:
            draw = streams.normal(name, 0, parameter.numel()).view(parameter.shape)
            state[name] = draw.mul_(0.02 * math.sqrt(768 / size.hidden)).float()
    model.load_state_dict(state, assign=True)
    return model
