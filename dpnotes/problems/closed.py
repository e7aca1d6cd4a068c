"""Code that keeps examples apart by construction: layers of torch.nn and operations of torch, and nothing else.

A module's `forward`, or a loss, is arbitrary code. It may store something of one example and use it for another, in a
list, a class, a file, or beneath torch's transforms, and no inspection can show that it never does. So this code never
receives an example. `torch.fx` runs it once, on symbols in place of its arguments, and records the layers and
operations that it applies; passes then run this list. The list may contain only operations that torch's own lists and
schemas show to be harmless: no operation writes to its arguments or reads memory beneath its tensors; random draws are
refused when they happen. In-place operations on computed values, such as `x.mul_(y)`, are replaced by their
out-of-place versions. Numbers and tensors that the code reads from elsewhere keep the values that they have while it is
traced.

The list is compared with the code on stand-ins: synthetic examples of the data's shape and type. Outputs and gradients
must agree. If there is no such list, or it differs, the code is *open*: it receives one example at a time
(`problems.passes`), and every guarantee assumes that it keeps nothing for a later one.
"""

import math
import operator
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Number
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate
from torch.nn.modules import module as nn_module
from torch.nn.modules.lazy import LazyModuleMixin
from torch.overrides import get_overridable_functions
from torch.utils._pytree import tree_leaves

from dpnotes.random.streams import Streams

_FUNCTIONS = {f for space, some in get_overridable_functions().items() if space is not nn.init for f in some}
_FUNCTIONS |= {torch.arange, torch.zeros, torch.ones, torch.full, torch.eye, torch.linspace}
_FUNCTIONS |= {nn.functional.hardswish, nn.functional.hardsigmoid, vars(torch)["_weight_norm"]}
# Python's operators and functions of numbers; `_IN_PLACE` maps in-place operators to their out-of-place versions.
_OPERATORS = {
    getattr(operator, name)
    for name in (
        "abs add and_ eq floordiv ge getitem gt inv invert le lt matmul mod mul ne neg not_ or_ pos pow sub truediv xor"
    ).split()
} | {function for function in vars(math).values() if callable(function)}
_IN_PLACE = {
    getattr(operator, f"i{name}"): getattr(operator, name)
    for name in ("add", "floordiv", "matmul", "mod", "mul", "pow", "sub", "truediv")
}
_PRIVATE = {"_weight_norm", "_threshold"}  # private operations that functions and parametrisations of torch.nn call
_METHODS = {"float", "double", "half", "bfloat16", "int", "long", "short", "bool", "size", "dim", "numel", "to", "view"}
_ATTRIBUTES = set("shape ndim dtype device T mT H mH real imag is_cuda requires_grad values indices".split())
# Operations on the memory beneath a tensor, which may still hold another example's numbers.
_BENEATH = {"as_strided", "set_data", "from_file", "resize", "empty", "empty_like", "empty_permuted", "empty_strided"}
_BENEATH |= {"new_empty", "new_empty_strided", "as_strided_copy", "as_strided_scatter"}
_PLAIN: tuple[type, ...] = (int, float, complex, bool, str, type(None), type(...))
_PLAIN += (torch.dtype, torch.device, torch.memory_format, torch.layout)

Loss = Callable[..., Tensor]  # maps parameters and one example to a loss
TENSORS: set[type] = {Tensor, nn.Parameter}  # types of tensors without code of their own


# Operations whose rule in `torch.func.vmap` lets one example's index reach another's numbers, or memory beside them.
MEET = {"index_fill", "ctc_loss"}
_OF_EVERY_MODULE = vars(nn.Module()).keys()
_OPERATIONS_FAIL = "its operations cannot be run on stand-ins for examples ({})"


class Open(ValueError):
    """The error for code that is more than known layers and operations; its message says why, and what to change."""


def closed(code: Callable[..., Any], num_arguments: int, vouched: Sequence[type[nn.Module]] = ()) -> nn.Module:
    """The layers and operations that code applies to its arguments, as a module with the same parameters.

    The module shares the parameters and the known layers of the code; it holds no copies.

    Args:
      code: a module, or a function of tensors.
      num_arguments: the number of tensors that the code takes.
      vouched: classes of layers whose author declares that they keep examples apart.

    Raises:
      Open: if the code is more than such a list.

    Example:
      >>> closed(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), 1)(torch.ones(1, 2)).shape
      torch.Size([1, 2])
      >>> closed(lambda x: x * len(x), 1)  # doctest: +ELLIPSIS
      Traceback (most recent call last):
      dpnotes.problems.closed.Open: torch.fx cannot follow it ('len' is not supported in symbolic tracing by default...
    """
    found: Any = code
    if not (isinstance(code, nn.Module) and is_known(code, tuple(vouched))):
        with or_open(
            "torch.fx cannot follow it ({}): write it in torch's operations, without branches on values or sizes"
        ):
            found = _listed(code, num_arguments, tuple(vouched))
    for name, tensor in [*found.named_parameters(), *found.named_buffers()]:
        if type(tensor) not in TENSORS:
            raise Open(f"{name} is a {type(tensor).__name__}, which brings code of its own: give it as a torch.Tensor")
    return found


def _listed(code: Any, num_arguments: int, vouched: tuple[type[nn.Module], ...]) -> fx.GraphModule:
    tracer, used, made = _Tracer(vouched), {}, set()
    graph = tracer.trace(_whole(code, num_arguments))
    for node in list(graph.nodes):
        _check(node)
        if node.op in ("call_module", "get_attr"):
            name = str(node.target)
            part = operator.attrgetter(name)(tracer.root)
            if not name.startswith("code."):  # a tensor that the code made or holds: a copy of its present value
                name, part = f"code.constant_of_code_{len(made)}", part.detach().clone()
                made.add(name.removeprefix("code."))
            node.target = name.removeprefix("code.")
            used[node.target] = part
    found = fx.GraphModule(used, graph)
    type(found).__call__ = nn.Module.__call__  # fx's own `__call__` prints errors that passes catch
    if isinstance(code, nn.Module):  # all of the module's tensors and layers, in its order and by its names
        for kind in ("_parameters", "_buffers", "_modules"):
            vars(found)[kind] = vars(code)[kind] | {k: v for k, v in vars(found)[kind].items() if k in made}
    return found


def closed_loss(
    loss: Callable[..., Tensor], dim: int, data: Sequence[Tensor]
) -> tuple[Callable[..., Tensor], str | None]:
    """The loss as a list of known operations and None, or the loss itself and the reason why it is open.

    Args:
      loss: `loss(parameters, *example) -> scalar`.
      dim: number of parameters.
      data: tensors with one row an example.

    Example:
      >>> data = [torch.eye(3)]
      >>> closed_loss(lambda x, a: x @ a, 3, data)[1], closed_loss(lambda x, a: len(a) * x[0], 3, data)[1][:24]
      (None, 'torch.fx cannot follow i')
    """
    try:
        known = closed(loss, 1 + len(data))
        compare_losses(known, loss, dim, data)
    except Open as error:
        return loss, str(error)
    return known, None


def compare_losses(known: nn.Module, loss: Loss, dim: int, data: Sequence[Tensor]) -> None:
    """Check on stand-ins that known operations give the same losses and gradients as the code.

    Raises:
      Open: if they differ.
    """
    dtype = next((tensor.dtype for tensor in data if tensor.is_floating_point()), torch.float32)
    x = Streams.of("stand-ins", ["point"]).normal("stand-ins", 0, dim)[0].to(data[0].device, dtype)
    rows = stand_ins(data)
    refuse_writes(known, x, *(row[0] for row in rows))
    together = torch.func.vmap(torch.func.grad_and_value(known), in_dims=(None, *[0] * len(data)))
    with or_open(_OPERATIONS_FAIL):
        found = together(x, *rows)
    each = torch.func.grad_and_value(loss)
    with or_open("its code cannot be run on stand-ins for examples ({})"):
        own = [each(x, *(row[k].clone() for row in rows)) for k in range(len(rows[0]))]
    if not same(found, tuple(torch.stack(part) for part in zip(*own, strict=True))):
        raise Open("its operations give other numbers than its code")


@contextmanager
def or_open(why: str) -> Iterator[None]:
    """A context that turns any error into an `Open` with the message `why`, in which {} stands for the error's line.

    Example:
      >>> with or_open("it fails ({})"):
      ...     1 / 0
      Traceback (most recent call last):
      dpnotes.problems.closed.Open: it fails (division by zero)
    """
    try:
        yield
    except Open:
        raise
    except Exception as error:  # code that receives symbols or stand-ins may raise anything
        raise Open(why.format((str(error) or type(error).__name__).splitlines()[0])) from None


def refuse_code_of_tensors(**tensors: Tensor) -> None:
    """Refuse data of a subclass of `torch.Tensor`, whose own code would see all examples.

    Raises:
      TypeError: naming them.

    Example:
      >>> refuse_code_of_tensors(inputs=torch.ones(2))
    """
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and type(tensor) not in TENSORS:
            kind = type(tensor).__name__
            how = "give what its `as_subclass(torch.Tensor)` returns"
            raise TypeError(f"Expected {name}, a {kind} with code of its own, to be a torch.Tensor: {how}.")


def stand_ins(tensors: Sequence[Tensor], count: int = 2) -> list[Tensor]:
    """Synthetic examples of the data's shape and type, `count` of them, from a fixed seed.

    Integers lie in the data's range, since they may be indices. Other numbers are in [0, 1) whatever the data are:
    these examples decide which code passes run, and that should not depend on the largest number of one example.

    Example:
      >>> [each.shape for each in stand_ins([torch.ones(9, 3), torch.zeros(9).long()])]
      [torch.Size([2, 3]), torch.Size([2])]
    """
    found = []
    for place, tensor in enumerate(tensors):
        uniform = Streams.of("stand-ins", [place]).uniform("stand-ins", 0, count * max(1, tensor[0].numel()))
        uniform = uniform[0, : count * tensor[0].numel()].view(count, *tensor.shape[1:]).to(tensor.device)
        if tensor.numel() and not (tensor.is_complex() or tensor.is_floating_point()):
            low, high = (end.double() for end in tensor.aminmax())
            uniform = (low + uniform * (high - low + 1)).floor().clamp(low, high)
        found.append(uniform.to(tensor.dtype))
    return found


def same(one: Any, other: Any) -> bool:
    """Return whether two results, tensors in any containers, agree up to rounding, as one long vector each.

    Example:
      >>> same([torch.ones(2)], [torch.ones(2) + 1e-9]), same(torch.ones(2), torch.zeros(2))
      (True, False)
    """
    pairs = [*zip(tree_leaves(one), tree_leaves(other), strict=False)]
    if len(tree_leaves(one)) != len(tree_leaves(other)) or any(a.shape != b.shape for a, b in pairs):
        return False
    first, second = (
        torch.cat([tensor.detach().double().flatten() for tensor in each]) for each in zip(*pairs, strict=True)
    )
    if not torch.equal(first.isfinite(), second.isfinite()):
        return False
    difference = torch.linalg.vector_norm((first - second).nan_to_num(0, 0, 0))
    return bool(difference <= 1e-3 * torch.linalg.vector_norm(second.nan_to_num(0, 0, 0)))


class _ReadsAlone(fx.Interpreter):
    """An interpreter of a traced list that refuses operations which change their arguments, whatever their schema."""

    def run_node(self, n: fx.Node) -> Any:
        self.extra_traceback = False  # an error is a line
        if n.op not in ("call_function", "call_method"):
            return super().run_node(n)
        given = [t for t in tree_leaves(self.fetch_args_kwargs_from_env(n)) if isinstance(t, Tensor)]
        before = [tensor.detach().clone() for tensor in given]
        found = super().run_node(n)
        if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(given, before, strict=True)):
            raise Open(f"it calls {getattr(n.target, '__name__', n.target)}, which writes to what it is given")
        return found


def refuse_writes(known: nn.Module, *arguments: Tensor) -> None:
    """Run a list of operations on these arguments, and refuse an operation that changes its arguments.

    Raises:
      Open: naming the operation.
    """
    if isinstance(known, fx.GraphModule):
        with torch.no_grad(), or_open(_OPERATIONS_FAIL):
            _ReadsAlone(known).run(*arguments)


def _whole(code: Any, num_arguments: int) -> nn.Module:
    """A module that calls code with `num_arguments` named arguments, so that `fx` makes a symbol for each."""
    named = ", ".join(f"argument_{place}" for place in range(num_arguments))
    forward = eval(f"lambda self, {named}: self.code({named})")  # the text contains no user input
    whole = type("Code", (nn.Module,), {"forward": forward})()
    whole.code = code
    return whole


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # so that a traced size may select a part of a buffer

    def __init__(self, vouched: tuple[type[nn.Module], ...]) -> None:
        super().__init__()
        self._vouched = vouched

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if is_known(m, self._vouched):
            return True
        if _has_hooks(m):
            raise Open(f"{type(m).__name__} has hooks: remove them")
        return False


def is_known(layer: nn.Module, vouched: tuple[type[nn.Module], ...]) -> bool:
    """Return whether a layer is unchanged code of torch, or of a vouched class, and stores nothing of its inputs."""
    kind, own = type(layer), vars(layer)
    home = sys.modules.get(kind.__module__)
    of_torch = kind.__module__.startswith("torch.nn.modules.") and getattr(home, kind.__name__, None) is kind
    if kind not in vouched and not of_torch:
        return False
    if "forward" in own or _has_hooks(layer) or isinstance(layer, LazyModuleMixin):
        return False
    if layer.training and own.get("track_running_stats") or own.get("max_norm") is not None:
        return False
    if isinstance(layer, nn.CTCLoss):
        return False  # as `MEET`
    tensors = {id(tensor) for tensor in (*layer._parameters.values(), *layer._buffers.values())}
    if kind not in vouched and not all(_is_plain(own[name], tensors) for name in own.keys() - _OF_EVERY_MODULE):
        return False  # such as a user-defined activation
    return all(is_known(child, vouched) for child in layer.children())


def _is_plain(part: Any, tensors: set[int]) -> bool:
    """Return whether an attribute is made of numbers, strings, torch's functions, and the layer's own parameters."""
    if isinstance(part, list | tuple):
        return all(_is_plain(each, tensors) for each in part)
    if isinstance(part, Tensor):
        return id(part) in tensors
    return isinstance(part, (Number, weakref.ref, *_PLAIN)) or (callable(part) and part in _FUNCTIONS)


def _has_hooks(layer: nn.Module) -> bool:
    hooks = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
    return any(vars(layer)[name] for name in hooks) or bool(nn_module._has_any_global_hook())


def _check(node: fx.Node) -> None:
    """Refuse a traced step that is not allowed, and replace an in-place operation by its out-of-place version."""
    name = getattr(node.target, "__name__", str(node.target))
    map_aggregate((node.args, node.kwargs), lambda part: _check_plain(name, part))
    if node.op not in ("call_function", "call_method"):
        return
    if node.target in _IN_PLACE:
        node.target = _IN_PLACE[node.target]
        return
    if node.target is getattr:
        if node.args[1] not in _ATTRIBUTES:
            raise Open(f"it reads .{node.args[1]} of a tensor: use torch's operations")
        return
    if node.target in _OPERATORS:
        return
    if node.op == "call_method" and name.endswith("_") and hasattr(Tensor, name[:-1]):
        node.target = name = name.removesuffix("_")
        written = node.args[0]
        assert isinstance(written, fx.Node)
        written.replace_all_uses_with(node, delete_user_cb=lambda user: user > node)
    allowed = node.op == "call_method" or node.target in _FUNCTIONS
    of_functional = getattr(node.target, "__module__", None) == "torch.nn.functional"
    hidden = name in _BENEATH or name.startswith("_") and name not in _PRIVATE
    if not allowed or hidden or node.kwargs.get("out") is not None:
        raise Open(f"it calls {name}, which is no operation of torch on tensors alone")
    if name in MEET:
        raise Open(f"it calls {name}, by which examples can meet where torch runs many at once")
    if name in ("embedding", "embedding_bag"):
        table = node.args[1] if len(node.args) > 1 else node.kwargs.get("weight")
        flags = any(node.kwargs.get(k) for k in ("max_norm", "sparse", "scale_grad_by_freq"))
        if not of_functional or len(node.args) > 3 or flags or getattr(table, "op", "") != "get_attr":
            raise Open(f"it calls {name} with more than a table, which is a parameter, and a padding row")
    if "batch_norm" in name or "instance_norm" in name:
        statistics = [*node.args[1:3], node.kwargs.get("running_mean"), node.kwargs.get("running_var")]
        if not of_functional or any(each is not None for each in statistics):
            raise Open(f"it calls {name} with statistics, to which it writes: use the layer of torch.nn")
    if of_functional:
        # Dropout, off when this is compared with the code, keeps what it does in place, and is refused as it writes.
        plain = node.kwargs.get("inplace") and "dropout" not in name
        node.kwargs = {**node.kwargs, **({"inplace": False} if plain else {})}
    elif name not in _METHODS and not _only_reads(name):
        raise Open(f"it calls {name}, which writes to what it is given, gives more than tensors, or is not torch's")


def _only_reads(name: str) -> bool:
    """Return whether, by its schemas, an operation maps tensors to tensors and writes to none of its arguments.

    Random operations are refused elsewhere: by passes, when a generator moves (`problems.passes`), and by vmap.
    """
    packet = getattr(torch.ops.aten, name, None)
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()] if packet else []
    plain = [each for each in schemas if each.returns and not any(a.is_out for a in each.arguments)]
    given = [each for each in plain if each.arguments and str(each.arguments[0].type) == "Tensor"]
    return bool(plain) and not (
        any(a.alias_info is not None and a.alias_info.is_write for each in plain for a in each.arguments)
        or any("Tensor" not in str(made.type) for each in given for made in each.returns)
    )


def _check_plain(name: str, part: Any) -> Any:
    if isinstance(part, slice):
        for end in (part.start, part.stop, part.step):
            _check_plain(name, end)
    elif not isinstance(part, (fx.Node, *_PLAIN)):
        raise Open(f"{name} is given a {type(part).__name__}: give it numbers and tensors")
    return part
