"""Checkpoints: a run's state on disk, from which the run resumes after a crash.

A checkpoint is sensitive, unlike the run's releases: it may hold noise that is part of later answers (the live nodes of
a tree), exact answers that an oracle stores, and prices that were never published. For a run on secret streams it holds
no seed, no key and no hash of them: such a run resumes with fresh streams, so that no noise is drawn twice even if
steps after the checkpoint were released. A seeded run resumes with its own seed, which is compared by a hash of the
keys, and gives the same bits.

Publish only releases that a checkpoint already contains: the meter of a resumed run does not count steps that were
released after its last checkpoint.

A checkpoint begins with the sha256 of the rest, which is compared before the content is read. This detects damage, not
manipulation. A damaged checkpoint is an error and never ignored: a new start would release, and pay for, everything
again.
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
    """Write a state, atomically replacing an older checkpoint; only the file's owner may read it.

    Args:
      path: of the checkpoint.
      state: the complete state of a method.
      streams: the run's randomness. The file says whether it is secret, and holds a hash of the keys of seeded streams.
      settings: the other inputs that determine the next steps (step size, clipping norm, schedule, data), as JSON.

    Raises:
      OSError: with the path, for example on a full disk; the older checkpoint stays.
      TypeError: if the settings are not JSON.
      ValueError: if a deferred check on a device fails (`dpnotes.util.checks`); for clients on secret streams, which
        need `client_checkpoint`, since it counts the messages that they have sent.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     save(Path(folder) / "run.pt", torch.zeros(2, 3), Streams.secure(2))
      ...     resume(Path(folder) / "run.pt", torch.ones(2, 3))[0]
      tensor([[0., 0., 0.],
              [0., 0., 0.]])
    """
    # A meter with an axis of clients: only `oracles.clients.ClientsState` has one.
    if streams.secret and any(name.endswith("meter.calls") and t.dim() > 1 for name, t in flatten(state).items()):
        raise ValueError("Expected a state of clients on secret streams to be saved by methods.client_checkpoint.")
    write(path, state, streams, settings)


def write(path: Path, state: Any, streams: Streams, settings: Mapping[str, Any] | None = None) -> None:
    """Write a state, including one of clients on secret streams; arguments as `save`."""
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


def resume(
    path: Path, template: State, streams: Streams | None = None, settings: Mapping[str, Any] | None = None
) -> tuple[State, Streams]:
    """The state from which a run resumes, and the streams for its next steps.

    Args:
      path: of the checkpoint.
      template: a fresh state of the same type and shapes, on the device on which the run resumes.
      streams: the same as before for a seeded run; None for a run on secret streams, which gets fresh ones.
      settings: the same as when the checkpoint was saved; None if there were none.

    Returns:
      The state, and the streams for the steps that were not released yet.

    Raises:
      DamagedFileError: if the content is not what was written (`dpnotes.util.files`).
      ValueError: if the state differs from the template, or the settings from those saved (the message names them); if
        streams are given for a run on secret streams, or are missing or of another seed for a seeded run.
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
        raise ValueError(
            f"Expected {path} to hold a state like the template: {error} "
            "A run of another version of dpnotes is finished with that version, or begun afresh."
        ) from None
    return state, streams if streams is not None else Streams.secure(stored["runs"], device)


def _hash(streams: Streams) -> str:
    return hashlib.sha256(json.dumps(streams.keys.tolist()).encode()).hexdigest()


def _entries(settings: Any, name: str = "") -> dict[str, str]:
    """The settings as canonical JSON by dotted name, so that two settings can be compared entry by entry."""
    if settings is None and not name:
        return {}
    if isinstance(settings, Mapping) and (settings or not name):
        entries: dict[str, str] = {}
        for key, value in settings.items():
            if not isinstance(key, str):
                raise TypeError(f"Expected settings with names that are texts, got {key!r}.")
            part = key if key.isidentifier() else json.dumps(key)  # a dot inside a key is no separator
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
