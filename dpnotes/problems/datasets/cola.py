"""CoLA 1.1, the Corpus of Linguistic Acceptability: sentences that linguists judged acceptable or not."""

import zipfile
from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes.problems.published import fetch, files_at
from dpnotes.util import validate

FILES = files_at(
    {"cola_public_1.1.zip": "2cf856f46df11c143d38e0cf2f9f34ff2fdb088c521cd859f5c4b9581683278b"},
    "https://nyu-mll.github.io/CoLA/",
)
LICENCE = "none stated: excerpts from published works, whose copyright remains; the authors expect fair use in research"
_SOURCE = "A. Warstadt, A. Singh and S. Bowman, CoLA 1.1, arXiv:1805.12471, https://nyu-mll.github.io/CoLA/"


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences with a label for each.

    Args:
      texts: the sentences.
      labels: `(sentences,)` int64: 0 for an unacceptable one, 1 for an acceptable one.

    Raises:
      ValueError: when their numbers differ.
    """

    texts: tuple[str, ...]
    labels: Tensor

    def __post_init__(self) -> None:
        validate.same_length(texts=self.texts, labels=self.labels)

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Corpus:
    """CoLA's public parts; the labels of its test parts are not public.

    Args:
      name: the name of the corpus.
      train: sentences from 17 publications.
      in_domain: development sentences from the same publications.
      out_of_domain: development sentences from 6 others. GLUE's development set is both parts, in this order.
      licence: the licence of the sentences.
      source: where they come from.
    """

    name: str
    train: Sentences
    in_domain: Sentences
    out_of_domain: Sentences
    licence: str
    source: str


def load_cola() -> Corpus:
    """Load 8551 training sentences, 527 and 516 development ones, as published ("raw", not tokenised).

    Raises:
      DataNotFound: when the archive is not on this machine and cannot be downloaded.
      DataCorrupt: when the archive is not the published one.
    """
    with zipfile.ZipFile(fetch("cola", FILES[0])) as archive:
        train, in_domain, out_of_domain = (
            _sentences(archive.read(f"cola_public/raw/{part}.tsv").decode())
            for part in ("in_domain_train", "in_domain_dev", "out_of_domain_dev")
        )
    return Corpus("cola", train, in_domain, out_of_domain, LICENCE, _SOURCE)


def _sentences(content: str) -> Sentences:
    """The sentences in a file whose lines are source, label, the author's mark and the sentence, separated by tabs."""
    rows = [line.split("\t") for line in content.removesuffix("\n").split("\n")]
    return Sentences(tuple(row[3] for row in rows), torch.tensor([int(row[1]) for row in rows]))
