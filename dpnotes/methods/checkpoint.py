"""Checkpoints: a run's state on disk, to go on from after a crash.

A checkpoint is sensitive, whatever the run released is not: it may hold noise that later answers still carry (the live
nodes of a tree), exact answers that an oracle remembers, and prices that were never published. It never holds a seed, a
key or a hash of one. A run with secret streams goes on with fresh ones, so that no noise is drawn twice even if steps
after the checkpoint had been released; a seeded run goes on with its own seed and ends in the same bits.

Publish only what a checkpoint holds already: the meter of a run that goes on does not know of steps that were released
after its last checkpoint.
"""

import io
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from dpnotes.states import flatten, restore
from dpnotes.streams import Streams

State = TypeVar("State")
LABEL = "SENSITIVE: whoever reads this can take noise off what the run releases. Keep it as you keep the private data."
_RESERVED = ("label", "secret_seed", "runs")


def save(path: Path, state: Any, streams: Streams) -> None:
    """Write a state, replacing an older checkpoint in one step; only its owner may read the file.

    Args:
      path: of the checkpoint.
      state: of a method, with all that it holds.
      streams: the run's randomness, of which it is stored only whether it is secret.

    Example:
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save(Path(folder) / "run.pt", torch.zeros(2, 3), Streams.secure(2))
      ...     print(label(Path(folder) / "run.pt"))
      SENSITIVE: whoever reads this can take noise off what the run releases. Keep it as you keep the private data.
    """
    tensors = {f"state.{name}": tensor for name, tensor in flatten(state).items()}
    buffer = io.BytesIO()
    torch.save({"label": LABEL, "secret_seed": streams.secret, "runs": len(streams), **tensors}, buffer)
    # `mkstemp` makes files that only their owner can read.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def label(path: Path) -> str:
    """What the checkpoint says of itself."""
    return _load(path)["label"]


def resume(path: Path, template: State, streams: Streams | None = None) -> tuple[State, Streams]:
    """The state to go on from, and the randomness to go on with.

    Args:
      path: of the checkpoint.
      template: a fresh state of the same type and shapes, on the device to go on on.
      streams: of a seeded run, the same as before; None for a run with secret streams, which gets fresh ones.

    Returns:
      The state, and the streams for the steps that were not released yet.

    Raises:
      ValueError: if the state differs from the template; or streams are given where the seed was secret (they might be
        the ones that drew already), or none where it was not.

    Example:
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save(Path(folder) / "run.pt", torch.ones(2), Streams.secure(2))
      ...     resume(Path(folder) / "run.pt", torch.zeros(2))
      (tensor([1., 1.]), Streams(<secret>, runs=2))
    """
    stored = _load(path)
    if stored["secret_seed"]:
        if streams is not None:
            raise ValueError(f"Expected no streams with {path.name}: its seed was secret, and it gets a fresh one.")
    elif streams is None or streams.secret or len(streams) != stored["runs"]:
        raise ValueError(f"Expected the seeded streams of the {stored['runs']} runs that {path.name} was saved with.")
    tensors: dict[str, Tensor] = {
        name.removeprefix("state."): value for name, value in stored.items() if name not in _RESERVED
    }
    device = next(iter(flatten(template).values())).device
    state = restore(template, {name: tensor.to(device) for name, tensor in tensors.items()})
    return state, streams if streams is not None else Streams.secure(stored["runs"], device)


def _load(path: Path) -> dict[str, Any]:
    return torch.load(path, map_location="cpu", weights_only=True)
