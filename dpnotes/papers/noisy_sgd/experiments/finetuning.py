"""Figure 2: CIFAR-100 with a pretrained ResNet-18, and CoLA with a pretrained BERT, against epsilon.

Both start from weights that others published. Without those files the runs end with `DataNotFound`, which says where
they go; nothing else is trained in their place.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from torch import nn

from dpnotes.experiments import Cell, Spec
from dpnotes.papers.noisy_sgd.experiments import curves, figures
from dpnotes.papers.noisy_sgd.experiments.curves import Task
from dpnotes.problems import text
from dpnotes.problems.architectures import load_pretrained, resnet18
from dpnotes.problems.datasets import cola
from dpnotes.problems.datasets.cifar import CIFAR100_FILES, load_cifar100
from dpnotes.problems.datasets.dataset import IMAGENET_MEAN, IMAGENET_STD, Dataset, normalise
from dpnotes.problems.pretrained import RESNET18_FILES, pretrained_resnet18

_PAPER: dict[str, Any] = {
    **curves.STATED, "norm_batches": 1, "evaluate_every": 1, "checkpoint_every": 1, "repeats": 10,
    "not_stated_by_the_paper": "C of these tasks, batch size, epochs, augmentation, image size, length, c_1 and c_2",
}  # fmt: skip
_GAPS = (
    "Epsilon is nominal: no guarantee stands behind it. Theorem 3.3 with c_2 = 1 is taken at its word, at the C of "
    "another network; the accounted epsilon would hold if C bounded the gradients of all examples.",
    *curves.GAPS,
)
_SIMULATION = curves.simulation(paper=(1.0, 0.0))


def cifar100_task(spec: Spec, cell: Cell) -> Task:
    """The published network, whose statistics of batch normalisation are those of the batch, on enlarged images.

    Raises:
      DataNotFound: without the images or the weights.
    """
    data = _cifar100()
    network = resnet18(data.num_classes)
    load_pretrained(network, pretrained_resnet18())
    return enlarged(network, data, spec["image_size"])


def enlarged(network: nn.Module, data: Dataset, image_size: int) -> Task:
    """A network that enlarges its images first, of which each run draws its own head."""
    larger = nn.Upsample(size=(image_size, image_size), mode="bilinear", align_corners=False)
    return Task(nn.Sequential(larger, network), data, only=["1.fc."])


@cache
def _cifar100() -> Dataset:
    return normalise(load_cifar100(), IMAGENET_MEAN, IMAGENET_STD)


def cola_task(spec: Spec, cell: Cell) -> Task:
    """The published BERT on CoLA's sentences in its own word pieces.

    Raises:
      DataNotFound: without the sentences, the weights or the word pieces.
      ModuleNotFoundError: without transformers.
    """
    module = text.pretrained_bert(f"{spec['seed']}/{cell['repeat']}")
    return Task(module, _sentences(spec["length"]), only=[])


@cache
def _sentences(length: int) -> Dataset:
    data = text.tokenise(cola.load_cola(), text.bert_tokenizer(), length)
    return replace(data, name=f"{data.name}, word pieces of BERT")


EXPERIMENTS = (
    curves.experiment(
        "cifar100", "Figure 2a: CIFAR-100 with a pretrained ResNet-18, without clipping", cifar100_task,
        {
            "paper": {
                **_PAPER, "seed": "cifar100", "image_size": 128, "batch_size": 512, "epochs": 8, "augment": True,
                "statistics_batches": 20, "examples_at_once": 512,
            }
        },
        answers=curves.answers_as_in("2a"), simulation=_SIMULATION, unaccounted=(*_GAPS, *curves.MIXED),
        data=tuple(map(str, (*CIFAR100_FILES, *RESNET18_FILES))),
        figure=figures.finetuning("Figure 2a", "CIFAR-100", "ResNet-18 with ImageNet's weights"),
    ),
    curves.experiment(
        "cola", "Figure 2b: CoLA with a pretrained uncased BERT-base, without clipping", cola_task,
        {
            "paper": {
                **_PAPER, "seed": "cola", "length": 64, "batch_size": 64, "epochs": 4, "augment": False,
                "statistics_batches": 0, "examples_at_once": 128,
            }
        },
        answers=curves.answers_as_in("2b"), simulation=_SIMULATION, unaccounted=_GAPS,
        data=tuple(map(str, (*cola.FILES, *text.BERT_FILES))),
        figure=figures.finetuning("Figure 2b", "CoLA", "uncased BERT-base with its published weights"),
    ),
)  # fmt: skip
