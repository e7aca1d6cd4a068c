"""Stand-ins for a mechanism and for streams, with which a test observes an oracle's use of them."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Mechanism, Price, Request, Sampling
from dpnotes.privacy.mechanisms import Gaussian, price_of
from dpnotes.random.streams import Streams


@dataclass
class Spy:
    """A mechanism that records the requested releases; its cost is that of Gaussian noise."""

    releasing: Mechanism = Gaussian()
    purpose: str = "spy"
    requests: list[Request] = field(default_factory=list)
    noise: str = "gaussian"

    def init(self, x: Tensor) -> Tensor:
        return Gaussian().init(x)

    def cost(self, state: Any, noise_multiplier: Tensor, sampling: Sampling, restart: Tensor | None) -> Tensor:
        return Gaussian().cost(state, noise_multiplier, sampling, restart)

    def release(self, state: Any, request: Request, streams: Streams) -> tuple[Any, Tensor, Price]:
        self.requests.append(request)
        return *self.releasing.release(state, request, streams)[:2], price_of(request, "gaussian")


@dataclass(frozen=True)
class Wrapped:
    """A wrapper around another mechanism, with all attributes that `core.Mechanism` requires."""

    inner: Any
    purpose: str = "wrapped"

    def init(self, x: Tensor) -> Any:
        return self.inner.init(x)

    def cost(self, state: Any, noise_multiplier: Tensor, sampling: Any, restart: Any) -> Tensor:
        return self.inner.cost(state, noise_multiplier, sampling, restart)

    def release(self, state: Any, request: Any, streams: Streams) -> Any:
        return self.inner.release(state, request, streams)


class UnitDraws:
    """Streams of equal keys in which run 0 draws no noise, and run r only the r-th number of a release, scaled."""

    def __init__(self, streams: Streams, purpose: str, scale: float = 1.0) -> None:
        self.inner, self.purpose, self.scale = streams, purpose, scale
        self.keys, self.secret = streams.keys, False

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, index: Tensor) -> Streams:
        return self.inner.take(index)

    def uniform(self, *which: Any) -> Tensor:
        return self.inner.uniform(*which)

    def normal(self, purpose: str, call: Tensor, size: int) -> Tensor:
        assert purpose == self.purpose
        draws = torch.arange(len(self) - 1)[:, None] == int(call[0]) * size + torch.arange(size)
        return self.scale * torch.cat([torch.zeros(1, size), draws.double()])


@dataclass(frozen=True)
class UnitRuns:
    """Streams in which run 0 draws zeros, and run r draws 1 at call r - 1 and zeros otherwise."""

    keys: Tensor
    secret: bool = False

    def normal(self, purpose: str, call: Any, size: int) -> Tensor:
        return (torch.arange(len(self.keys)) - 1 == torch.as_tensor(call)).double()[:, None].repeat(1, size)
