"""CIFAR-10 with the ConvNet or ResNet-18, for the experiments whose specs stand in `images`."""

from dataclasses import replace
from functools import cache
from typing import Any

from torch import nn

from dpnotes.experiments import Cell, Spec
from dpnotes.papers.noisy_sgd.experiments.curves import Task
from dpnotes.problems.architectures import conv_net, resnet18
from dpnotes.problems.datasets.cifar import load_cifar10_jpeg
from dpnotes.problems.datasets.dataset import IMAGENET_MEAN, IMAGENET_STD, Dataset, keep_classes, normalise, subset

_LOADERS = {"cifar10-jpeg": load_cifar10_jpeg}


def task(spec: Spec, cell: Cell) -> Task:
    """The network in the spec, and the images, normalised by public constants."""
    sizes = spec["data"]
    classes = tuple(sizes["classes"])
    data = _images(sizes["name"], classes, sizes["train"], sizes["test"], sizes["pixels"], spec["seed"])
    return Task(network(spec["network"], len(classes)), data)


def network(described: dict[str, Any], num_classes: int) -> nn.Sequential:
    """A network by what the spec says of it."""
    makers = {"convnet": conv_net, "resnet18": lambda *given, **more: resnet18(*given, stem="cifar", **more)}
    return makers[described["name"]](num_classes, norm=described["norm"], width=described["width"])


@cache
def _images(name: str, classes: tuple[int, ...], num_train: int, num_test: int, pixels: int, seed: str) -> Dataset:
    """The images, or a choice of them, averaged down to `pixels` a side."""
    data = _LOADERS[name]()
    if len(classes) < data.num_classes:
        data = keep_classes(data, classes)
    if num_train < len(data.train_labels):
        data = subset(data, num_train, seed)
    data = replace(data, test_inputs=data.test_inputs[:num_test], test_labels=data.test_labels[:num_test])
    if pixels < data.train_inputs.shape[-1]:
        data = data.with_inputs(nn.AdaptiveAvgPool2d(pixels), f"{data.name}, {pixels} x {pixels} pixels")
    return normalise(data, IMAGENET_MEAN, IMAGENET_STD)
