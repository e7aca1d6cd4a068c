"""Sentences as tensors of word-piece numbers, and BERT built from layers whose per-example gradients are known.

BERT is due to Devlin, Chang, Lee and Toutanova (arXiv:1810.04805v2). The class below has the parameter names of the
package transformers and gives its logits, but looks embeddings up separately for each example, so that per-example
gradients can be computed layer by layer, and computes attention from products and a softmax, so that it can be
differentiated twice. The published weights and word pieces are read by transformers, which the extra `text` installs;
nothing else needs it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dpnotes.problems.datasets.cola import Corpus
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.published import fetch, files_at
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastTwo, checked

_HUB = "https://huggingface.co/google-bert/bert-base-uncased/resolve/86b5e0934494bd15c9632b12f734a8a67f723594/"
_BERT_SHA256 = {
    "config.json": "7160e1553ad2ca51d8c1cb066be533db31826e12d173824c1bb0cb1a4f187d20",
    "model.safetensors": "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
BERT_FILES = files_at(_BERT_SHA256, _HUB)
_BERT_FOLDER = "bert-base-uncased"
_INITIAL_STD = 0.02  # of weights and embeddings of BERT-base, in the authors' code

# Maps sentences and a length to `(sentences, 2, length)` int64: word-piece numbers, and 1 for a piece, 0 for padding.
Tokenizer = Callable[[Sequence[str], int], Tensor]


# ---------------------------------------------------------------- sentences as numbers


def bert_tokenizer() -> Tokenizer:
    """The 30,522 word pieces of the published uncased BERT, through transformers.

    Raises:
      ModuleNotFoundError: when transformers is not installed.
      DataNotFound: when a file is not on this machine and cannot be downloaded; the message says where to put it.
      DataCorrupt: when a file is not the published one.
    """
    transformers = _transformers()
    pieces = transformers.AutoTokenizer.from_pretrained(_bert_folder(), local_files_only=True)

    def tokenise(sentences: Sequence[str], length: int) -> Tensor:
        found = pieces(list(sentences), padding="max_length", truncation=True, max_length=length, return_tensors="pt")
        return torch.stack([found["input_ids"], found["attention_mask"]], dim=1)

    return tokenise


@checked
def tokenise(corpus: Corpus, tokenizer: Tokenizer, length: AtLeastTwo) -> Dataset:
    """The data set of a corpus: inputs `(examples, 2, length)` int64, which `Bert` takes.

    Args:
      corpus: sentences, such as `datasets.load_cola()`.
      tokenizer: such as `bert_tokenizer()`, for the published weights.
      length: pieces in a sentence, at least 2; longer sentences are cut off, shorter ones padded.

    The test examples are the development sentences of both parts, as in GLUE: Avdiukhin et al. report a test accuracy
    without naming its sentences; the labels of the test parts are not public.
    """
    texts = corpus.in_domain.texts + corpus.out_of_domain.texts
    labels = torch.cat([corpus.in_domain.labels, corpus.out_of_domain.labels])
    train = tokenizer(corpus.train.texts, length), corpus.train.labels
    name = f"{corpus.name}, {length} pieces, test: both"
    return Dataset(name, *train, tokenizer(texts, length), labels, 2, corpus.licence, corpus.source)


# ---------------------------------------------------------------- BERT
@dataclass(frozen=True)
class BertSize:
    """The sizes of a BERT.

    Args:
      vocabulary: number of word pieces.
      hidden: width of a piece's representation; a multiple of `heads`.
      layers: number of attention layers.
      heads: attention heads of a layer.
      intermediate: hidden units between two layers of attention.
      max_length: the largest number of pieces in a sentence.

    Raises:
      ValueError: for a size below 1, or heads that do not divide hidden.
    """

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    max_length: int

    def __post_init__(self) -> None:
        validate.at_least(1, **vars(self))
        if self.hidden % self.heads:
            raise ValueError(f"Expected hidden={self.hidden} to be a multiple of heads={self.heads}.")


BERT_BASE = BertSize(30_522, 768, 12, 12, 3072, 512)


class Bert(nn.Module):
    """BERT with a classifier on its first piece: it maps a `Tokenizer`'s `(batch, 2, length)` int64 to logits.

    Dropout, 0.1 in the published settings, is off: the loss of an example is a function of the parameters and the
    example, as the theorems and per-example gradients require. The logits are `(batch, num_classes)`. Attention holds
    `(batch, heads, length, length)` numbers a layer.

    Args:
      size: its sizes.
      num_classes: at least 2.

    Example:
      >>> tiny = BertSize(vocabulary=50, hidden=16, layers=2, heads=2, intermediate=32, max_length=64)
      >>> Bert(tiny)(torch.ones(2, 2, 16, dtype=torch.int64)).shape
      torch.Size([2, 2])
    """

    def __init__(self, size: BertSize, num_classes: int = 2) -> None:
        super().__init__()
        validate.at_least(2, num_classes=num_classes)
        self.size = size
        hidden = size.hidden
        embeddings = _named(
            word_embeddings=nn.Embedding(size.vocabulary, hidden),
            position_embeddings=nn.Embedding(size.max_length, hidden),
            token_type_embeddings=nn.Embedding(2, hidden),
            LayerNorm=nn.LayerNorm(hidden, eps=1e-12),
        )
        encoder = _named(layer=nn.ModuleList(_Layer(size) for _ in range(size.layers)))
        self.bert = _named(embeddings=embeddings, encoder=encoder, pooler=_named(dense=nn.Linear(hidden, hidden)))
        self.classifier = nn.Linear(hidden, num_classes)

    def forward(self, packed: Tensor) -> Tensor:
        """Return logits `(batch, num_classes)` for packed sentences `(batch, 2, length)`."""
        numbers, present = packed.unbind(1)
        parts: Any = self.bert["embeddings"]
        # Every lookup has a row for each example, so that its gradient belongs to that example.
        positions = torch.arange(numbers.shape[1], device=numbers.device).expand_as(numbers)
        x = parts["word_embeddings"](numbers) + parts["position_embeddings"](positions)
        x = parts["LayerNorm"](x + parts["token_type_embeddings"](torch.zeros_like(numbers)))
        encoder: Any = self.bert["encoder"]
        pooler: Any = self.bert["pooler"]
        for layer in encoder["layer"]:
            x = layer(x, present[:, None, None] != 0)
        return self.classifier(torch.tanh(pooler["dense"](x[:, 0])))


class _Layer(nn.Module):
    """A layer of BERT: attention over the present pieces and dense layers, each with a residual and a normalisation."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.heads = size.heads
        projections = _named(**{name: nn.Linear(size.hidden, size.hidden) for name in ("query", "key", "value")})
        self.attention = nn.ModuleDict({"self": projections, "output": _residual(size.hidden, size.hidden)})
        self.intermediate = _named(dense=nn.Linear(size.hidden, size.intermediate))
        self.output = _residual(size.intermediate, size.hidden)

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        projections: Any = self.attention["self"]
        query, key, value = (
            projections[name](x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name in ("query", "key", "value")
        )
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        # The smallest finite number, not -inf: a sentence without any piece would become NaN.
        scores = torch.where(present, scores, torch.finfo(scores.dtype).min)
        x = _add(self.attention["output"], (scores.softmax(-1) @ value).transpose(1, 2).flatten(2), x)
        return _add(self.output, nn.functional.gelu(self.intermediate["dense"](x)), x)


def _residual(num_inputs: int, num_outputs: int) -> nn.ModuleDict:
    return _named(dense=nn.Linear(num_inputs, num_outputs), LayerNorm=nn.LayerNorm(num_outputs, eps=1e-12))


def _named(**parts: nn.Module) -> nn.ModuleDict:
    return nn.ModuleDict(parts)


def _add(parts: Any, inside: Tensor, outside: Tensor) -> Tensor:
    return parts["LayerNorm"](parts["dense"](inside) + outside)


def pretrained_bert(seed: str | int, num_classes: int = 2) -> Bert:
    """The published uncased BERT-base, with a randomly initialised classifier: weights normal, biases 0.

    109,483,778 parameters for two classes. The weights are read by transformers.

    Args:
      seed: the seed of the classifier's draw.
      num_classes: at least 2.

    Raises:
      ModuleNotFoundError: when transformers is not installed.
      DataNotFound: when a file is not on this machine and cannot be downloaded; the message says where to put it.
      DataCorrupt: when a file is not the published one.
    """
    transformers = _transformers()
    published = transformers.AutoModel.from_pretrained(_bert_folder(), local_files_only=True, dtype=torch.float32)
    config = published.config
    size = BertSize(
        config.vocab_size,
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.intermediate_size,
        config.max_position_embeddings,
    )
    with torch.device("meta"):
        model = Bert(size, num_classes)
    state = {f"bert.{name}": value for name, value in published.state_dict().items()}
    model.load_state_dict(state | _classifier(model, seed), assign=True)
    return model


def _classifier(model: Bert, seed: str | int) -> dict[str, Tensor]:
    """The initial values of the classifier, with the standard deviation of the authors' code at the width of BERT-base.

    It is in proportion to 1/sqrt(hidden) at other widths: sums over the width then have the same scale.
    """
    validate.text_or_whole(seed=seed)
    weight, bias = model.classifier.weight, model.classifier.bias
    draw = Streams.of("bert", [seed]).normal("classifier.weight", 0, weight.numel()).view(weight.shape)
    std = _INITIAL_STD * math.sqrt(BERT_BASE.hidden / model.size.hidden)
    return {"classifier.weight": draw.mul_(std).float(), "classifier.bias": torch.zeros(bias.shape)}


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Expected transformers to be installed: pip install 'dpnotes[text]'.") from error
    return transformers


def _bert_folder() -> Path:
    """The folder of BERT's files, each verified; they have to lie in one folder."""
    return [fetch(_BERT_FOLDER, file) for file in BERT_FILES][0].parent
