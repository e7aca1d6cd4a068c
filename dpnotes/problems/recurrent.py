"""Recurrent layers step by step: torch's own kernels cannot be mapped over examples, sums and products can."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Unrolled(nn.Module):
    """The same function as `nn.RNN`, `nn.GRU` or `nn.LSTM`, of the same parameters, in operations that vmap knows.

    Args:
      layer: whose parameters are shared.

    Example:
      >>> layer, x = nn.LSTM(2, 3, num_layers=2, bidirectional=True), torch.randn(5, 1, 2)
      >>> bool(torch.allclose(Unrolled(layer)(x)[0], layer(x)[0], atol=1e-6))
      True
    """

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self._parameters = layer._parameters
        self._ways = ("", "_reverse") if layer.bidirectional else ("",)
        self._mode, self._layers, self._batch_first = layer.mode, layer.num_layers, layer.batch_first
        self._sizes = layer.hidden_size, layer.proj_size or layer.hidden_size
        self._p, self.training = layer.dropout, layer.training

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """The outputs of the last layer, and the last state of each layer and direction."""
        batched = input.dim() == 3
        steps = input if batched else input[:, None]
        steps = steps.transpose(0, 1) if self._batch_first and batched else steps
        (hidden, cell), last = self._start(steps, hx, batched), []
        for layer in range(self._layers):
            outputs, steps = [], functional.dropout(steps, self._p if layer else 0.0, self.training)
            for way in self._ways:
                place = len(last)
                found, state = self._one_way(steps, f"l{layer}{way}", hidden[place], cell[place])
                outputs.append(found)
                last.append(state)
            steps = torch.cat(outputs, dim=-1)
        states = [torch.stack(each) if batched else torch.stack(each)[:, 0] for each in zip(*last, strict=True)]
        out = steps if batched else steps[:, 0]
        out = out.transpose(0, 1) if self._batch_first and batched else out
        return out, tuple(states) if self._mode == "LSTM" else states[0]

    def _start(self, steps: Tensor, hx: Any, batched: bool) -> tuple[Tensor, Tensor]:
        if hx is None:
            zeros = (
                steps.new_zeros(self._layers * len(self._ways), steps.shape[1], size) for size in self._sizes[::-1]
            )
            return next(zeros), next(zeros)
        given = hx if self._mode == "LSTM" else (hx, hx)
        hidden, cell = given if batched else (each[:, None] for each in given)
        return hidden, cell

    def _one_way(self, steps: Tensor, name: str, hidden: Tensor, cell: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The outputs of one layer in one direction, `(time, batch, size)`, and its last hidden and cell state."""
        own, outputs = self._parameters.get, []
        into = functional.linear(steps, own(f"weight_ih_{name}"), own(f"bias_ih_{name}"))  # type: ignore[arg-type]
        backwards = name.endswith("_reverse")
        for step in reversed(into.unbind(0)) if backwards else into.unbind(0):
            back = functional.linear(hidden, own(f"weight_hh_{name}"), own(f"bias_hh_{name}"))  # type: ignore[arg-type]
            if self._mode == "LSTM":
                let_in, forget, new, let_out = (step + back).chunk(4, dim=-1)
                cell = forget.sigmoid() * cell + let_in.sigmoid() * new.tanh()
                hidden = let_out.sigmoid() * cell.tanh()
                if (projection := own(f"weight_hr_{name}")) is not None:
                    hidden = functional.linear(hidden, projection)
            elif self._mode == "GRU":
                reset, keep, new = step.chunk(3, dim=-1)
                reset_back, keep_back, new_back = back.chunk(3, dim=-1)
                new = (new + (reset + reset_back).sigmoid() * new_back).tanh()
                kept = (keep + keep_back).sigmoid()
                hidden = (1 - kept) * new + kept * hidden
            else:
                hidden = (step + back).tanh() if self._mode == "RNN_TANH" else (step + back).relu()
            outputs.append(hidden)
        return torch.stack(outputs[::-1] if backwards else outputs), (hidden, cell)


def unrolled(code: nn.Module) -> nn.Module:
    """The code of known layers (`problems.closed`) with its recurrent layers unrolled, in place.

    Example:
      >>> type(unrolled(nn.GRU(2, 3))).__name__, unrolled(nn.Sequential(nn.Linear(2, 3)))
      ('Unrolled', Sequential(
        (0): Linear(in_features=2, out_features=3, bias=True)
      ))
    """
    for name, layer in [*code.named_modules()]:
        if isinstance(layer, nn.RNNBase):
            if not name:
                return Unrolled(layer)
            code.set_submodule(name, Unrolled(layer))
    return code
