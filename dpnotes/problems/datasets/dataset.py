"""The type of a data set, its restriction to classes and sizes, public normalisation, and synthetic auxiliary data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, AtLeastTwo, Seed, checked

# Channel means and standard deviations of ImageNet, as networks that torchvision trained on it expect. They are public
# constants for all data to which they are applied.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs and labels, split into training and test examples.

    Args:
      name: its name, with the changes that were made to it.
      train_inputs: `(examples, features)`, or `(examples, channels, height, width)` of images, or of any further shape;
        floating point and finite, or integer codes.
      train_labels: `(examples,)`, int64 in `0 ... num_classes - 1`.
      test_inputs: as `train_inputs`, of examples of the same shape.
      test_labels: as `train_labels`.
      num_classes: at least 2.
      licence: the licence of the data.
      source: the publication or page that it comes from.

    Images are float32: 737 MB for the 60,000 of CIFAR-10, four times their bytes on disk. So no batch needs a
    conversion, and all data sets follow one rule; `subset` keeps fewer.

    Raises:
      ValueError: for sizes that disagree, NaN or infinite inputs, labels out of range.
    """

    name: str
    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor
    num_classes: int
    licence: str
    source: str

    def __post_init__(self) -> None:
        validate.at_least(2, num_classes=self.num_classes)
        validate.same_length(train_inputs=self.train_inputs, train_labels=self.train_labels)
        validate.same_length(test_inputs=self.test_inputs, test_labels=self.test_labels)
        for part, inputs, labels in (
            ("train", self.train_inputs, self.train_labels),
            ("test", self.test_inputs, self.test_labels),
        ):
            if inputs.shape[1:] != self.train_inputs.shape[1:] or inputs.dim() < 2:
                raise ValueError(
                    f"Expected {part}_inputs.shape={tuple(inputs.shape)} to be (examples, features) or "
                    "(examples, channels, height, width), alike in both parts."
                )
            # The smallest and the largest entry are NaN if any entry is, and need no array of the size of the inputs.
            if inputs.numel() and not bool(torch.isfinite(torch.stack(torch.aminmax(inputs))).all()):
                raise ValueError(f"Expected {part}_inputs of {self.name} without NaN or infinite entries.")
            if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < self.num_classes:
                raise ValueError(f"Expected {part}_labels of {self.name} in 0 ... {self.num_classes - 1}.")

    def with_inputs(self, function: Callable[[Tensor], Tensor], name: str | None = None) -> "Dataset":
        """The data set with a function of its training and of its test inputs in their place.

        Args:
          function: of inputs `(examples, ...)`.
          name: of the changed data set, or None for the same.
        """
        train, test = function(self.train_inputs), function(self.test_inputs)
        return replace(self, name=name or self.name, train_inputs=train, test_inputs=test)

    def to(self, device: str) -> "Dataset":
        """The data set on a device; itself if it is there."""
        if self.train_inputs.device == torch.device(device):
            return self
        tensors = ("train_inputs", "train_labels", "test_inputs", "test_labels")
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})


def keep_classes(dataset: Dataset, classes: Sequence[int]) -> Dataset:
    """The data set restricted to some classes, relabelled `0 ... len(classes) - 1` in the order given.

    Example:
      >>> from dpnotes.problems.datasets import load
      >>> three_and_five = keep_classes(load("digits"), [3, 5])
      >>> three_and_five.num_classes, sorted(set(three_and_five.train_labels.tolist()))
      (2, [0, 1])

    Raises:
      ValueError: for less than two classes, a repeated or an unknown one.
    """
    if len(set(classes)) != len(classes) or len(classes) < 2:
        raise ValueError(f"Expected classes={list(classes)} to be at least two different ones.")
    if not all(0 <= label < dataset.num_classes for label in classes):
        raise ValueError(f"Expected classes={list(classes)} among 0 ... {dataset.num_classes - 1}.")
    relabel = torch.full((dataset.num_classes,), -1)
    relabel[list(classes)] = torch.arange(len(classes))
    train, test = relabel[dataset.train_labels], relabel[dataset.test_labels]
    return replace(
        dataset,
        name=f"{dataset.name}, classes {', '.join(map(str, classes))}",
        train_inputs=dataset.train_inputs[train >= 0],
        train_labels=train[train >= 0],
        test_inputs=dataset.test_inputs[test >= 0],
        test_labels=test[test >= 0],
        num_classes=len(classes),
    )


def subset(dataset: Dataset, num_examples: int, seed: str | int) -> Dataset:
    """A random subset of the training examples; for one seed a smaller subset is the beginning of a larger one.

    Args:
      dataset: the data set; all its test examples stay.
      num_examples: training examples to keep, at most all.
      seed: the seed of the choice.

    Example:
      >>> from dpnotes.problems.datasets import load
      >>> digits = load("digits")
      >>> torch.equal(subset(digits, 100, 0).train_inputs[:50], subset(digits, 50, 0).train_inputs)
      True
    """
    validate.at_least(1, num_examples=num_examples)
    if num_examples > len(dataset.train_inputs):
        raise ValueError(f"Expected num_examples={num_examples} <= {len(dataset.train_inputs)} of {dataset.name}.")
    index = permutation("subset", seed, len(dataset.train_inputs))[:num_examples]
    return replace(
        dataset,
        name=f"{dataset.name}, {num_examples} of seed {seed}",
        train_inputs=dataset.train_inputs[index],
        train_labels=dataset.train_labels[index],
    )


def normalise(dataset: Dataset, mean: Sequence[float], std: Sequence[float]) -> Dataset:
    """The data set with each pixel replaced by `(pixel - mean) / std`, by channel.

    The numbers must be public: `IMAGENET_MEAN` and `IMAGENET_STD`, or 0.5 and 0.5. The channel means of the private
    images themselves, which much code for CIFAR-10 carries as constants, are statistics of the private data that were
    released without noise: any result computed from them lists `guarantees.STATISTICS_WITHOUT_NOISE` as not covered by
    its guarantee.

    Args:
      dataset: inputs `(examples, channels, height, width)`.
      mean: one number a channel.
      std: one number a channel, above 0.

    Raises:
      ValueError: for inputs that are no images, or another number of channels.

    Example:
      >>> half = torch.full((2, 1, 4, 4), 0.5)
      >>> toy = Dataset("toy", half, torch.tensor([0, 1]), half, torch.tensor([0, 1]), 2, "none needed", "here")
      >>> float(normalise(toy, mean=[0.25], std=[0.5]).train_inputs.max())
      0.5
    """
    shape = tuple(dataset.train_inputs.shape)
    if len(shape) != 4:
        raise ValueError(
            f"Expected train_inputs.shape={shape} of {dataset.name} to be (examples, channels, height, width)."
        )
    if not len(mean) == len(std) == shape[1]:
        raise ValueError(
            f"Expected mean={list(mean)} and std={list(std)} to be {shape[1]} numbers each, one a channel."
        )
    for centre, scale in zip(mean, std, strict=True):
        validate.real(mean=centre)
        validate.positive(std=scale)
    centre, scale = (torch.tensor(numbers).view(-1, 1, 1).to(dataset.train_inputs) for numbers in (mean, std))
    name = f"{dataset.name}, normalised by mean {list(mean)} and std {list(std)}"
    return dataset.with_inputs(lambda inputs: (inputs - centre).div_(scale), name)


def permutation(purpose: str, seed: str | int, size: int) -> Tensor:
    """A random order of `0 ... size - 1`, `(size,)` int64: a function of purpose, seed and size."""
    validate.text_or_whole(seed=seed)
    return Streams.of(purpose, [seed]).uniform("permutation", 0, size)[0].argsort()


@checked
def gaussian_like(num_examples: AtLeastOne, dim: AtLeastOne, num_classes: AtLeastTwo, seed: Seed) -> Dataset:
    """A synthetic auxiliary data set, on which hyper-parameters can be tuned at no privacy cost.

    Hong, Wang and Zhou (FAccT 2022), section 5, tune on a set "randomly sampled from Gaussian distribution" of the
    size of the private one and do not specify its labels. Here inputs are standard normal and the label is the class on
    which a random linear teacher (standard normal, one column a class) is largest. Coin-flip labels would leave nothing
    to learn but noise; a teacher gives a task that rewards training, as the private one does, and assumes nothing about
    the private data.

    Args:
      num_examples: training examples, and as many test examples.
      dim: features.
      num_classes: at least 2.
      seed: the seed of the draw.

    Example:
      >>> gaussian_like(100, 60, 2, seed=0).train_inputs.shape
      torch.Size([100, 60])
    """
    streams = Streams.of("gaussian_like", [seed])
    teacher = streams.normal("teacher", 0, dim * num_classes).view(dim, num_classes)

    def draw(purpose: str) -> tuple[Tensor, Tensor]:
        inputs = streams.normal(purpose, 0, num_examples * dim).view(num_examples, dim)
        return inputs.float(), (inputs @ teacher).argmax(1)

    name = f"gaussian, {num_examples} x {dim} of seed {seed}"
    return Dataset(name, *draw("train"), *draw("test"), num_classes, "none needed", "drawn by dpnotes")
