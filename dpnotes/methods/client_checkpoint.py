"""Checkpoints of clients: a separate file for each client, and one for the server.

A client's file holds its memory and its spending in all runs, and nothing of another client; the server's file holds
public values, such as points and steps. All files are checkpoints of `methods.checkpoint`, with the same rules for
streams: a seeded run gives the same bits, with any number of processes, and a run on secret streams resumes with fresh
noise and new `Clients`, in every process. Messages sent after the checkpoint have been seen and cannot be repeated;
`Clients.record` stores their cost. Without a record, clients on secret streams are not saved.

The server's file is replaced last, when all clients' files are written, and older client files are removed after that:
a crash at any moment leaves a complete checkpoint, this one or the one before. Each checkpoint has a random number that
identifies the files which belong together.

A folder belongs to one run, which saves one checkpoint at a time: another run's checkpoint replaces the stored one, and
two saves at the same time remove each other's files. A run on secret streams is identified by its settings only.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from dpnotes.methods import checkpoint
from dpnotes.random.streams import Streams
from dpnotes.util.processes import agree
from dpnotes.util.states import flatten, restore

State = TypeVar("State")


@dataclass(frozen=True)
class _Server:
    """The content of the server's file: its tensors, and `number` `(1,)` int64, which identifies the checkpoint."""

    tensors: dict[str, Tensor]
    number: Tensor


def save(folder: Path, state: Any, oracle: Any, streams: Streams, settings: Mapping[str, Any] | None = None) -> None:
    """Write the files of this process's clients and, in rank 0, the server's file; all processes call it.

    Args:
      folder: a folder of this run alone that all processes can access.
      state: of a method over clients.
      oracle: the `Clients`.
      streams: as `checkpoint.save`.
      settings: as there.

    Raises:
      OSError: as there.
      ProcessLost: naming a process that did not take part; the older checkpoint stays.
      TypeError: if the settings are not JSON.
      ValueError: for secret streams of clients without a `record`.

    Example:
      >>> import tempfile
      >>> from dpnotes.core import Relation, WHOLE
      >>> from dpnotes.methods.descent import Descent
      >>> from dpnotes.oracles.blocks import Blocks
      >>> from dpnotes.oracles.clients import Clients
      >>> from dpnotes.oracles.minibatch import MinibatchGradient
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> def oracle_of(members):
      ...     noise_std = torch.full((len(members),), 0.1, dtype=torch.float64)
      ...     return MinibatchGradient(problem, WHOLE, noise_std, 2.0, 4, Relation.REPLACE_ONE, clipped=True)
      >>> oracle, method, streams = Clients.of(oracle_of, Blocks(3, 2), 1), Descent(0.1), Streams.of(0, ["a"])
      >>> state, _ = method.step(method.init(torch.ones(1, 2), oracle), oracle, streams)
      >>> with tempfile.TemporaryDirectory() as name:
      ...     save(Path(name), state, oracle, streams)
      ...     again, _ = resume(Path(name), method.init(torch.ones(1, 2), oracle), oracle, streams)
      ...     print(sorted(path.name.split(".")[0] for path in Path(name).iterdir()), torch.equal(again.x, state.x))
      ['client-0', 'client-1', 'client-2', 'server'] True
    """
    blocks, processes = oracle.blocks, oracle.blocks.processes
    if streams.secret and oracle.record is None:
        raise ValueError(
            "Expected oracle.record=None to be a folder on secret streams: pass Clients(..., record=folder), so that "
            "messages sent after this checkpoint are counted."
        )
    about, own = _about(blocks, settings), blocks.clients(processes.rank)
    on_server, of_clients = _parts(state)
    number = processes.gather_json(secrets.randbits(62))[0]
    for place, client in enumerate(own):
        part, of_client = _of_one(of_clients, place), about | {"client": client, "checkpoint": number}
        checkpoint.write(_path(folder, client, number), part, streams, of_client)
    processes.gather_json("clients")
    if processes.rank == 0:
        # Copies, not views: torch.save would store the whole tensor behind a view.
        server = _Server({name: tensor.clone() for name, tensor in on_server.items()}, torch.tensor([number]))
        checkpoint.write(folder / "server.pt", server, streams, about)
    processes.gather_json("server")
    for client in own:
        for path in folder.glob(f"client-{client}.*.pt"):
            if path != _path(folder, client, number):
                path.unlink()


def resume(
    folder: Path,
    template: State,
    oracle: Any,
    streams: Streams | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[State, Streams]:
    """The state from which a run resumes, and the streams for its next steps; all current processes call it.

    A process reads the files of its own clients and the server's file.

    Args:
      folder: as `save`.
      template: a fresh state of the same type and shapes, for this process's clients.
      oracle: the `Clients`, with blocks of the same size; on secret streams it must not have drawn anything yet.
      streams: as `checkpoint.resume`.
      settings: as there.

    Raises:
      FileNotFoundError: if the server's file does not exist.
      ProcessLost: naming a process that did not take part, or found another server's file.
      TypeError: if the settings are not JSON.
      ValueError: in all processes, naming the client whose file is missing, damaged, or of another client or
        checkpoint; and as `checkpoint.resume`.
    """
    blocks, processes = oracle.blocks, oracle.blocks.processes
    about = _about(blocks, settings)
    on_server, of_clients = _parts(template)
    like = _Server(on_server, torch.tensor([0]))
    server, found = checkpoint.resume(folder / "server.pt", like, streams, about)
    number = int(server.number)
    agree(processes, {"checkpoint": number})
    parts, problem = [], ""
    for place, client in enumerate(blocks.clients(processes.rank)):
        path, of_client = _path(folder, client, number), about | {"client": client, "checkpoint": number}
        try:
            part, _ = checkpoint.resume(path, _of_one(of_clients, place), streams, of_client)
        except (ValueError, OSError) as error:
            problem = f"Expected client {client} to have its file of this checkpoint: {error}"
            break
        parts.append(part)
    for each in processes.gather_json(problem):
        if each:
            raise ValueError(each)
    joined = {name: torch.cat([part[name] for part in parts], 1) for name in of_clients}
    whole: Any = restore(template, server.tensors | joined)
    return replace(whole, oracle=oracle.resumed(whole.oracle)) if found.secret else whole, found


def _about(blocks: Any, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings that must be the same when the run resumes."""
    return {"num_clients": blocks.num_clients, "block": blocks.size, "settings": dict(settings or {})}


def _parts(state: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of the server, and those of clients: memory and meter beside `stopped`, as in a `ClientsState`."""
    tensors = flatten(state)
    places = [name.removesuffix("stopped") for name in tensors if name.rpartition(".")[2] == "stopped"]
    own = tuple(f"{place}{part}" for place in places for part in ("memory", "meter"))
    of_clients = {name: tensor for name, tensor in tensors.items() if name.startswith(own)}
    return {name: tensor for name, tensor in tensors.items() if name not in of_clients}, of_clients


def _of_one(of_clients: dict[str, Tensor], place: int) -> dict[str, Tensor]:
    return {name: tensor[:, place : place + 1].clone() for name, tensor in of_clients.items()}


def _path(folder: Path, client: int, number: int) -> Path:
    return folder / f"client-{client}.{number:016x}.pt"
