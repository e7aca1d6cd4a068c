"""Examples in other forms than tensors: data sets read by index, arrays, lists, bytes; and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.rows import Rows, as_examples
from dpnotes.random.streams import Streams

INPUTS = torch.randn(10, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(10) % 3
STREAMS = Streams.of("rows", [0])


class Counted(Dataset):
    """A data set that counts how often a row is read, and may change one."""

    def __init__(self, changed: Any = None) -> None:
        self.read: list[int] = []
        self.changed = changed

    def __len__(self) -> int:
        return len(INPUTS)

    def __getitem__(self, index: int) -> Any:
        self.read.append(index)
        if index == 7 and self.changed is not None:
            return self.changed()
        return INPUTS[index].numpy(), int(LABELS[index])


class Endless(IterableDataset):
    """A data set without rows by index."""

    def __iter__(self) -> Any:
        return iter(())


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3))


def norms(module: nn.Module, inputs: Any, labels: Tensor, examples: Tensor | None = None) -> Tensor:
    problem = ModuleProblem(module, inputs, labels)
    return problem.gradients(problem.initial(STREAMS), examples).norms()


def test_a_data_set_gives_the_gradients_of_its_tensors_and_is_read_by_batches():
    module, dataset = network(), Counted()
    inputs, labels = as_examples(dataset, None)
    assert dataset.read == [*range(10)] and torch.equal(labels, LABELS)
    some = torch.tensor([[3, 8, 1]])
    assert torch.equal(norms(module, inputs, labels, some), norms(module, INPUTS, LABELS, some))
    assert dataset.read[-3:] == [3, 8, 1] and {*dataset.read[10:]} == {0, 3, 8, 1}, "row 0 gives the shape"
    assert torch.equal(norms(module, inputs, labels), norms(module, INPUTS, LABELS))


@pytest.mark.parametrize(
    ("inputs", "labels"),
    [
        (INPUTS.numpy(), LABELS.numpy()),
        (INPUTS.double().numpy(), LABELS.numpy().astype(np.uint8)),
        (INPUTS.tolist(), LABELS.tolist()),
        (INPUTS, LABELS.int()),
        (TensorDataset(INPUTS, LABELS), None),
    ],
)
def test_arrays_lists_and_narrow_labels_are_the_same_examples(inputs: Any, labels: Any):
    module = network()
    found = norms(module, *as_examples(inputs, labels))
    assert torch.allclose(found, norms(module, INPUTS, LABELS), rtol=1e-6)


def test_several_inputs_keep_their_order():
    inputs, _ = as_examples((np.ones((2, 3)), [[1], [2]]), [0, 1])
    assert [tuple(part.shape) for part in inputs] == [(2, 3), (2, 1)] and inputs[1].dtype == torch.int64


@pytest.mark.parametrize("as_rows", [False, True])
def test_images_in_bytes_are_numbers_from_0_to_1(as_rows: bool):
    module, images = network(), torch.arange(160, dtype=torch.uint8).view(10, 1, 4, 4)
    given = as_examples(TensorDataset(images, LABELS), None)[0] if as_rows else images
    problem, plain = ModuleProblem(module, given, LABELS), ModuleProblem(module, images / 255, LABELS)
    x = problem.initial(STREAMS)
    assert torch.allclose(problem.gradients(x).norms(), plain.gradients(x).norms())
    assert problem.evaluate(x, images, LABELS)[0] == plain.evaluate(x, images / 255, LABELS)[0]


# ---------------------------------------------------------------- refusals
def fails() -> Any:
    raise OSError("the disk is gone\nand more")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        (
            lambda: (torch.ones(1, 4, 5), 0),
            ValueError,
            r"dataset\[7\] of shape \(1, 4, 5\) .* like dataset\[0\]: \(1, 4, 4\)",
        ),
        (lambda: (INPUTS[0], torch.ones(2)), ValueError, r"the label of dataset\[7\]"),
        (lambda: INPUTS[0], ValueError, r"dataset\[7\] to be a pair"),
        (lambda: ("picture", 0), TypeError, r"dataset\[7\] to be a pair of tensors, arrays or numbers: .*str"),
        (fails, ValueError, r"dataset\[7\] .*: the disk is gone$"),
    ],
)
def test_a_row_that_differs_or_fails_is_named(changed: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        as_examples(Counted(changed), None)


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (DataLoader(TensorDataset(INPUTS, LABELS)), None, "inputs=DataLoader to be its `.dataset`"),
        (TensorDataset(INPUTS, LABELS), LABELS, "labels to be None with a data set"),
        (Endless(), None, "rows by index"),
        ([[1.0], [1.0, 2.0]], [0, 1], r"inputs\[0\], a list, to be numbers"),
    ],
)
def test_other_forms_are_refused(inputs: Any, labels: Any, message: str):
    with pytest.raises(TypeError, match=message):
        as_examples(inputs, labels)


def test_an_empty_data_set_and_a_row_that_is_not_finite_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        Rows(TensorDataset(INPUTS[:0], LABELS[:0]))
    inputs, labels = as_examples(
        TensorDataset(INPUTS.clone().index_fill_(0, torch.tensor([4]), torch.nan), LABELS), None
    )
    problem = ModuleProblem(network(), inputs, labels)
    x = problem.initial(STREAMS)
    assert problem.gradients(x, torch.tensor([[0, 1]])).norms().isfinite().all()
    with pytest.raises(ValueError, match=r"Expected inputs\[0\] without NaN"):
        problem.gradients(x).norms()
