"""Per-example gradients of a layer's parameters, kept as factors: norms and weighted sums without materialising.

The gradient of a layer that multiplies by a matrix is a sum over positions (of a sequence, of an image) of outer
products: the layer's input, times the derivative of the example's loss with respect to its output, its *error*. So

    |sum_t e_t a_t'|^2 = sum_{t, s} <a_t, a_s> <e_t, e_s>

(Goodfellow, arXiv:1510.01799v2, section 4, for one position; Li, Tramer, Liang and Hashimoto, "Large language models
can be strong differentially private learners", arXiv:2110.05679, for more). For `T` positions, `d` inputs and `p`
outputs that takes `T^2 (d + p)` multiplications, and materialising the gradient takes `T d p`. Each layer uses the
cheaper way, as Bu, Mao and Xu ("Scalable and efficient training of large convolutional neural networks with
differential privacy", arXiv:2205.10683) do by memory. Inner products of patches of an image are sums of inner products
of pixels, which takes fewer multiplications than the patches themselves, by up to the size of the kernel.

A weighted sum is one contraction of the inputs with the rescaled errors ("book-keeping": Bu, Wang, Zha and Karypis,
"Differentially private optimization on large model at small cost", arXiv:2210.00038): no second backward pass.
Products of bfloat16 factors are summed in float32, and rescaled errors are float32.

Where terms cancel, their rounding errors remain: in the inner products, which could hide a gradient of any length, and
in the weighted sum, where rescaled and rounded terms no longer cancel. Both errors are small relative to the terms'
lengths, not to the norm. So each squared norm is increased by `_ROOM` times the square of the sum of these lengths, or
of its bound. The norm grows by a part in 200,000 if nothing cancels, by a part in 200 if a thirtieth of the lengths is
left.

If the square of a factor under- or overflows, the norm is replaced by its upper bound: the product of the factors'
lengths (Cauchy and Schwarz).
"""
# ruff: noqa: D102 (what the methods do stands in the docstring of `FactoredGradient`)

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from dpnotes.util.per_run import part_of
from dpnotes.util.precision import full_precision, row_norms

# The most numbers that a norm materialises at once: what fits a CPU's cache, or fills a GPU.
_BLOCK = {"cpu": 2**20, "cuda": 2**26}
# In float32: ten times the largest rounding error of the inner products that was observed.
_ROOM = 1e-5
# An example with a longer factor gets an infinite norm, hence weight 0. The other factor times a weight may be
# subnormal and rounded up; that error times this factor is below 1e-25.
_LONGEST = 1e20
# The most terms of an inner product that are summed at once in float32; parts of this length are then added. At worst 4
# * 256 / 8 roundings.
_AT_ONCE = 256
# Materialised gradients of at most this size are handled together, in fewer and larger operations.
_SMALL = 2**12
_ZERO = torch.zeros(())  # on the host: a kernel takes it as an argument, while a GPU's tensor would be created first


class Squares(NamedTuple):
    """Computed squared norms, `(batch,)`, and two lengths whose product is an upper bound on the norm."""

    squared_norms: Tensor
    input_lengths: Tensor
    error_lengths: Tensor


class FactoredGradient(Protocol):
    """The contribution of one call of a layer to the per-example gradients of one parameter.

    The norms of `squares` also bound an example's contribution to a weighted sum in floating point; `weighted_sum` has
    the parameter's shape; `write` materialises, `(batch, *shape)`. All results are at least float32.
    """

    def squares(self) -> Squares: ...
    def weighted_sum(self, weights: Tensor) -> Tensor: ...
    def write(self) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Written:
    """Materialised per-example gradients, `(batch, *shape)`."""

    each: Tensor

    def squares(self) -> Squares:
        lengths = row_norms(self._rows())
        return Squares(lengths.square(), torch.ones_like(lengths), lengths)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return (weights.to(self.each) @ self._rows()).view(self.each.shape[1:])

    def _rows(self) -> Tensor:
        return self.each.reshape(len(self.each), -1)  # also for a parameter without axes

    def write(self) -> Tensor:
        return self.each


@dataclass(frozen=True, eq=False)
class Outer:
    """Gradients of the matrix of `torch.nn.Linear`: sums over positions of outer products.

    Args:
      inputs: `(batch, positions, d)`.
      errors: `(batch, positions, p)`.
    """

    inputs: Tensor
    errors: Tensor

    def costs(self) -> tuple[int, int, int, int]:
        """Costs for one example: multiplications by inner products, and materialised; sizes of gradient and factors."""
        (positions, d), p = self.inputs.shape[1:], self.errors.shape[2]
        return positions**2 * (d + p), positions * d * p, d * p, positions * (d + p)

    def squares(self) -> Squares:
        positions, lengths = self.inputs.shape[1], (_lengths(self.inputs), _lengths(self.errors))
        if positions == 1:
            return Squares(lengths[0].square().mul_(lengths[1].square()), *lengths)
        found = [
            _sums_of_products(_inner_products(self.inputs[block].mT), _inner_products(self.errors[block].mT))
            for block in _blocks(self.inputs, 2 * positions**2)
        ]
        return _with_room(_joined(found), *lengths)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        errors = _rescaled(self.errors, weights)
        return torch.mm(errors.flatten(0, 1).mT, self.inputs.flatten(0, 1).to(errors.dtype))

    def write(self) -> Tensor:
        return _product(self.errors.mT, self.inputs)


@dataclass(frozen=True, eq=False)
class Patches:
    """Gradients of the kernel of `torch.nn.Conv2d`, of any groups: sums over positions of outer products with patches.

    Args:
      inputs: `(batch, channels, height, width)`.
      errors: `(batch, output channels, height, width)`, of the output.
      layer: the convolution; only its shape is read.
    """

    inputs: Tensor
    errors: Tensor
    layer: nn.Conv2d

    def costs(self) -> tuple[int, int, int, int]:
        """The costs of an example, as in `Outer.costs`."""
        groups, kernel = self.layer.groups, math.prod(self.layer.kernel_size)
        c, p = self.inputs.shape[1] // groups, self.errors.shape[1] // groups
        pixels, positions = self.inputs[0, 0].numel(), self.errors[0, 0].numel()
        met = math.prod(len(_residues(self.layer, axis)) / self.layer.stride[axis] ** 2 for axis in (0, 1))
        by_inner_products = groups * (int(met * pixels**2) * c + positions**2 * (p + sum(self.layer.kernel_size)))
        size = groups * c * kernel * p
        return by_inner_products, positions * size, size, groups * (pixels * c + positions * p)

    def squares(self) -> Squares:
        by_inner_products, written_out, size, _ = self.costs()
        size += math.prod(self.layer.kernel_size) * self.inputs[0].numel()
        if written_out < by_inner_products:
            written = [_lengths(part_of(self, block).write()).square_() for block in _blocks(self.errors, size)]
            return self._with_room(_joined(written))
        groups = self.layer.groups
        pixels, positions = self.inputs[0, 0].numel(), self.errors[0, 0].numel()
        found = [
            _sums_of_products(
                self._patch_products(self.inputs[block].unflatten(1, (groups, -1)).flatten(0, 1)),
                _inner_products(self.errors[block].unflatten(1, (groups, -1)).flatten(0, 1).flatten(2)),
            )
            for block in _blocks(self.inputs, groups * (pixels**2 + 2 * positions**2))
        ]
        squares = _joined(found)
        return self._with_room(squares if groups == 1 else squares.view(-1, groups).sum(1))

    def _with_room(self, squares: Tensor) -> Squares:
        """Call the function `_with_room` with the number of patches that share a pixel."""
        layer, times = self.layer, 1
        for size, stride, dilation in zip(layer.kernel_size, layer.stride, layer.dilation, strict=True):
            times *= -(-size * math.gcd(stride, dilation) // stride)
        return _with_room(squares, _lengths(self.inputs), _lengths(self.errors), times)

    def _patch_products(self, images: Tensor) -> Tensor:
        """The inner products of all pairs of patches of each image, `(batch, positions, positions)`.

        Patches at t and s have the product sum_{i, j} <pixel t + (i, j), pixel s + (i, j)>: a sum along i, then one
        along j. Strides of more than one pixel split the image into parts, and only pixels of one part ever meet.
        """
        rows, columns = self.errors.shape[2:]
        total = images.new_zeros(len(images), rows, columns, rows, columns, dtype=_wide(images))
        for y, down in _residues(self.layer, 0).items():
            for x, right in _residues(self.layer, 1).items():
                part = images[:, :, y :: self.layer.stride[0], x :: self.layer.stride[1]]
                height, width = part.shape[2:]
                pixels = _inner_products(part.flatten(2)).view(-1, height, width, height, width)
                along = pixels.new_zeros(len(images), rows, width, rows, width)
                for shift in down:
                    to, of = _overlap(shift, rows, height)
                    along[:, to, :, to].add_(pixels[:, of, :, of])  # `+=` would write the sum back a second time
                for shift in right:
                    to, of = _overlap(shift, columns, width)
                    total[:, :, to, :, to].add_(along[:, :, of, :, of])
        return total.view(-1, rows * columns, rows * columns)

    def _padding(self) -> tuple[int, int]:
        padding = self.layer.padding
        assert isinstance(padding, tuple)
        return padding[0], padding[1]

    def weighted_sum(self, weights: Tensor) -> Tensor:
        layer, errors = self.layer, _rescaled(self.errors, weights)
        shape = layer.stride, self._padding(), layer.dilation, layer.groups
        return conv2d_weight(self.inputs.to(errors.dtype), layer.weight.shape, errors, *shape)  # type: ignore[arg-type]

    def write(self) -> Tensor:
        layer, groups = self.layer, self.layer.groups
        images = self.inputs.unflatten(1, (groups, -1)).flatten(0, 1)
        patches = nn.functional.unfold(images, layer.kernel_size, layer.dilation, self._padding(), layer.stride)
        errors = self.errors.unflatten(1, (groups, -1)).flatten(0, 1).flatten(2)
        return _product(errors, patches.mT).view(len(self.inputs), *layer.weight.shape)


@dataclass(frozen=True, eq=False)
class Lookups:
    """Gradients of the table of `torch.nn.Embedding`: errors of the rows that were looked up.

    Args:
      indices: `(batch, positions)`.
      errors: `(batch, positions, width)`; zeros where the table is not trained (its padding row).
      num_rows: the number of rows of the table.
    """

    indices: Tensor
    errors: Tensor
    num_rows: int

    def squares(self) -> Squares:
        positions, found = self.indices.shape[1], []
        for block in _blocks(self.indices, 2 * positions**2):
            alike = (self.indices[block, :, None] == self.indices[block, None]).to(_wide(self.errors))
            found.append(_sums_of_products(alike, _inner_products(self.errors[block].mT)))
        lengths = _lengths(self.errors)
        return _with_room(_joined(found), torch.ones_like(lengths), lengths, positions)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        return _table(_rescaled(self.errors, weights), self.indices, self.num_rows)

    def write(self) -> Tensor:
        batch = len(self.errors)
        # The examples' tables are stacked, so that each example has its own rows.
        indices = self.indices + self.num_rows * torch.arange(batch, device=self.indices.device)[:, None]
        tables = _table(self.errors.to(_wide(self.errors)), indices, batch * self.num_rows)
        return tables.unflatten(0, (batch, self.num_rows))


class Factors:
    """The per-example gradients of all parameters of a module, by name.

    Small materialised gradients stand side by side in one matrix, so that one operation handles all of them.
    """

    def __init__(self, found: Mapping[str, FactoredGradient]) -> None:
        small = {n: t.each for n, t in found.items() if isinstance(t, Written) and t.each[0].numel() <= _SMALL}
        self.large = {name: gradient for name, gradient in found.items() if name not in small}
        self.shapes = {name: each.shape[1:] for name, each in small.items()}
        self.small = Written(torch.cat([each.reshape(len(each), -1) for each in small.values()], 1)) if small else None

    def norms(self) -> Tensor:
        """The norms of the per-example gradients of all these parameters together, `(batch,)`."""
        if not self.large and self.small is None:
            raise ValueError("Expected a loss that depends on a trainable parameter.")
        return norms(gradient for gradient in (*self.large.values(), self.small) if gradient is not None)

    @full_precision()
    def weighted_sums(self, weights: Tensor) -> dict[str, Tensor]:
        """Each parameter's weighted sum; an example of weight 0 contributes nothing, whatever its gradient."""
        absent = weights == 0

        def summed(gradient: FactoredGradient) -> Tensor:
            # On a GPU, reading whether a weight is 0 would wait for all queued work.
            return (gradient if complete else _without(gradient, absent)).weighted_sum(weights)

        complete = weights.is_cpu and not bool(absent.any())
        found = {name: summed(gradient) for name, gradient in self.large.items()}
        if self.small is not None:
            parts = summed(self.small).split([shape.numel() for shape in self.shapes.values()])
            found |= {name: part.view(self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}
        return found


@full_precision()
def norms(gradients: Iterable[FactoredGradient]) -> Tensor:
    """The norms of the per-example gradients of several parameters together, `(batch,)`.

    Example:
      >>> norms([Outer(torch.tensor([[[3e19, 4e19]]]), torch.tensor([[[2e-24]]]))])  # 4e-48 is less than any float32
      tensor([0.0001])
    """
    computed, inputs, errors = (torch.stack(each) for each in zip(*(g.squares() for g in gradients), strict=True))
    limits = torch.finfo(computed.dtype)
    low, high = limits.tiny ** (1 / 3), limits.tiny ** (-1 / 3)
    bounds = inputs.double() * errors
    each = torch.stack([inputs, errors, bounds])
    lengths = each.amax(0)
    # Where no square can under- or overflow, the computed squares are kept.
    kept = (each.amin(0) > low) & (lengths < high)
    squares = torch.where(kept, computed, bounds.square()).masked_fill_(lengths > _LONGEST, torch.inf)
    total = squares.to(computed.dtype).sum(0)
    kept = (total > limits.tiny / limits.eps) & (total < torch.inf)
    # The root in the sums' own type: on a CPU it differs from the rounded float64 root, and stored results have its
    # bits.
    return torch.where(kept, total.sqrt(), squares.sum(0).sqrt_().to(computed.dtype))


_BATCH_NORMS = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d
_LAYERS = nn.Linear, nn.Conv2d, nn.GroupNorm, nn.LayerNorm, nn.Embedding, *_BATCH_NORMS


def supported(layer: nn.Module) -> bool:
    """Return whether `factored` supports a layer.

    Example:
      >>> supported(nn.Conv2d(3, 8, 3)), supported(nn.Conv2d(3, 8, 3, padding="same")), supported(nn.Bilinear(1, 1, 1))
      (True, False, False)
    """
    if isinstance(layer, nn.Conv2d) and (layer.padding_mode != "zeros" or isinstance(layer.padding, str)):
        return False
    if isinstance(layer, nn.Embedding) and (layer.sparse or layer.scale_grad_by_freq or layer.max_norm is not None):
        return False
    return type(layer) in _LAYERS and "forward" not in vars(layer)  # a subclass may compute something else


def factored(layer: nn.Module, inputs: Tensor, errors: Tensor) -> dict[str, FactoredGradient]:
    """The gradients of a layer's trained parameters, by name, from one call; batch normalisation has fixed statistics.

    Args:
      layer: one that is `supported`.
      inputs: the layer's inputs, `(batch, ...)`.
      errors: derivatives of the examples' losses with respect to the layer's outputs, `(batch, ...)`.

    Example:
      >>> layer = nn.Linear(3, 2)
      >>> found = factored(layer, 2 * torch.ones(2, 3), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
      >>> norms([found["bias"]]), found["bias"].weighted_sum(torch.ones(2))
      (tensor([5., 0.]), tensor([3., 4.]))
    """
    if isinstance(layer, nn.Embedding):
        indices, errors = inputs.reshape(len(inputs), -1), errors.reshape(len(errors), -1, errors.shape[-1])
        if layer.padding_idx is not None:
            errors = errors.masked_fill((indices == layer.padding_idx)[..., None], 0)
        return {"weight": Lookups(indices, errors, layer.num_embeddings)}
    trained = {name for name, parameter in layer.named_parameters(recurse=False) if parameter.requires_grad}
    found: dict[str, FactoredGradient] = {}
    if isinstance(layer, nn.Linear | nn.Conv2d):
        if isinstance(layer, nn.Linear):
            inputs, errors = (tensor.reshape(len(tensor), -1, tensor.shape[-1]) for tensor in (inputs, errors))
        if "bias" in trained:
            positions = (1,) if isinstance(layer, nn.Linear) else (2, 3)
            found["bias"] = Written(errors.sum(positions, dtype=_wide(errors)))
        if "weight" in trained:
            inputs = inputs.to(errors.dtype)  # as autocast did in the forward pass
            factors = Outer(inputs, errors) if isinstance(layer, nn.Linear) else Patches(inputs, errors, layer)
            by_inner_products, written, size, numbers = factors.costs()
            # Materialised where that is less work for the norm and takes no more memory than the factors.
            found["weight"] = Written(factors.write()) if written < by_inner_products and size <= numbers else factors
        return found
    wide = _wide(errors)
    inputs, errors = inputs.to(wide), errors.to(wide)
    if isinstance(layer, nn.LayerNorm):
        normalised = nn.functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
        between = tuple(range(1, errors.dim() - len(layer.normalized_shape)))
    elif isinstance(layer, nn.GroupNorm):
        normalised = nn.functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
        between = tuple(range(2, errors.dim()))
    else:
        assert isinstance(layer, _BATCH_NORMS)
        normalised = nn.functional.batch_norm(inputs, layer.running_mean, layer.running_var, eps=layer.eps)
        between = tuple(range(2, errors.dim()))
    for name, each in (("weight", normalised.mul_(errors)), ("bias", errors)):
        if name in trained:
            found[name] = Written(each.sum(between) if between else each)
    return found


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _rescaled(errors: Tensor, weights: Tensor) -> Tensor:
    """The errors of each example times its weight."""
    return errors.to(_wide(errors)) * weights.view(-1, *[1] * (errors.dim() - 1))


def _without(gradient: Any, absent: Tensor) -> FactoredGradient:
    """The gradient with the factors of absent examples set to 0: 0 times an infinite number would not be 0."""
    factors = {name: t for name, t in vars(gradient).items() if isinstance(t, Tensor) and t.is_floating_point()}
    zeroed = {
        name: torch.where(absent.view(-1, *[1] * (factor.dim() - 1)), _ZERO, factor) for name, factor in factors.items()
    }
    return replace(gradient, **zeroed)


def _table(errors: Tensor, indices: Tensor, num_rows: int) -> Tensor:
    """The sum of the errors of each table row, in a fixed order, which `index_add_` on a GPU does not keep."""
    return torch.ops.aten.embedding_dense_backward(errors, indices, num_rows, -1, False)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """The batched matrix product of two factors, summed in float32 at least."""
    if a.dtype == _wide(a):
        return torch.bmm(a, b)
    if a.is_cuda:
        return torch.bmm(a, b, out_dtype=torch.float32)
    return torch.bmm(a.float(), b.float())


def _inner_products(columns: Tensor) -> Tensor:
    """The inner products of the columns of each matrix, `(batch, columns, columns)`.

    Long columns are summed in parts: one sum of thousands of float32 numbers loses small terms beside a large one,
    which would exceed the margin for rounding in the norms.
    """
    first, *others = (_product(part.mT, part) for part in columns.split(_AT_ONCE, 1))
    return sum(others, first)


def _lengths(factor: Tensor) -> Tensor:
    """The norm of each example's factor."""
    return row_norms(factor.flatten(1))


def _sums_of_products(first: Tensor, second: Tensor) -> Tensor:
    """The sums of the elementwise products of two matrices of inner products, `(batch,)`; the first is overwritten."""
    return first.mul_(second).sum((1, 2))


def _with_room(squares: Tensor, input_lengths: Tensor, error_lengths: Tensor, times: int = 1) -> Squares:
    """Squared norms increased by a margin for rounding, in place.

    By Cauchy and Schwarz the square of the sum of the terms' lengths is at most the squared norm of the inputs times
    the squared norm of the errors, times the number of terms that an input is in.
    """
    room = times * _ROOM * torch.finfo(squares.dtype).eps / torch.finfo(torch.float32).eps
    most = input_lengths * error_lengths
    return Squares(squares.addcmul_(most, most, value=room), input_lengths * math.sqrt(times), error_lengths)


def _joined(blocks: list[Tensor]) -> Tensor:
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks)


def _blocks(data: Tensor, numbers: int) -> Iterator[slice]:
    """Slices of the examples into blocks that fit the device, where each example needs `numbers` numbers."""
    step = max(1, _BLOCK.get(data.device.type, _BLOCK["cpu"]) // numbers)
    for start in range(0, len(data), step):
        yield slice(start, start + step)


def _residues(layer: nn.Conv2d, axis: int) -> dict[int, list[int]]:
    """The offsets of a kernel's elements along an axis: shifts in whole strides, by remainder modulo the stride."""
    padding, stride, dilation = layer.padding[axis], layer.stride[axis], layer.dilation[axis]
    assert isinstance(padding, int)
    found: dict[int, list[int]] = {}
    for element in range(layer.kernel_size[axis]):
        shift, remainder = divmod(element * dilation - padding, stride)
        found.setdefault(remainder, []).append(shift)
    return found


def _overlap(shift: int, positions: int, pixels: int) -> tuple[slice, slice]:
    """The positions whose pixel, `shift` further on, is inside the image, and the slice of these pixels."""
    low, high = max(0, -shift), max(0, -shift, min(positions, pixels - shift))
    return slice(low, high), slice(low + shift, high + shift)
