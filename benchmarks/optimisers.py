"""A step of an optimiser of torch as a method, beside the same optimiser alone: python benchmarks/optimisers.py"""

import functools

import torch
from _timing import medians
from torch import nn

from dpnotes.train.optimiser import _Live

SIZES = {26_000: 20, 2_000_000: 8}  # numbers, and tensors that share them


def main() -> None:
    """Print the medians of both and their ratio."""
    torch.set_num_threads(1)
    print("AdamW, one step   numbers   alone      method     ratio (asked: 2)")
    for numbers, tensors in SIZES.items():
        shapes = [torch.Size([numbers // tensors])] * tensors
        gradient = torch.randn(numbers)
        parameters = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
        alone = torch.optim.AdamW(parameters, lr=2e-3)
        for parameter, part in zip(parameters, gradient.split(numbers // tensors), strict=True):
            parameter.grad = part
        live = _Live(lambda given: torch.optim.AdamW(given, lr=2e-3), shapes, gradient)
        live.probe()
        settings = live.settings()
        counters = torch.ones(len(live.counters), dtype=torch.float64)
        rows = torch.zeros(numbers), torch.zeros(sum(live.sizes)), counters, gradient
        one, own = medians(
            alone.step,
            functools.partial(live.step, *rows, settings, first=False),
            rounds=60,
        )
        print(f"{numbers:>25,}   {one:6.2f} ms  {own:6.2f} ms  {own / one:5.2f}")


if __name__ == "__main__":
    main()
