"""Counts of the work on a pretend device and of calls in Python, which do not depend on time."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from types import FrameType
from typing import Any
from unittest import mock

import torch
from pretend_device import PretendCuda, PretendTensor

from dpnotes.core import Estimate
from dpnotes.oracles import release
from dpnotes.random import reference


def python_calls(action: Callable[[], object]) -> Counter[str]:
    """Count the calls of Python functions of each package during an action."""
    found: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_globals.get("__name__", "").split(".")[0]] += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found


@dataclass
class Counts:
    """The work counted on a pretend device."""

    launches: int = 0
    waits: int = 0
    gradients: int = 0
    draws: int = 0
    bytes: int = 0

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(*(one - two for one, two in zip(astuple(self), astuple(other), strict=True)))

    def over(self, steps: int) -> "Counts":
        return Counts(*(-(-number // steps) for number in astuple(self)))


@contextmanager
def counting() -> Iterator[Callable[[], Counts]]:
    """Provide a pretend device, and a function that returns the counts so far."""
    found = Counts()

    def estimate(gradient: Any, price: Any, num_gradients: torch.Tensor, *others: Any) -> Estimate:
        pretends = isinstance(num_gradients, PretendTensor)
        found.gradients += int((num_gradients.inner if pretends else num_gradients).sum())
        return Estimate(gradient, price, num_gradients, *others)

    def counted(draw: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def drawing(*given: Any) -> torch.Tensor:
            drawn = draw(*given)
            found.draws += drawn.numel()
            return drawn

        return drawing

    with PretendCuda() as device, ExitStack() as stack:
        stack.enter_context(mock.patch.object(release, "Estimate", estimate))
        for kind in ("words", "uniforms", "normals"):
            stack.enter_context(mock.patch.object(reference, kind, counted(getattr(reference, kind))))
        yield lambda: Counts(device.launches, device.waits, found.gradients, found.draws, device.bytes)
