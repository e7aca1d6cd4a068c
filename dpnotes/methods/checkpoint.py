"""Checkpoints: a run's state on disk, to go on from after a crash.

A checkpoint is sensitive, whatever the run released is not: it may hold noise that later answers still carry (the live
nodes of a tree), exact answers that an oracle remembers, and prices that were never published. Of a run with secret
streams it holds no seed, no key and no hash of one: such a run goes on with fresh streams, so that no noise is drawn
twice even if steps after the checkpoint had been released. A seeded run goes on with its own seed, which a hash of the
keys knows again, and ends in the same bits.

Publish only what a checkpoint holds already: the meter of a run that goes on does not know of steps that were released
after its last checkpoint.

A checkpoint begins with the sha256 of the rest, which is compared before anything in it is read. This shows damage, not
intent. A damaged one is refused, never passed over: to begin afresh releases, and pays, what was released before.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from dpnotes.random.streams import Streams
from dpnotes.util import checks, files
from dpnotes.util.states import flatten, restore

State = TypeVar("State")
LABEL = "SENSITIVE: whoever reads this can take noise off what the run releases. Keep it as you keep the private data."
_RESERVED = ("label", "secret_seed", "runs", "keys_hash", "settings")


def save(path: Path, state: Any, streams: Streams, settings: Mapping[str, Any] | None = None) -> None:
    """Write a state, replacing an older checkpoint in one step; only its owner may read the file.

    Args:
      path: of the checkpoint.
      state: of a method, with all that it holds.
      streams: the run's randomness. That it is secret is stored, and of a seeded one a hash of the keys.
      settings: whatever else decides what the run does next (step size, clipping norm, schedule, data), as JSON.

    Raises:
      OSError: with the path, a full disk among others; the older checkpoint stays.
      TypeError: if the settings are not JSON.
      ValueError: if something that a step required on a device does not hold (`dpnotes.util.checks`); for clients on
        secret streams, of which `client_checkpoint` counts what they have sent.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save(Path(folder) / "run.pt", torch.zeros(2, 3), Streams.secure(2))
      ...     print(label(Path(folder) / "run.pt"))
      SENSITIVE: whoever reads this can take noise off what the run releases. Keep it as you keep the private data.
    """
    # A meter with an axis of clients: only `oracles.clients.ClientsState` has one.
    if streams.secret and any(name.endswith("meter.calls") and t.dim() > 1 for name, t in flatten(state).items()):
        raise ValueError("Expected a state of clients on secret streams to be saved by methods.client_checkpoint.")
    write(path, state, streams, settings)


def write(path: Path, state: Any, streams: Streams, settings: Mapping[str, Any] | None = None) -> None:
    """Write a state, that of clients on secret streams among them; arguments as `save`."""
    checks.settle()
    tensors = {f"state.{name}": tensor for name, tensor in flatten(state).items()}
    buffer = io.BytesIO()
    about = {
        "label": LABEL,
        "secret_seed": streams.secret,
        "runs": len(streams),
        "keys_hash": None if streams.secret else _hash(streams),
        "settings": _entries(settings),
    }
    torch.save({**about, **tensors}, buffer)
    files.write({path: files.sealed(buffer.getvalue())}, mode=0o600)


def label(path: Path) -> str:
    """What the checkpoint says of itself.

    Raises:
      DamagedFileError: if the file is not what was written (`dpnotes.util.files`).
    """
    return _load(path)["label"]


def resume(
    path: Path, template: State, streams: Streams | None = None, settings: Mapping[str, Any] | None = None
) -> tuple[State, Streams]:
    """The state to go on from, and the randomness to go on with.

    Args:
      path: of the checkpoint.
      template: a fresh state of the same type and shapes, on the device to go on on.
      streams: of a seeded run, the same as before; None for a run with secret streams, which gets fresh ones.
      settings: the same as when it was saved; None if none were.

    Returns:
      The state, and the streams for the steps that were not released yet.

    Raises:
      DamagedFileError: if the file is not what was written (`dpnotes.util.files`).
      ValueError: if the state differs from the template, or the settings from those saved, saying which; or streams
        are given where they were secret, or where they were not, none or those of another seed.
      TypeError: if the settings are not JSON.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save(Path(folder) / "run.pt", torch.ones(2), Streams.secure(2))
      ...     resume(Path(folder) / "run.pt", torch.zeros(2))
      (tensor([1., 1.]), Streams(<secret>, runs=2))
    """
    stored = _load(path)
    if stored["secret_seed"]:
        if streams is not None:
            raise ValueError(f"Expected no streams with {path}: its noise is secret, and it gets fresh streams.")
    elif streams is None or streams.secret or len(streams) != stored["runs"]:
        raise ValueError(f"Expected the seeded streams of the {stored['runs']} runs that {path} was saved with.")
    elif _hash(streams) != stored["keys_hash"]:
        raise ValueError(f"Expected the seed that {path} was saved with: these streams have other keys.")
    _check_settings(path, stored["settings"], _entries(settings))
    tensors: dict[str, Tensor] = {
        name.removeprefix("state."): value for name, value in stored.items() if name not in _RESERVED
    }
    device = next(iter(flatten(template).values())).device
    try:
        state = restore(template, tensors)
    except ValueError as error:
        raise ValueError(f"Expected {path} to hold a state like the template: {error}") from None
    return state, streams if streams is not None else Streams.secure(stored["runs"], device)


def _hash(streams: Streams) -> str:
    return hashlib.sha256(json.dumps(streams.keys.tolist()).encode()).hexdigest()


def _entries(settings: Any, name: str = "") -> dict[str, str]:
    """The settings as dotted names and canonical JSON, so that two of them can be told apart entry by entry."""
    if settings is None and not name:
        return {}
    if isinstance(settings, Mapping) and (settings or not name):
        entries: dict[str, str] = {}
        for key, value in settings.items():
            if not isinstance(key, str):
                raise TypeError(f"Expected settings with names that are texts, got {key!r}.")
            part = key if key.isidentifier() else json.dumps(key)  # a dot in a name is none between two
            entries |= _entries(value, f"{name}.{part}" if name else part)
        return entries
    try:
        return {name: json.dumps(settings, sort_keys=True)}
    except TypeError as error:
        raise TypeError(f"Expected settings.{name} to be JSON (scalars, lists and dicts): {error}.") from None


def _check_settings(path: Path, saved: dict[str, str], given: dict[str, str]) -> None:
    differing = [
        f"{name} was {saved.get(name, 'not among them')}, is {given.get(name, 'not among them')}"
        for name in sorted(saved.keys() | given.keys())
        if saved.get(name) != given.get(name)
    ]
    if differing:
        raise ValueError(f"Expected the settings that {path} was saved with: {'; '.join(differing)}.")


def _load(path: Path) -> dict[str, Any]:
    return torch.load(io.BytesIO(files.unsealed(path)), map_location="cpu", weights_only=True)
