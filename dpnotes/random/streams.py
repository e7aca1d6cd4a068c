"""Counter-based randomness: a draw is a function of (key of the run, purpose, call, element) and of nothing else.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). The run's key is Philox's key; call, purpose and element are its counter, so no two draws share a stream,
whatever the batch, the mask or the chunk. Normal numbers are Box and Muller's, evaluated only with additions,
multiplications, divisions and square roots, each correctly rounded, so that CPU, GPU and every kernel
(`dpnotes.random.draws`) agree to the bit.

A person who knows the seed can draw the noise again and subtract it. A run that anyone can repeat is a demonstration:
its epsilon is that of the mechanism, not of the published file. `Streams.secure` draws from the operating system
instead: it has no key, no number can be drawn again, and such a run cannot be repeated.

Seeded noise is also floating-point noise: which sums are possible depends on the exact answer (Mironov, "On
significance of the least significant bits for differential privacy", CCS 2012). On secret streams, mechanisms without
memory round a real-valued sum once (`random.secret.rounded`). docs/privacy.md says more.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal, final

import torch
from torch import Tensor

from dpnotes.random import draws
from dpnotes.random import secret as system
from dpnotes.random.reference import WORD, high_word
from dpnotes.util import checks, validate

# Purposes for which secret streams may repeat a draw, and why: equal draws must reveal nothing about the data.
REPLAYED = {"augmentation": "a picture that passes twice in one step has to be changed alike; it is no release"}


@lru_cache(maxsize=1024)
def _words_of(text: str) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def _json(name: str, value: str | int) -> str:
    """The JSON of a text or a whole number; values that only resemble them (True, 1.0) are refused."""
    validate.text_or_whole(**{name: value})
    return json.dumps(value if isinstance(value, str) else int(value))


@final
class Streams:
    """Stateless randomness for a batch of runs.

    Args:
      keys: `(runs, 2)` int64, two 32-bit words per run. A key is derived from the run's spec, never from its place in
        the batch; `Streams.of` makes keys. Keys that are passed in are not secret: only `Streams.secure` makes secret
        streams.

    Raises:
      ValueError: for keys of another type or shape.

    Example:
      >>> both = Streams.of("figure1", ["repeat 0", "repeat 1"])
      >>> alone = Streams.of("figure1", ["repeat 1"])
      >>> torch.equal(both.normal("noise", 7, 3)[1:], alone.normal("noise", 7, 3))
      True
    """

    __slots__ = ("_keys", "_known", "_replayed")

    def __init__(self, keys: Tensor) -> None:
        if keys.dtype != torch.int64 or keys.dim() != 2 or keys.shape[1] != 2:
            raise ValueError(f"Expected keys, {keys.dtype} of shape {tuple(keys.shape)}, to be int64 of (runs, 2).")
        self._keys = keys & WORD  # Philox uses 32 bits per word: equal keys then mean equal draws
        self._known: tuple[Any, int, Any] = None, 0, None  # the calls that were checked last
        self._replayed: Tensor | None = None  # for secret streams: the keys of draws that may be repeated

    @property
    def keys(self) -> Tensor:
        """The keys, `(runs, 2)` int64, from which the noise can be drawn again; zeros for secret streams."""
        return self._keys

    @property
    def secret(self) -> bool:
        """Return whether the numbers come from the operating system.

        Secret streams draw fresh numbers at every call, and cannot be stored.
        """
        return self._replayed is not None

    @staticmethod
    def of(seed: str | int, runs: Sequence[str | int], device: torch.device | str = "cpu") -> "Streams":
        """Seeded streams, with a key from the seed and the name of each run; equal names share every draw.

        The key is the hash of the pair of seed and name as JSON, so different pairs are hashed differently: the number
        1 is not the text "1", and the seed "a/b" with the name "c" is not "a" with "b/c".

        Args:
          seed: a text or a whole number.
          runs: the names, each a text or a whole number.
          device: the device of the keys and of the numbers drawn from them.

        Raises:
          TypeError: for a seed or a name of another type, truth values and floats included, or one name for many runs.

        Example:
          >>> torch.equal(Streams.of(0, [1]).keys, Streams.of(0, ["1"]).keys)
          False
          >>> Streams.of(0, [1.0])
          Traceback (most recent call last):
          TypeError: Expected run=1.0 to be a text or a whole number.
        """
        if isinstance(runs, str) or not isinstance(runs, Iterable):  # a text would give one run per letter
            raise TypeError(f"Expected {validate.shown('runs', runs)} to be names, a run each: [{runs!r}].")
        start = _json("seed", seed)
        words = [_words_of(f"[{start}, {_json('run', name)}]") for name in runs]
        return Streams(torch.tensor(words, dtype=torch.int64, device=device).reshape(-1, 2))

    @staticmethod
    def secure(num_runs: int, device: torch.device | str = "cpu") -> "Streams":
        """Secret streams, which draw fresh numbers from the operating system's generator at every call.

        Args:
          num_runs: at least 1.
          device: the device of the numbers.

        Example:
          >>> streams = Streams.secure(2)
          >>> streams, torch.equal(streams.normal("noise", 0, 3), streams.normal("noise", 0, 3))
          (Streams(<secret>, runs=2), False)
        """
        validate.at_least(1, num_runs=num_runs)
        place = torch.device(device)
        made = Streams(torch.zeros(num_runs, 2, dtype=torch.int64, device=place))
        made._replayed = system.words(num_runs, 1, place)[:, 0, :2].contiguous()
        return made

    def __repr__(self) -> str:
        return f"Streams({'<secret>' if self.secret else self.keys.tolist()}, runs={len(self)})"

    def __reduce__(self) -> Any:
        if self.secret:
            raise TypeError("Expected streams with a seed: secret ones are not stored; a resumed run gets fresh ones.")
        return Streams, (self.keys,)

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, index: Tensor | slice) -> "Streams":
        """The streams of some of the runs."""
        taken = Streams(self._keys[index])
        taken._replayed = None if self._replayed is None else self._replayed[index]
        return taken

    def replayable(self, purpose: str) -> "Streams":
        """Streams of the same runs that may repeat a draw: seeded ones as they are, secret ones with fixed random keys.

        Args:
          purpose: one of `REPLAYED`, which gives the reason.

        Raises:
          ValueError: for any other purpose.

        Example:
          >>> streams = Streams.secure(2).replayable("augmentation")
          >>> torch.equal(streams.normal("example", 0, 3), streams.normal("example", 0, 3))
          True
        """
        validate.one_of(REPLAYED, purpose=purpose)
        return self if self._replayed is None else Streams(self._replayed)

    def words(self, purpose: str, call: int | Tensor, num_blocks: int) -> tuple[Tensor, ...]:
        """Raw 32-bit words: four `(runs, num_blocks)` int64 tensors, equal to the bit on every device.

        Args:
          purpose: a name of the draw's use; draws for different purposes are independent.
          call: the number of the draw, one for all runs or `(runs,)`, from 0 to 2^32 - 1.
          num_blocks: Philox blocks of four words, at most 2^32.

        Raises:
          TypeError: for a call that is no whole number, truth values included.
          ValueError: for a call outside this range, which would share its stream with another (for calls on a device:
            when the host next waits for it), or calls that are not one per run; for more blocks than a stream has.
        """
        validate.at_least(1, num_blocks=num_blocks)
        calls = self._calls(purpose, call)
        return self._blocks("words", purpose, calls, 0, num_blocks).unbind(-1)

    def uniform(self, purpose: str, call: int | Tensor, size: int, start: int = 0) -> Tensor:
        """Uniform numbers in the open interval (0, 1), `(runs, size)` float64; arguments as in `normal`."""
        return self._numbers("uniforms", purpose, call, size, start)

    def normal(self, purpose: str, call: int | Tensor, size: int, start: int = 0) -> Tensor:
        """Standard normal numbers, `(runs, size)` float64.

        The numbers are float64, whatever they are added to: add first, then round. With fewer bits a pair of numbers
        has so few possible radii that a reader of the noisy answer can tell which exact answers are possible.

        Args:
          purpose: as in `words`.
          call: as in `words`.
          size: the number of elements, at least 1.
          start: the index of the first element, so that a vector can be drawn in pieces. A vector has 2^33 elements.

        Raises:
          TypeError: as in `words`.
          ValueError: as in `words`, and outside these domains.

        Example:
          >>> streams = Streams.of(0, ["a"])
          >>> pieces = [streams.normal("noise", 3, 2), streams.normal("noise", 3, 3, start=2)]
          >>> torch.equal(streams.normal("noise", 3, 5), torch.cat(pieces, dim=1))
          True
        """
        return self._numbers("normals", purpose, call, size, start)

    def _calls(self, purpose: str, call: int | Tensor) -> Tensor:
        """The checked call numbers, `(1,)` or `(runs,)` int64 on the keys' device."""
        if isinstance(call, bool) or not isinstance(call, Integral | Tensor):
            raise TypeError(f"Expected call={call!r} to be a whole number or a tensor of them.")
        device = self._keys.device
        if not isinstance(call, Tensor):
            if not 0 <= call <= WORD:
                raise ValueError(f"Expected 0 <= call={call} < 2^32.")
            return torch.full((1,), int(call), device=device)
        if call.is_floating_point() or call.is_complex() or call.dtype == torch.bool:
            raise TypeError(f"Expected call to be a tensor of whole numbers, got {call.dtype}.")
        plain = call.dim() == 1 and call.dtype == torch.int64 and call.device == device and call.is_contiguous()
        calls = call if plain else call.to(device, torch.int64).reshape(-1).contiguous()
        if len(calls) not in (1, len(self)):
            raise ValueError(f"Expected one call, or one for each of {len(self)} runs, got {len(calls)}.")
        self.valid_calls(calls)
        return calls

    def valid_calls(self, calls: Tensor) -> Tensor:
        """A mask, bool of the shape of `calls`, of the valid call numbers in `calls`, int64: from 0 to 2^32 - 1.

        Another number would give the draws of one of these. On a device the mask of the last tensor is kept, so that a
        step with several draws computes it once.

        Raises:
          ValueError: unless all are from 0 to 2^32 - 1; on a device as `dpnotes.util.checks` says.

        Example:
          >>> Streams.of(0, ["a"]).valid_calls(torch.tensor([7]))
          tensor([True])
        """
        remembers = calls.device.type != "cpu" and not calls.is_inference()  # which have no version counter
        before, version, inside = self._known
        if remembers and before is calls and version == calls._version:
            return inside
        inside = high_word(calls) == 0
        checks.require(inside, lambda: ValueError(f"Expected 0 <= call={calls[~inside][0].item()} < 2^32."))
        if remembers:
            self._known = calls, calls._version, inside
        return inside

    def _numbers(self, kind: Literal["uniforms", "normals"], purpose: str, call: Any, size: int, start: int) -> Tensor:
        validate.at_least(1, size=size)
        validate.at_least(0, start=start)
        calls = self._calls(purpose, call)
        first = start // 2  # two numbers a block
        blocks = self._blocks(kind, purpose, calls, first, (start + size + 1) // 2 - first)
        return blocks.flatten(1)[:, start % 2 : start % 2 + size]

    def _blocks(self, kind: str, purpose: str, calls: Tensor, first: int, count: int) -> Tensor:
        if first + count > WORD + 1:
            raise ValueError(f"Expected at most 2^32 blocks of a stream, got blocks {first} ... {first + count - 1}.")
        if self._replayed is not None:
            return getattr(system, kind)(len(self), count, self._keys.device)
        draw = getattr(draws.backend(self._keys.device).module, kind)
        return draw(self._keys, calls, _words_of(purpose), first, count)
