"""Any `torch.nn.Module` as a problem: flat parameters, and gradients by example from one backward pass."""

import copy
import math
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dpnotes.core import Constant
from dpnotes.problems.augmentation import Draws, Transform, cropped, transformed
from dpnotes.problems.batch_norm import averaged_statistics, forget_statistics, with_buffers
from dpnotes.problems.closed import Open, closed, or_open, refuse_writes, same
from dpnotes.problems.dropout import Site, drops, masked, masks, sites_of
from dpnotes.problems.examples import check, check_points
from dpnotes.problems.graphs import saved_bytes
from dpnotes.problems.module_data import ModuleData
from dpnotes.problems.module_gradients import ModuleGradients
from dpnotes.problems.parameters import FlatParameters
from dpnotes.problems.passes import Examples, Loss, Passes, Values, draws_nothing
from dpnotes.problems.recurrent import unrolled
from dpnotes.problems.refusals import ExamplesMix, OutOfMemory, refuse_by_name, refuse_labels
from dpnotes.problems.rows import Rows
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import deterministic_convolutions
from dpnotes.util.validate import AtLeastOne, checked

_EVALUATED_AT_ONCE = 1000
_UNTRIED = "cannot be tried on made-up examples ({}): give example=, a public one"
_UNDRAWN = "Expected the draws of a step for this module's "


class ModuleProblem:
    """The mean loss of a `torch.nn.Module` over examples, a `core.Problem` of its flat parameters.

    A point `(runs, dim)` holds the module's trainable parameters (`requires_grad`), flat, in the order of
    `named_parameters`; `parameters` gives them as views. Frozen ones stay what they are. The module is copied, never
    changed. Runs take turns: one run of a network fills the device, so that a loop loses nothing there.

    Examples are kept apart by construction. The module is traced once, on symbols; if it consists of layers of torch.nn
    and operations of torch, passes run these alone (`problems.closed`). Else its own code sees one example at a time
    (`problems.passes`), the claim lists what that assumes, and `opens` says why. Both run under `torch.func.vmap`;
    where that has no rule, or the code branches on values, examples are passed one by one, with a warning. A module
    that draws random numbers, or whose buffers a pass changes, is refused.

    Gradients by example. Linear, Conv2d (any groups), GroupNorm, LayerNorm, Embedding and batch normalisation with
    fixed statistics (`eval()`) give them from one forward and one backward pass (`problems.factors`). Any other
    parameter, or one that is used other than by calling its layer, takes a second pass, which writes its gradients out:
    `batch` times its size. Parameters of several layers, or of a layer that is called twice, are written out at once.

    Batch normalisation in training mode makes the loss of an example depend on its batch: `norms` refuses, and the
    gradient is that of the mean loss of the batch. No running statistics are kept; `evaluate` computes them.

    Points, norms and sums are float32, or float64 for a module in float64. With `autocast` the passes are bfloat16, and
    norms and sums those of the rounded factors.

    Args:
      module: maps inputs to outputs, `(batch, num_classes)` for cross-entropy; of any kind, such as a dict, for a loss
        of your own. Its only random draws are dropout's (`problems.dropout`).
      inputs: `(examples, ...)`, or a tuple of them for a module of several arguments; shared by all runs, without NaN
        or infinite entries. Floating point ones have the parameters' type. Images in bytes (uint8) are divided by 255.
      labels: `(examples,)` int64 in `0 ... num_classes - 1`; of any type for a loss of your own.
      loss: "cross-entropy", or a function of outputs and labels to `(batch,)` losses, each of its own example alone.
      autocast: `torch.bfloat16`, or None for passes in the parameters' type.
      channels_last: images are given in this memory format, which convolutions on a GPU are faster in.
      max_examples_at_once: largest chunk of a batch, or None; norms and sums do not depend on it up to rounding. A
        batch that batch normalisation mixes is never split.
      example: inputs and label of a public example, `(1, ...)` each, that the module is tried on; None: made-up ones.
      vouched: classes of layers of which you say that they treat each example by itself; the claim names them.
      transform: maps one example of the first input and 16 uniform numbers to an example of the same shape and type, at
        random (`drawing`); None: no change.

    Raises:
      ValueError: for no trainable parameters, dropout that cannot be replayed, shapes or types that disagree, labels
        out of range; embeddings with sparse gradients, or whose gradients depend on how often a word is in the batch.
      TypeError: for a module that cannot be copied; for data of a subclass of `torch.Tensor`.

    Example:
      >>> module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
      >>> problem = ModuleProblem(module, torch.ones(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]))
      >>> problem.dim, problem.num_examples
      (67, 6)
      >>> x = problem.initial(Streams.of("example", ["run 0", "run 1"]))
      >>> gradients = problem.gradients(x, torch.tensor([[0, 1], [4, 5]]))
      >>> gradients.norms().shape, gradients.weighted_sum(torch.full((2, 2), 1 / 2)).shape
      (torch.Size([2, 2]), torch.Size([2, 67]))
    """

    @checked
    def __init__(
        self,
        module: nn.Module,
        inputs: Tensor | tuple[Tensor | Rows, ...],
        labels: Tensor,
        *,
        loss: Literal["cross-entropy"] | Loss = "cross-entropy",
        autocast: torch.dtype | None = None,
        channels_last: bool = False,
        max_examples_at_once: AtLeastOne | None = None,
        example: tuple[Tensor, ...] | None = None,
        vouched: tuple[type[nn.Module], ...] = (),
        transform: Transform | None = None,
    ) -> None:
        validate.instance(tuple, vouched=vouched)
        for place, kind in enumerate(vouched):
            if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
                raise TypeError(f"Expected vouched[{place}]={kind!r} to be a class of torch.nn.Module.")
        validate.or_none(validate.instance, tuple, example=example)
        validate.instance(Tensor, **{f"example[{place}]": tensor for place, tensor in enumerate(example or ())})
        if autocast not in (None, torch.bfloat16):
            raise ValueError(f"Expected autocast={autocast} to be None or torch.bfloat16.")
        if not callable(loss) and loss != "cross-entropy":
            raise ValueError(f"Expected loss={loss!r} to be 'cross-entropy', or a function of outputs and labels.")
        self._parameters = FlatParameters.of(module, labels.device)
        self._dtype, self._device = next(p.dtype for p in module.parameters() if p.requires_grad), labels.device
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        self._data = ModuleData(given, labels, channels_last, example, self._dtype)
        if self._dtype not in (torch.float32, torch.float64):
            raise ValueError(f"Expected module of {self._dtype} to be float32 or float64; for bfloat16 see autocast.")
        refuse_by_name(module)
        try:
            self._module = copy.deepcopy(module).to(self._device)
        except (TypeError, RuntimeError) as error:
            raise TypeError(f"Expected module={type(module).__name__} to be one that can be copied: {error}.") from None
        self._batch_norms = forget_statistics(self._module)
        self._cross_entropy = loss == "cross-entropy"
        self._loss: Loss = nn.functional.cross_entropy if loss == "cross-entropy" else loss  # type: ignore[assignment]
        self._autocast, self._max_examples_at_once = autocast, max_examples_at_once
        self._draws: Draws | None = None
        self._crops = False
        self._transform: Transform | None = transform
        self.vouched = tuple(kind.__name__ for kind in vouched)
        self._data.check()
        if self._cross_entropy:
            self._check_labels()
        run, self.opens = self._module, None  # what passes run, and why that is the module's own code
        self._dropouts: tuple[Site, ...] = ()
        own = self._same_tensors()
        try:
            run, self._loss = self._as_known_operations(vouched)
        except Open as error:
            self.opens = str(error)
        if self.opens and (drops(own) or self._dropouts or self._drops_by_functions()):
            run = own
            with draws_nothing(self._device), or_open(f"Expected no dropout in code that {_UNTRIED}"):
                self._find_dropouts(run)
            if not self._dropouts:
                raise ValueError("Expected dropout that made-up examples come to: give example=, a public one.")
        if transform is not None:
            try:
                with draws_nothing(self._device, "a transform"):
                    self._transform = closed(transform, 2)
            except Open as error:
                self.opens = self.opens or f"transform is open: {error}"
        known = self.opens is None and not self.vouched
        self._passes = self._passes_of(run, self._loss, known=known)

    # ------------------------------------------------------------ what it is
    @property
    def dim(self) -> int:
        """Number of trainable parameters."""
        return len(self._parameters.start)

    @property
    def num_examples(self) -> int:
        """Examples of the data."""
        return len(self._data.labels)

    @property
    def constants(self) -> dict[str, Constant]:
        """The lower bound 0 of cross-entropy. A network has no Lipschitz constant over all its parameters."""
        if not self._cross_entropy:
            return {}
        return {"lower_bound": Constant(0.0, "proved", "cross-entropy is a negative log-probability")}

    @property
    def keeps_examples_apart(self) -> bool:
        """Return whether examples cannot meet: the module is known operations alone (`problems.closed`)."""
        return self.opens is None and not self.mixes_examples

    @property
    def mixes_examples(self) -> bool:
        """Return whether an example's loss depends on its batch (batch normalisation): it then has no sensitivity."""
        return bool(self._batch_norms)

    @cached_property
    def bytes_per_run(self) -> int:
        """Most memory that one more run holds at once: four points, and the factors of a whole chunk.

        A chunk is `max_examples_at_once` examples, or all. Activations are measured on stand-ins.
        """
        start = self._parameters.start.clone().requires_grad_()
        held = saved_bytes(lambda: self._loss_by(self._loss, *self._of_stand_ins(self._parameters.split(start))), start)
        activations = held // len(self._data.stand_ins[1])
        chunk = min(self.num_examples, self._max_examples_at_once or self.num_examples)
        # Errors have the sizes of the activations that they belong to.
        return 4 * self.dim * self._parameters.start.element_size() + 2 * activations * chunk

    def take(self, index: Tensor | slice) -> "ModuleProblem":
        """The problem of some of the runs: itself, unless it is augmented."""
        return self if self._draws is None else self._with(self._draws.take(index), self._crops)

    def augmented(self, streams: Streams, calls: int | Tensor) -> "ModuleProblem":
        """The problem of randomly changed images: cropped after padding by 4, flipped left to right.

        The padding is 0, the mean colour of normalised images. The draw is a function of (run, "augmentation", call,
        example), so that it does not depend on the batch. `evaluate` does not augment.

        Args:
          streams: one a run.
          calls: the number of the step, one for all runs or `(runs,)`.

        Raises:
          ValueError: if the inputs are not images `(examples, channels, height, width)`.

        Example:
          >>> module = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
          >>> problem = ModuleProblem(module, torch.ones(3, 1, 4, 4), torch.tensor([0, 1, 1]))
          >>> changed = problem.augmented(Streams.of("example", ["run 0"]), calls=7)
          >>> bool((changed.gradients(torch.ones(1, problem.dim)).losses > 0).all())
          True
        """
        if len(self._data.inputs) != 1 or self._data.inputs[0].dim() != 4:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in self._data.inputs)
            raise ValueError(f"Expected inputs of shape {shapes} to be (examples, channels, height, width).")
        return self._with(Draws.of(streams, calls), True)

    def drawing(self, streams: Streams, calls: int | Tensor) -> "ModuleProblem":
        """The problem with the dropout masks and transforms of a step; arguments as in `augmented`.

        The draws are functions of (run, call, example). Under add-or-remove-one the later examples change their
        numbers, so that the claim then rests on secret streams; under the other relations it holds for all masks.

        Example:
          >>> module = nn.Sequential(nn.Dropout(0.5), nn.Linear(16, 2))
          >>> problem = ModuleProblem(module, torch.ones(3, 16), torch.tensor([0, 1, 1]))
          >>> x, streams = torch.ones(1, problem.dim), Streams.of("example", ["run 0"])
          >>> one, same, other = (problem.drawing(streams, call).gradients(x).norms() for call in (0, 0, 1))
          >>> torch.equal(one, same), torch.equal(one, other)
          (True, False)
        """
        return self._with(Draws.of(streams, calls), self._crops)

    @property
    def draws(self) -> bool:
        """Return whether a pass needs random draws: dropout masks or a transform."""
        return bool(self._dropouts) or self._transform is not None

    def _with(self, draws: Draws, crops: bool) -> "ModuleProblem":
        other = copy.copy(self)
        other._draws, other._crops = draws, crops
        return other

    # ------------------------------------------------------------ points
    def parameters(self, x: Tensor) -> dict[str, Tensor]:
        """Views of points `(runs, dim)` by the parameters' names, `(runs, *shape)`."""
        check_points(x, self.dim, self._dtype)
        return self._parameters.split(x)

    def initial(self, streams: Streams, only: Collection[str] | None = None) -> Tensor:
        """A starting point `(runs, dim)`: what torch's layers do by default, drawn from the streams.

        Weights and biases of Linear and convolutions are uniform in +-1/sqrt(inputs of an output) (torch's
        `kaiming_uniform_` with a = sqrt(5), torch 2.13); normalisations are 1 and 0; embeddings are standard normal,
        with zeros at their padding row. Each parameter has a purpose of its own, so that a draw does not depend on what
        else the module holds. Draws are float64, rounded.

        Args:
          streams: one a run.
          only: beginnings of the names that are drawn, such as `["fc."]` for a new head on a pretrained network; the
            others start where the module given at construction was. None: all are drawn; `[]`: none.

        Raises:
          ValueError: for a name that nothing begins with, or a drawn parameter of a layer without a known default.
        """
        return self._parameters.drawn(self._module, streams, only)

    # ------------------------------------------------------------ what it answers
    def gradients(self, x: Tensor, examples: Tensor | None = None) -> ModuleGradients:
        """Losses and gradients by example at the points `x`, found when asked for.

        Args:
          x: `(runs, dim)`.
          examples: `(runs, batch)` int64, which examples; all of them if None.

        Raises:
          ValueError: for shapes that disagree, or no such example.
        """
        check_points(x, self.dim, self._dtype)
        if self._draws is not None:
            validate.same_length(x=x, streams=self._draws.streams)
        if examples is not None:
            check(examples, len(x), self.num_examples)
        return ModuleGradients(self, x.detach(), examples)

    def evaluate(
        self, x: Tensor, inputs: Tensor | tuple[Tensor, ...], labels: Tensor, statistics_from: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean loss and accuracy, each `(runs,)`, at the points `x` on other examples.

        Blocks of `max_examples_at_once` examples, or of 1000, are passed whole. Accuracy is the share of examples whose
        largest output is the label's, NaN for a loss of your own.

        Batch normalisation uses statistics of training examples at this very point ("precise BatchNorm", Wu and
        Johnson, arXiv:2105.07576, section 3): each batch is passed as in training, and means and second moments are
        averaged. They are exact functions of the training data, so such an accuracy is covered by no guarantee.

        Args:
          x: `(runs, dim)`.
          inputs: as at construction, of any number of examples.
          labels: `(examples,)`.
          statistics_from: `(batches, batch)` int64, training examples that statistics are computed from; needed by a
            module with batch normalisation in training mode, refused by others.

        Raises:
          ValueError: for shapes that disagree, or `statistics_from` missing or given in vain.
          OutOfMemory: if a block does not fit.
        """
        check_points(x, self.dim, self._dtype)
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        validate.same_length(labels=labels, **{f"inputs[{i}]": tensor for i, tensor in enumerate(inputs)})
        if statistics_from is None and self._batch_norms:
            raise ValueError("Expected statistics_from=None to be training examples (batches, batch) to normalise by.")
        if statistics_from is not None:
            if not self._batch_norms:
                raise ValueError("Expected statistics_from to be None: no batch normalisation is in training mode.")
            check(statistics_from, len(statistics_from), self.num_examples)
        loss, correct = x.new_zeros(len(x)), x.new_zeros(len(x))
        step = self._max_examples_at_once or _EVALUATED_AT_ONCE
        # Code that sees whole batches gets copies of module and point: what it leaves in them reaches no pass.
        module = self._fixed if statistics_from is not None else copy.deepcopy(self._module)
        with torch.no_grad(), self._memory(step):
            for run, row in enumerate(x):
                values = self._parameters.split(row.clone())
                if statistics_from is not None:
                    values = values | self._statistics(values, statistics_from)
                for start in range(0, len(labels), step):
                    block, truth = slice(start, start + step), labels[start : start + step]
                    outputs = self._outputs(module, values, self._data.formatted(*(t[block] for t in inputs)))
                    loss[run] += self._loss_by(self._loss, outputs, truth).sum()
                    if self._cross_entropy:
                        correct[run] += (outputs.argmax(-1) == truth).sum()
        accuracy = correct / len(labels) if self._cross_entropy else torch.full_like(correct, math.nan)
        return loss / len(labels), accuracy

    def _statistics(self, values: Values, batches: Tensor) -> Values:
        inputs = (self._data.batch(examples)[0] for examples in batches)
        passes = (self._outputs(self._module, values, each) for each in inputs)
        return averaged_statistics(self._module, self._batch_norms, passes, self._dtype)

    @cached_property
    def _fixed(self) -> nn.Module:
        """The module with statistics of its batch normalisations as buffers."""
        return with_buffers(self._module, self._batch_norms, self._parameters.start)

    # ------------------------------------------------------------ examples
    def _check_labels(self) -> None:
        labels = self._data.labels
        if labels.dtype != torch.int64 or labels.dim() != 1:
            shape = tuple(labels.shape)
            raise ValueError(f"Expected labels, {labels.dtype} of shape {shape}, to be int64 of shape (examples,).")
        with torch.no_grad(), torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
            try:
                outputs, made_up = self._of_stand_ins(self._parameters.split(self._parameters.start.clone()))
            except (RuntimeError, TypeError, IndexError) as error:
                shapes = self._data.shapes
                raise ValueError(f"Expected module to take inputs of shape {shapes} an example: {error}") from error
        refuse_labels(labels, outputs, made_up)

    def _batch(self, run: int, examples: Tensor) -> Examples:
        inputs, labels = self._data.batch(examples, self._changed(run, examples))
        if not self._dropouts:
            return inputs, labels
        if self._draws is None:
            raise ValueError(f"{_UNDRAWN}dropout masks: ask for `problem.drawing(streams, calls)`.")
        return (*inputs, *masks(self._draws, run, examples, self._dropouts, self._dtype)), labels

    def _changed(self, run: int, examples: Tensor) -> Callable[[Tensor], Tensor] | None:
        """The random change of the first input, if there is one."""
        if self._transform is None and not self._crops:
            return None
        if self._draws is None:
            raise ValueError(f"{_UNDRAWN}transforms: ask for `problem.drawing(streams, calls)`.")
        draws, transform = self._draws, self._transform

        def change(inputs: Tensor) -> Tensor:
            images = cropped(draws, run, examples, inputs) if self._crops else inputs
            return images if transform is None else transformed(draws, run, examples, images, transform)

        return change

    def _chunks(self, examples: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of a batch with the places that they fill; one block if its examples mix."""
        step = self._max_examples_at_once
        if step is None or self._batch_norms:
            step = max(1, len(examples))
        for start in range(0, len(examples), step):
            yield slice(start, start + step), examples[start : start + step]

    @contextmanager
    def _memory(self, batch: int) -> Iterator[None]:
        """Passes in the memory that there is: say what to do when none is left. Equal passes give equal bits."""
        try:
            with deterministic_convolutions():
                yield
        except torch.OutOfMemoryError as error:
            chunk = min(batch, self._max_examples_at_once or batch)
            advice = (
                "a smaller batch: batch normalisation cannot split one"
                if self._batch_norms
                else f"max_examples_at_once={max(1, chunk // 2)}"
            )
            raise OutOfMemory(f"Expected {chunk} examples at once to fit into {self._device}; try {advice}.") from error

    # ------------------------------------------------------------ passes
    def _outputs(self, module: nn.Module, values: Values, inputs: tuple[Tensor, ...]) -> Tensor:
        rounded = nullcontext() if self._autocast is None else torch.autocast(self._device.type, self._autocast)
        given = len(self._data.inputs)  # after them come masks
        if not inputs[given:]:
            with rounded:
                return torch.func.functional_call(module, values, inputs)
        copies = tuple(tensor.clone() for tensor in inputs[:given])  # a dropout may work in place, a pass be made again
        with rounded, masked(zip(self._dropouts, inputs[given:], strict=True)):
            return torch.func.functional_call(module, values, copies)

    def _loss_by(self, loss: Loss, outputs: Any, labels: Tensor) -> Tensor:
        if self._cross_entropy:
            return loss(outputs.to(self._dtype), labels, reduction="none")  # type: ignore[call-arg]
        if self._autocast is not None and isinstance(outputs, Tensor):
            outputs = outputs.to(torch.promote_types(outputs.dtype, self._dtype))
        return loss(outputs, labels)

    def _of_stand_ins(self, values: Values) -> tuple[Any, Tensor]:
        """Outputs and labels of a batch that a copy of the module sees whole, in place of examples."""
        inputs, labels = self._data.stand_ins
        return self._outputs(copy.deepcopy(self._module), values, inputs), labels

    def _passes_of(self, run: nn.Module, loss: Loss, known: bool = False) -> Passes:
        outputs, how = partial(self._outputs, run), {"by_rows": self._cross_entropy, "whole": self.mixes_examples}
        parts = [part for part in (run, loss) if isinstance(part, nn.Module)]
        return Passes(run, outputs, partial(self._loss_by, loss), fixed=parts, known=known, **how)

    def _as_known_operations(self, vouched: tuple[type[nn.Module], ...]) -> tuple[nn.Module, Loss]:
        """The operations that passes run in place of the module and the loss, if they agree on stand-ins.

        Raises:
          Open: if it is more than known operations.
        """
        if self.mixes_examples:
            if drops(self._module):
                raise ValueError("Expected no active dropout beside batch normalisation, whose examples have no masks.")
            return self._module, self._loss
        run = closed(self._same_tensors(), len(self._data.inputs), vouched)
        loss = self._loss if self._cross_entropy else closed(self._loss, 2)
        start, (inputs, labels) = self._parameters.split(self._parameters.start.clone()), self._data.stand_ins
        run = unrolled(run)
        first, whole = self._find_dropouts(run)
        one = (*first, *(mask[:1] for mask in whole))
        with masked((site, mask[:1] / 2) for site, mask in zip(self._dropouts, whole, strict=True)):
            refuse_writes(run, *(tensor.clone() for tensor in first))
        known = self._passes_of(run, loss, known=not vouched)
        own = self._passes_of(copy.deepcopy(self._module), self._loss)
        own.one_by_one = "to compare"
        weights = torch.ones(len(labels), dtype=self._dtype, device=self._device)
        autocast, self._autocast = self._autocast, None  # rounds to other numbers where sums have another order
        with warnings.catch_warnings(action="ignore"), or_open(f"it {_UNTRIED}"):
            try:
                if isinstance(loss, nn.Module):
                    with torch.no_grad():
                        refuse_writes(loss, self._outputs(run, start, one), labels[:1])
                found = known.summed(start, ((*inputs, *whole), labels), weights)
                code = own.summed(start, (inputs, labels), weights)
            finally:
                self._autocast = autocast
        if not same(found, code):
            raise Open("its operations give other numbers than its code")
        return run, loss

    def _same_tensors(self) -> nn.Module:
        """A copy of the module as it was given, of the same tensors: code that keeps what it sees keeps it there."""
        tensors = [*self._module.parameters(), *self._module.buffers()]
        return copy.deepcopy(self._module, {id(tensor): tensor for tensor in tensors})

    def _drops_by_functions(self) -> bool:
        """Return whether code that has no layer of dropout drops on a stand-in; if it fails there, no."""
        with suppress(Exception), torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
            return bool(sites_of(lambda: self._same_tensors()(*(tensor[:1] for tensor in self._data.stand_ins[0]))))
        return False

    def _find_dropouts(self, run: nn.Module) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The inputs of one stand-in, and masks of ones for all; the module itself is evaluated from here on."""
        inputs, labels = self._data.stand_ins
        first = tuple(tensor[:1] for tensor in inputs)
        self._dropouts = sites_of(lambda: run(*first))
        if self._dropouts:  # the code is compared, and the network evaluated, without dropout
            self._module.eval()
            if sites_of(lambda: copy.deepcopy(self._module)(*first)):
                raise ValueError("Expected functional.dropout with training=self.training: else evaluations drop, too.")
        return first, tuple(inputs[0].new_ones(len(labels), *site.shape, dtype=self._dtype) for site in self._dropouts)

    def _refuse_mixing(self) -> None:
        if self._batch_norms:
            raise ExamplesMix(
                f"Expected a module whose examples do not mix; the batch normalisation {self._batch_norms[0]} makes "
                "each loss depend on the whole batch, so that no example has a gradient of its own to clip. Use "
                "GroupNorm, or eval() with statistics of public data."
            )
