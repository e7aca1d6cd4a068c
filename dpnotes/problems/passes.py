"""Forward and backward passes of a module in which no example sees another.

A module that is made of known layers and operations alone (`problems.closed`) cannot show one example to another. Any
other code may: it may sort its batch, centre it, or keep something for its next call. So it never receives more than
one example. A pass runs under `torch.func.vmap` over the examples: the code receives a batch of one, while its
operations work on all examples. Where vmap has no rule for an operation, or the code branches on values, examples are
passed one by one, which is slower; a warning says so.

Code that would see all examples beneath vmap is kept out, too. With hooks of the backward pass, functions that have
their own vmap rule, or modes that code enters, examples are passed one by one; modes and global hooks that are set
around a pass are refused, and so are random numbers that the module draws itself, and changed buffers or frozen
parameters. That code stores nothing elsewhere for a later example is an assumption (`guarantees.SHOWN_ALONE`).

Per-example gradients are factors (`problems.factors`). A call of a layer uses a separate copy of the layer's
parameters. So a parameter that is also used in another way is detected, and a second pass materialises its gradients.
"""

import functools
import pickle
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# A layer's own forward pass on all examples needs the tensor that vmap wraps, and wraps its output again. The only
# public way is an `autograd.Function` with a vmap rule, which added 15 ms to each step of the paper's ConvNet. The
# other private names tell which hooks and vmap rules are set, for which torch has no public function.
from torch._C._autograd import _top_saved_tensors_default_hooks  # type: ignore[attr-defined]
from torch._C._functorch import (  # type: ignore[attr-defined]
    _add_batch_dim,
    _unwrap_batched,
    is_functorch_wrapped_tensor,
    maybe_current_level,
)
from torch._functorch.autograd_function import custom_function_call
from torch._ops import OpOverload
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from dpnotes.problems.closed import MEET, is_known
from dpnotes.problems.factors import FactoredGradient, Factors, Written, factored, supported

Values = dict[str, Tensor]  # parameters by name
Examples = tuple[tuple[Tensor, ...], Tensor]  # inputs and labels
Outputs = Callable[[Values, tuple[Tensor, ...]], Any]
Loss = Callable[[Any, Tensor], Tensor]
ONLY_LOOK: set[type] = {DeviceContext}  # modes that neither change nor keep any number
Called = Callable[[nn.Module, Tensor], Tensor]  # maps a layer and all examples' inputs to their outputs


class Passes:
    """The losses, weighted sums of gradients, and per-example gradients of a module.

    Args:
      module: the module; a pass that changes it is refused.
      outputs: computes the outputs of a batch at given parameters, by a call of the module.
      loss: maps outputs and labels to losses `(batch,)`.
      fixed: modules, the loss among them if it is one, whose buffers and frozen parameters a pass must not change.
      by_rows: whether the loss is known to treat each row by itself.
      known: whether module and loss are known operations alone (`problems.closed`), which need no supervision.
      whole: whether the batch is passed as a whole, for a module that mixes examples; it has no per-example gradients.
    """

    def __init__(
        self,
        module: nn.Module,
        outputs: Outputs,
        loss: Loss,
        *,
        fixed: Sequence[nn.Module],
        by_rows: bool,
        whole: bool,
        known: bool = False,
    ) -> None:
        self._outputs, self._loss, self._by_rows, self._whole, self._known = outputs, loss, by_rows, whole, known
        self._names = {id(p): name for name, p in module.named_parameters() if p.requires_grad}
        trained = {m: self._trained(m) for m in module.modules() if supported(m) and is_known(m, ())}
        self._layers = {layer: names for layer, names in trained.items() if names}
        self._direct: set[str] = set()  # parameters that are used outside the calls of their layer, too
        self._overwritten: set[nn.Module] = set()  # layers whose inputs or outputs are changed in place
        self._hooks = [type(m).__name__ for m in module.modules() if m._backward_hooks or m._backward_pre_hooks]
        self._fixed = [
            (f"{path}.{name}".removeprefix("."), own, name, tensor.detach().clone())
            for whole in fixed
            for path, part in whole.named_modules()
            for own in (part._parameters, part._buffers)
            for name, tensor in own.items()
            if tensor is not None and id(tensor) not in self._names
        ]
        self._plain = functools.partial(self._together, called=_called)
        self.one_by_one: str | None = None  # the reason, if examples are passed one by one

    # ------------------------------------------------------------ results
    def losses(self, values: Values, batch: Examples) -> Tensor:
        """The losses of the examples, `(batch,)`, differentiable in the values."""
        each = functools.partial(self._each, values, batch)
        return self._apart(batch[1].device, lambda: self._plain(values, batch), lambda: torch.stack([*each()]))

    def summed(self, values: Values, batch: Examples, weights: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The losses, and for each parameter the weighted sum of gradients, from one backward pass."""
        leaves = _leaves(values)

        def backward(losses: Tensor) -> tuple[Tensor, list[Tensor]]:
            found = torch.autograd.grad(losses, [*leaves.values()], weights.to(losses), materialize_grads=True)
            return losses.detach(), [*found]

        return self._apart(
            batch[1].device,
            lambda: backward(self._plain(leaves, batch)),
            lambda: backward(torch.stack([*self._each(leaves, batch)])),
        )

    def factors(self, values: Values, batch: Examples) -> tuple[Tensor, Factors]:
        """The losses, and the per-example gradients as factors; unused parameters have none."""
        return self._apart(
            batch[1].device, lambda: self._tapped(values, batch), lambda: self._written_one_by_one(values, batch)
        )

    # ------------------------------------------------------------ one example at a time
    def _output_of_one(self, values: Values, *inputs: Tensor) -> Any:
        """The output for a batch of one example; the module sees nothing else."""
        outputs = self._outputs(values, tuple(tensor[None] for tensor in inputs))
        if isinstance(outputs, Tensor) and len(outputs) != 1:
            raise ValueError(f"Expected outputs of shape {tuple(outputs.shape)} for one example to have one row.")
        return outputs

    def _loss_of_one(self, values: Values, label: Tensor, *inputs: Tensor) -> Tensor:
        losses = self._loss(self._output_of_one(values, *inputs), label[None])
        if losses.shape != (1,):
            raise ValueError(f"Expected losses of shape {tuple(losses.shape)} for one example to be (1,): one each.")
        return losses[0]

    def _together(self, values: Values, batch: Examples, called: Called | None = None) -> Tensor:
        inputs, labels = batch
        if self._whole:
            return self._loss(self._outputs(values, inputs), labels)
        if self._hooks:
            raise RuntimeError(f"{self._hooks[0]} has hooks that run in the backward pass, on all examples")
        layers = nullcontext() if called is None else self._known_layers(len(labels), values, called)
        with nullcontext() if self._known else nothing_beneath(), layers:
            if self._by_rows:
                output = functools.partial(self._output_of_one, values)
                return self._loss(torch.func.vmap(output, randomness="error")(*inputs).squeeze(1), labels)
            loss = functools.partial(self._loss_of_one, values)
            return torch.func.vmap(loss, randomness="error")(labels, *inputs)

    @contextmanager
    def _known_layers(self, size: int, values: Values, called: Called) -> Iterator[None]:
        """A context in which layers that treat rows by themselves are called once for all examples, outside vmap."""
        level = 1 + (maybe_current_level() or 0)

        def forward(layer: nn.Module, input: Tensor) -> Tensor:
            own = all(layer._parameters[local] is values[name] for local, name in self._layers[layer].items())
            if not own or maybe_current_level() != level:  # the module replaced parameters or applied a transform
                return type(layer).forward(layer, input)
            inputs, axis = _unwrap_batched(input, level)
            # Inputs that all examples share, such as positions, are expanded to one for each, so that errors stay
            # apart.
            inputs = inputs.expand(size, *inputs.shape) if axis is None else inputs.movedim(axis, 0)
            if _takes_as_it_is(layer, inputs):
                return _add_batch_dim(called(layer, inputs), 0, level)
            outputs = called(layer, inputs.flatten(0, 1))
            return _add_batch_dim(outputs.unflatten(0, inputs.shape[:2]), 0, level)

        for layer in self._layers:
            layer.forward = functools.partial(forward, layer)
        try:
            yield
        finally:
            for layer in self._layers:
                del layer.forward

    def _each(self, values: Values, batch: Examples) -> Iterator[Tensor]:
        before = {name: value.detach().clone() for name, value in values.items()}
        for label, *inputs in zip(batch[1], *batch[0], strict=True):
            # Each row gets its own memory: a view would give access to the other examples.
            own = [row.clone(memory_format=torch.contiguous_format) for row in (label, *inputs)]
            yield self._loss_of_one(values, *own)
            self._refuse_changes()
            for name, value in values.items():
                if not torch.equal(value, before[name]):
                    raise ValueError(f"Expected a pass to leave the parameter {name} as it is.")

    def _apart(self, device: torch.device, together: Callable[[], Any], one_by_one: Callable[[], Any]) -> Any:
        """The result of one pass over all examples, or of one pass for each example where vmap fails.

        Neither may draw random numbers or change the module: how often it did so would depend on the number of
        examples.
        """
        refuse_what_sees_all()
        with draws_nothing(device):
            found, why = self._passed(together, one_by_one)
        self._refuse_changes()
        if why != self.one_by_one:
            self.one_by_one = why
            warnings.warn(
                f"Examples are passed one by one, which is slower, as torch.func.vmap cannot: {why}", stacklevel=2
            )
        return found

    def _refuse_changes(self) -> None:
        for name, own, local, before in self._fixed:
            now = own.get(local)
            kept = now is not None and not is_functorch_wrapped_tensor(now) and now.shape == before.shape
            if now is None or not kept or not bool(torch.isclose(now.to(before), before, 0, 0, equal_nan=True).all()):
                raise ValueError(f"Expected a pass to leave {name} as it is: another example could read what changed.")

    def _passed(self, together: Callable[[], Any], one_by_one: Callable[[], Any]) -> tuple[Any, str | None]:
        """The result, and the reason if examples were passed one by one."""
        if self.one_by_one is not None:
            return one_by_one(), self.one_by_one
        try:
            return together(), None
        except RuntimeError as error:
            if self._whole or isinstance(error, torch.OutOfMemoryError):
                raise
            # An error of the module itself is raised again here, with its own message.
            return one_by_one(), str(error).splitlines()[0]

    # ------------------------------------------------------------ gradients by example
    def _tapped(self, values: Values, batch: Examples) -> tuple[Tensor, Factors]:
        """Losses and factors, from one forward pass and one backward pass that stops at the layers' outputs."""
        in_layers, elsewhere = _leaves(values), _leaves(values)
        calls: list[_Call] = []

        def called(layer: nn.Module, inputs: Tensor) -> Tensor:
            self._give(layer, in_layers)
            outputs = type(layer).forward(layer, inputs)
            self._give(layer, elsewhere)
            if layer in self._overwritten:
                inputs, outputs = inputs.clone(), outputs.clone()
            if outputs.requires_grad:
                calls.append(_Call(layer, inputs, outputs))
            return outputs

        losses = self._together(elsewhere, batch, called)
        if overwritten := {call.layer for call in calls if call.overwritten()}:
            self._overwritten |= overwritten
            return self._tapped(values, batch)
        asked = [name for name in elsewhere if name not in self._direct]
        targets = [call.edge for call in calls] + [elsewhere[name] for name in asked]
        errors: list[Tensor | None] = [None] * len(targets)
        if targets and losses.requires_grad:
            errors = [*torch.autograd.grad(losses, targets, torch.ones_like(losses), allow_unused=True)]  # type: ignore[arg-type]
        self._direct.update(name for name in reversed(asked) if errors.pop() is not None)
        found: dict[str, list[FactoredGradient]] = {}
        while calls:
            # The factors of a materialised gradient are freed before the next layer is handled.
            call, error = calls.pop(), errors.pop()
            names = {local: name for local, name in self._layers[call.layer].items() if name not in self._direct}
            if error is None or not names:
                continue
            for inputs, errors_of_one in call.with_one(error, len(batch[1])):
                own = factored(call.layer, inputs, errors_of_one)
                for local, name in names.items():
                    found.setdefault(name, []).append(own[local])
        written = {name: Written(each) for name, each in self._written(values, batch).items()}
        return losses.detach(), Factors({name: _merged(several) for name, several in found.items()} | written)

    def _written(self, values: Values, batch: Examples) -> Values:
        """The materialised per-example gradients of the parameters that layers do not cover."""
        if not self._direct:
            return {}
        chosen = {name: value for name, value in values.items() if name in self._direct}

        def loss(chosen: Values, label: Tensor, *inputs: Tensor) -> Tensor:
            return self._loss_of_one(values | chosen, label, *inputs)

        by_example = torch.func.vmap(torch.func.grad(loss), in_dims=(None, *[0] * (1 + len(batch[0]))))
        return by_example(chosen, batch[1], *batch[0])

    def _written_one_by_one(self, values: Values, batch: Examples) -> tuple[Tensor, Factors]:
        losses, rows = [], []
        leaves = _leaves(values)
        for loss in self._each(leaves, batch):
            losses.append(loss.detach())
            rows.append(torch.autograd.grad(loss, [*leaves.values()], materialize_grads=True))
        columns = zip(*rows, strict=True)
        each = {name: Written(torch.stack(column)) for name, column in zip(leaves, columns, strict=True)}
        return torch.stack(losses), Factors(each)

    def _give(self, layer: nn.Module, values: Values) -> None:
        layer._parameters.update({local: values[name] for local, name in self._layers[layer].items()})  # type: ignore[arg-type]

    def _trained(self, layer: nn.Module) -> dict[str, str]:
        """A layer's trainable parameters: from their names in the layer to their names in the module."""
        return {local: self._names[id(p)] for local, p in layer.named_parameters(recurse=False) if p.requires_grad}


@contextmanager
def nothing_beneath() -> Iterator[None]:
    """A context in which torch raises an error if code would see all examples beneath `torch.func.vmap`."""
    hooks = torch.autograd.graph.disable_saved_tensors_hooks("saved-tensor hooks see all examples")
    with _NoRulesOfItsOwn(), hooks:
        yield


def refuse_what_sees_all() -> None:
    """Raise an error if a mode or hook that would see all examples is set around a pass.

    Raises:
      ValueError: naming them.
    """
    modes = [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]
    if named := [type(mode).__name__ for mode in modes if type(mode) not in ONLY_LOOK]:
        raise ValueError(f"Expected no {named[0]} around a pass: it would see all examples.")
    hooks = _top_saved_tensors_default_hooks(False)
    if hooks is not None and hooks[0].__module__ != torch.autograd.graph.__name__:  # torch's own only move tensors
        raise ValueError("Expected no saved-tensor hooks around a pass: they would see all examples.")
    if nn.modules.module._has_any_global_hook():
        raise ValueError("Expected no global hooks of modules around a pass: they would see all examples.")


class _NoRulesOfItsOwn(TorchFunctionMode):
    """A mode that refuses functions and operations with their own vmap rule, since such a rule sees all examples."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, unless it has such a rule."""
        for mode in _get_current_dispatch_mode_stack():
            if type(mode) not in ONLY_LOOK:
                raise RuntimeError(f"{type(mode).__name__} is entered, for all examples")
        own, name = False, func.name() if isinstance(func, OpOverload) else getattr(func, "_qualified_op_name", "")
        if func is custom_function_call:
            own, name = args[0].vmap is not torch.autograd.Function.vmap, args[0].__name__
        elif name and not name.startswith(("aten::", "prim::", "prims::")):
            own = torch._C._dispatch_has_kernel_for_dispatch_key(name, "FuncTorchBatched")
        if (called := getattr(func, "__name__", "").strip("_")) in MEET:
            raise RuntimeError(f"{called} lets examples meet where torch runs many at once")
        if called in ("embedding", "embedding_bag") and any(part is True for part in (*args, *(kwargs or {}).values())):
            flags = "scale_grad_by_freq, sparse or another flag"
            raise ValueError(f"Expected {called} without {flags}: clipping needs each example's own gradient.")
        if own:
            raise RuntimeError(f"{name} brings a vmap rule of its own, for all examples")
        return func(*args, **(kwargs or {}))


class _Call:
    """A call of a layer: its inputs, `(batch, ...)`, and the edge of the graph where the error of its output arrives.

    It is invalid once inputs or outputs are overwritten: the values would differ, and an output that is a view of
    another tensor would leave the graph.
    """

    def __init__(self, layer: nn.Module, inputs: Tensor, outputs: Tensor) -> None:
        self.layer, self.inputs, self.edge = layer, inputs.detach(), get_gradient_edge(outputs)
        watched = [inputs, outputs] if outputs._is_view() else [inputs]
        self._versions = [(tensor.detach(), tensor._version) for tensor in watched]

    def overwritten(self) -> bool:
        return any(tensor._version != version for tensor, version in self._versions)

    def with_one(self, errors: Tensor, size: int) -> Iterable[tuple[Tensor, Tensor]]:
        """The inputs and errors as calls with one row for each example; a module may have made several rows of each."""
        if len(errors) == size:
            return [(self.inputs, errors)]
        return zip(*(tensor.unflatten(0, (size, -1)).unbind(1) for tensor in (self.inputs, errors)), strict=True)


def _called(layer: nn.Module, inputs: Tensor) -> Tensor:
    return type(layer).forward(layer, inputs)


def _takes_as_it_is(layer: nn.Module, inputs: Tensor) -> bool:
    """Return whether a layer takes all examples' inputs as they are; others need two batch axes merged into one."""
    if isinstance(layer, nn.Conv2d):
        return inputs.dim() == 4  # the module gave it one image of an example, without a batch axis
    return isinstance(layer, nn.Linear | nn.LayerNorm | nn.Embedding)  # any axes before the last ones are positions


def _leaves(values: Values) -> Values:
    """The values as leaves of a new graph."""
    return {name: value.detach().requires_grad_() for name, value in values.items()}


def _merged(several: list[FactoredGradient]) -> FactoredGradient:
    """The gradient of a parameter that was used several times: gradients are added before norms are taken."""
    first, *others = several
    return Written(sum((other.write() for other in others), first.write())) if others else first


@contextmanager
def draws_nothing(device: torch.device, what: str = "a module") -> Iterator[None]:
    """A context that refuses random draws of the code itself: they are not the streams' and differ between passes."""
    before = _generators(device)
    yield
    if before != _generators(device):
        kinds = "use nn.Dropout, or the uniforms of a transform"
        raise ValueError(f"Expected {what} that draws no random numbers of its own, which no run can repeat: {kinds}.")


def _generators(device: torch.device) -> list[bytes]:
    """The states of the global random generators of torch, numpy and Python."""
    states = [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]
    others = np.random.get_state(legacy=False), random.getstate()
    return [*(state.numpy().tobytes() for state in states), *map(pickle.dumps, others)]
