"""A pretend CUDA device for machines without a GPU: its tensors report cuda:0 and compute on the CPU.

Inside `with PretendCuda() as device:` the usual calls (`device="cuda"`, `.to`, `.cuda`, autograd, `torch.func`) work.
Every operation runs on an inner CPU tensor. Operations that CUDA refuses are refused with CUDA's message. Operations
with other results on CUDA are computed in its way where this is known to the bit (square roots, division by a host
number), and changed by one ulp where it is not (exponentials, logarithms, sines). The device counts what determines the
speed of a small step on a GPU: kernel launches (a copy is one), waits of the host, bytes read and written, and the line
of the package that caused each.

To C++ the tensors are on meta:7, which avoids autograd's CUDA guards; to Python they are on cuda:0. The alternatives do
not work: FakeTensorMode computes no numbers, so that `bool(tensor)` fails, and it aborts in a backward pass of cuda
tensors without CUDA; torch_openreg is C++ outside the wheel, and does not refuse mixed devices. This device cannot show
the order of sums in cuBLAS, cuDNN and atomics, time, streams, memory, or the launches of a kernel library, which are
guessed.
"""

import contextlib
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

import dpnotes
from dpnotes.problems import closed, passes
from dpnotes.random import draws, reference
from dpnotes.random.draws import Backend
from dpnotes.util import checks

CUDA, HIDDEN, CPU = torch.device("cuda", 0), torch.device("meta", 7), torch.device("cpu")
_aten = torch.ops.aten


def _packets(names: str) -> set[Any]:
    return {getattr(_aten, name) for name in names.split()}


_MOVES = _packets("copy_ _to_copy")
_INDEXES = _packets("index index_put index_put_ _index_put_impl_ _unsafe_index")
_SCALARS = _packets("where masked_fill masked_fill_ index_fill index_fill_ full_like fill fill_ lerp lerp_")
_DIVISIONS, _ROOTS = _packets("div div_"), _packets("sqrt sqrt_")
_ROUGH = _packets("exp exp_ expm1 log log_ log1p sin cos tanh sigmoid erf erfinv")
_WAITS = _packets(  # the host reads a value or a size; cuSOLVER calls wait for their info
    "_local_scalar_dense nonzero masked_select equal unique_dim _unique2 unique_consecutive bincount _linalg_eigh "
    "_linalg_svd linalg_eig linalg_cholesky_ex linalg_lu_factor_ex _linalg_solve_ex linalg_inv_ex repeat_interleave"
)
_LAUNCHES = dict.fromkeys(_packets("sort topk nonzero convolution_backward native_group_norm_backward unique_dim"), 4)
_LAUNCHES |= dict.fromkeys(_packets("native_group_norm native_batch_norm_backward masked_scatter_"), 2)
_LAUNCHES |= dict.fromkeys(
    _packets("empty empty_like empty_strided new_empty new_empty_strided lift_fresh detach is_pinned set_"), 0
)
_LAUNCHES[_aten._unsafe_view] = 0  # a view that is not tagged as one
_ATOMIC = _packets(  # sums in an order that varies between runs; convolutions unless cudnn.deterministic is set
    "index_add index_add_ scatter_add scatter_add_ _adaptive_avg_pool2d_backward convolution_backward"
)
_IN_BFLOAT16 = "linear conv2d matmul __matmul__ bmm mm addmm baddbmm scaled_dot_product_attention".split()
_IN_FLOAT32 = "cross_entropy nll_loss log_softmax softmax layer_norm group_norm norm vector_norm pow exp log".split()


class PretendTensor(Tensor):
    """A CPU tensor, `inner`, that reports to be on cuda:0."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "PretendTensor":
        shape: dict[str, Any] = {"strides": inner.stride(), "storage_offset": inner.storage_offset()}
        shape |= {"dtype": inner.dtype, "device": HIDDEN}
        made = Tensor._make_wrapper_subclass(cls, inner.size(), **shape)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    def __repr__(self, **_: Any) -> str:
        return f"{self.inner.detach()!r:.300} (pretends {CUDA})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.inner.__reduce_ex__(protocol)  # stored as if loaded with map_location="cpu"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if PretendCuda.current is None:
            raise RuntimeError(f"{func}: a pretend tensor was used outside of its PretendCuda.")
        return PretendCuda.current.__torch_dispatch__(func, types, args, kwargs)


def looking(mode: Any) -> Any:
    """Register a mode as allowed around a pass, because it changes and keeps nothing."""
    passes.ONLY_LOOK.add(mode)
    return mode


@looking
class PretendCuda(TorchDispatchMode):
    """The device while its context lasts, with counts since `reset`.

    `dtypes` are the types of the computed tensors. `places` gives the innermost line below `folder` and the operation
    of each launch, wait, atomic sum and division by a host number (which is a product here). Without `low_precision`,
    autocast has no effect, so that numbers can be compared.
    """

    current: "PretendCuda | None" = None

    def __init__(self, folder: str | Path = Path(dpnotes.__file__).parent, low_precision: bool = True) -> None:
        super().__init__()
        self.folder, self.low_precision, self.autocast = str(folder), low_precision, None
        self.reset()

    def reset(self) -> None:
        """Count from 0."""
        self.launches = self.waits = self.bytes = 0
        self.dtypes: set[torch.dtype] = set()
        self.places: dict[str, Counter[str]] = {kind: Counter() for kind in ("launch", "wait", "atomic", "product")}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on the inner tensors, after the checks that CUDA makes."""
        kwargs, packet = kwargs or {}, func.overloadpacket
        if PretendTensor not in types and kwargs.get("device") != HIDDEN:
            return func(*args, **kwargs)
        leaves = _leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        pretend = [t for t in tensors if isinstance(t, PretendTensor)]
        asked = [leaf for leaf in leaves if isinstance(leaf, torch.device)]
        here = asked[-1] == HIDDEN if asked else bool(pretend)
        if packet is _aten.copy_:
            here = isinstance(args[0], PretendTensor)
        _refuse(func, args, kwargs, tensors)
        inner, named = _mapped(_on_cpu, args), _mapped(_on_cpu, kwargs)
        with torch._C.DisableTorchFunction():
            out = _compute(func, inner, named, len(args) > 1 and not isinstance(args[1], PretendTensor))
        if torch.Tag.inplace_view in func.tags:
            with no_dispatch():
                func(*args, **kwargs)  # squeeze_ and similar, on the outer shape
        if any(t.inner.size() != t.size() or t.inner.stride() != t.stride() for t in pretend):
            raise NotImplementedError(f"{func} changed the shape of a pretend tensor in place.")
        self._count(func, args, kwargs, tensors, out, packet in _MOVES and (len(pretend) != len(tensors) or not here))
        if not here:
            return out
        known = {id(t.inner): t for t in pretend}  # in place: the input object is returned

        def outside(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            return known[id(leaf)] if id(leaf) in known else PretendTensor(leaf)

        return _mapped(outside, out)

    def _count(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor], out: Any, crossing: bool) -> None:
        packet, moved = func.overloadpacket, int(crossing)
        masked = packet in _INDEXES and any(isinstance(i, Tensor) and i.dtype == torch.bool for i in args[1])
        if masked and packet is not _aten.index and args[2].numel() == 1:
            masked = False  # computed as masked_fill_
        if packet in _INDEXES:  # an index on the host is moved first
            moved += sum(isinstance(i, Tensor) and not isinstance(i, PretendTensor) for i in args[1])
        reads = packet in _WAITS and kwargs.get("output_size") is None
        waits = int(reads or masked) + moved * (not kwargs.get("non_blocking", False))
        view = func.is_view or torch.Tag.inplace_view in func.tags
        results = [leaf for leaf in _leaves(out) if isinstance(leaf, Tensor)]
        empty = bool(results) and not any(t.numel() for t in results)
        launches = 0 if view or (empty and not waits) else _LAUNCHES.get(packet, 1) + 4 * masked + moved - crossing
        if not launches and not waits:
            return
        frame: Any = sys._getframe(2)
        while frame and not frame.f_code.co_filename.startswith(self.folder):
            frame = frame.f_back
        file = frame.f_code.co_filename[len(self.folder) :].lstrip("/") if frame else ""
        place = f"{file}:{frame.f_lineno}" if frame else "elsewhere"
        self.launches, self.waits = self.launches + launches, self.waits + waits
        product = packet in _DIVISIONS and not isinstance(args[1], PretendTensor)
        counted = {"launch": launches, "wait": waits, "atomic": packet in _ATOMIC, "product": product}
        for kind, number in counted.items():
            if number:
                self.places[kind][f"{place} {func}"] += number
        touched = tensors + results
        self.bytes += sum(t.numel() * t.element_size() for t in touched)
        self.dtypes |= {t.dtype for t in touched}

    def __enter__(self) -> "PretendCuda":
        if PretendCuda.current is not None:
            raise RuntimeError("Expected no PretendCuda inside another.")
        self._stack, python = contextlib.ExitStack(), _Python(self)
        run_backward = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

        def backward(*args: Any, **kwargs: Any) -> Any:
            with python:  # hooks are user code again
                return run_backward(*args, **kwargs)

        answers: dict[str, Any] = dict.fromkeys(("synchronize", "empty_cache", "reset_peak_memory_stats"))
        answers |= {"is_available": True, "is_bf16_supported": True, "device_count": 1, "mem_get_info": (2**33, 2**34)}
        answers |= {"current_device": 0, "memory_allocated": 0, "max_memory_allocated": 0}
        answers |= {"get_device_name": "a pretend GPU", "get_rng_state": torch.zeros(0)}
        for name, answer in answers.items():
            self._stack.enter_context(mock.patch.object(torch.cuda, name, lambda *_, answer=answer, **__: answer))
        self._stack.enter_context(mock.patch.object(draws, "backend", _without_compiler(draws.backend)))
        self._stack.enter_context(mock.patch.object(torch.autograd, "_engine_run_backward", backward))
        self._stack.enter_context(mock.patch.object(torch, "autocast", self._autocast(torch.autocast)))
        self._stack.enter_context(python)
        PretendCuda.current = self
        self._checks = checks.settled()
        self._checks.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        try:
            self._checks.__exit__(*error)  # this device cannot be waited for afterwards
        finally:
            super().__exit__(*error)
            PretendCuda.current = None
            self._stack.close()

    def _autocast(self, real: Any) -> Any:
        @contextlib.contextmanager
        def autocast(device_type: str, dtype: torch.dtype = torch.float16, enabled: bool = True, **how: Any) -> Any:
            before = self.autocast
            if device_type == "cuda" and self.low_precision:
                self.autocast = dtype if enabled else None
            try:
                with real("cpu", dtype=torch.bfloat16, enabled=enabled and device_type == "cpu", **how):
                    yield
            finally:
                self.autocast = before

        return autocast


@looking
class _Python(TorchFunctionMode):
    """A mode for the Python calls that never reach torch's dispatcher."""

    def __init__(self, device: PretendCuda) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if args and _pretends(args[0]):
            if name == "__get__":
                answers = {"device": CUDA, "is_cuda": True, "is_meta": False, "is_cpu": False}
                if func.__self__.__name__ in answers:
                    return answers[func.__self__.__name__]
            elif name in ("numpy", "__array__"):
                raise TypeError(f"can't convert {CUDA} device type tensor to numpy. Use Tensor.cpu() first.")
            elif name == "tolist":
                return args[0].to(CPU).tolist()
            elif name == "get_device":
                return 0
            elif name == "new_tensor":
                func, args, kwargs = torch.tensor, args[1:], {"dtype": args[0].dtype, "device": HIDDEN} | kwargs
            elif name in ("__getitem__", "__setitem__"):  # a list as an index is created on the host, then moved
                index = args[1] if isinstance(args[1], tuple) else (args[1],)
                index = tuple(torch.tensor(i).to(HIDDEN) if isinstance(i, list) else i for i in index)
                args = (args[0], index if isinstance(args[1], tuple) else index[0], *args[2:])
        if name == "pin_memory":
            return args[0]
        if name == "cuda":
            return args[0].to(HIDDEN)
        if name in ("to", "type") or "device" in kwargs:
            args, kwargs = _mapped(_hidden, args), _mapped(_hidden, kwargs)
        if func in (torch.tensor, torch.as_tensor, torch.asarray):  # created on the host, then moved
            target = kwargs.pop("device", None)
            made = func(*args, **kwargs)
            return made if target is None else made.to(target)
        if self.device.autocast is not None and name in (*_IN_BFLOAT16, *_IN_FLOAT32):
            dtype = self.device.autocast if name in _IN_BFLOAT16 else torch.float32
            low = (torch.float32, torch.bfloat16, torch.float16)

            def lowered(leaf: Any) -> Any:
                return leaf.to(dtype) if _pretends(leaf) and leaf.dtype in low else leaf

            args, kwargs = _mapped(lowered, args), _mapped(lowered, kwargs)
        return func(*args, **kwargs)


def _without_compiler(backend: Callable[[torch.device], Backend]) -> Callable[[torch.device], Backend]:
    """Return the backend of draws for a pretend GPU: the reference, because Triton needs a driver to compile."""
    here = Backend(reference, False, "no fused kernel for a pretend GPU")
    return lambda device: here if device.type == "cuda" else backend(device)


def _leaves(value: Any) -> list[Any]:
    """Return the leaves of an operation's tuples, lists and dicts; torch's own function takes most of a step's time."""
    if type(value) in (tuple, list):
        return [leaf for part in value for leaf in _leaves(part)]
    return [leaf for part in value.values() for leaf in _leaves(part)] if type(value) is dict else [value]


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Return the same tuples, lists and dicts with changed leaves."""
    if type(value) in (tuple, list):
        return type(value)([_mapped(change, part) for part in value])
    return {name: _mapped(change, part) for name, part in value.items()} if type(value) is dict else change(value)


def _on_cpu(leaf: Any) -> Any:
    return leaf.inner if type(leaf) is PretendTensor else CPU if type(leaf) is torch.device else leaf


def _pretends(value: Any) -> bool:
    """Return whether this is a pretend tensor, or one example of a pretend tensor under vmap."""
    return isinstance(value, Tensor) and value.device == HIDDEN


def _hidden(leaf: Any) -> Any:
    said = leaf.type if isinstance(leaf, torch.device) else leaf.split(":")[0] if isinstance(leaf, str) else None
    return HIDDEN if said == "cuda" else leaf


def _compute(func: Any, args: Any, kwargs: Any, by_number: bool) -> Any:
    """Compute as CUDA does; `by_number`: the second argument is a host number; CUDA multiplies by its reciprocal."""
    packet = func.overloadpacket
    if func is _aten.bmm.dtype:  # only CUDA has this operation
        return torch.bmm(args[0].to(args[2]), args[1].to(args[2]))
    if packet in _ROOTS and args[0].dtype in (torch.float32, torch.float64):  # the CPU's are off by an ulp at times
        with np.errstate(invalid="ignore"):
            root = torch.from_numpy(np.asarray(np.sqrt(args[0].numpy())))
        return func(*args, **kwargs).copy_(root)
    if by_number and packet in _DIVISIONS and not kwargs.get("rounding_mode"):
        kind = torch.result_type(args[0], args[1])
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        product = args[0] * torch.as_tensor(args[1], dtype=torch.promote_types(kind, torch.float32)).reciprocal()
        return func(*args, **kwargs).copy_(product)
    if packet is _aten.convolution_backward and args[2].shape[2:] == (1, 1):
        # oneDNN's kernel for strided channels-last images with fewer than 8 channels writes past the end of an array.
        images, *others = func(*(leaf.contiguous() if isinstance(leaf, Tensor) else leaf for leaf in args), **kwargs)
        return images if images is None else torch.empty_like(args[1]).copy_(images), *others
    out = func(*args, **kwargs)
    if packet in _ROUGH and out.dtype in (torch.float32, torch.float64):  # exact where the result is 0 or 1
        out.copy_(torch.where((out == 0) | (out.abs() == 1), out, out.nextafter(2 * out)))
    return out


def _refuse(func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> None:
    """Raise an error as CUDA would: for tensors on two devices, or a generator of another device."""
    packet = func.overloadpacket
    if kwargs.get("generator") is not None:
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if packet in _MOVES:
        return
    if packet in _INDEXES:  # indices may be on the host, but not the other way round
        if not isinstance(args[0], PretendTensor) and any(isinstance(i, PretendTensor) for i in args[1]):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        tensors = [t for t in (args[0], *args[2:3]) if isinstance(t, Tensor)]
    mixes = torch.Tag.pointwise in func.tags or packet in _INDEXES | _SCALARS  # a 0-d host tensor is allowed
    here = {isinstance(t, PretendTensor) for t in tensors if t.dim() or isinstance(t, PretendTensor) or not mixes}
    out = [t for t in (*args[: func._schema.is_mutable], kwargs.get("out")) if isinstance(t, Tensor)]
    if len(here) > 1 or (True in here and not all(isinstance(t, PretendTensor) for t in out)):
        raise RuntimeError(f"{func}: Expected all tensors to be on the same device, found {CUDA} and cpu!")


closed.TENSORS.add(PretendTensor)
