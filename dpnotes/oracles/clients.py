"""Clients: each client has its own examples, noise and guarantee, and the server sees only the clients' messages.

Any `ReleasingOracle` can serve clients: each of its rows is one client of one run.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Estimate, Guarantee, Price, Status
from dpnotes.guarantees import FRESH, WHOLE, Assumption, as_json, from_json, rest_of
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.release import Meter, ReleasePlan, State, check_asked, on_time
from dpnotes.privacy.sums import SumState
from dpnotes.random.streams import Streams
from dpnotes.util import files, per_run, validate
from dpnotes.util.lineage import Lineage
from dpnotes.util.processes import ProcessLost, agree, common_facts
from dpnotes.util.states import flatten, map_state, restore
from dpnotes.util.validate import AtLeastOne, checked

CLIENT_PURPOSE = "client"  # of the draws that derive a client's key from a seeded run's key
OWN_RECORDS = Assumption("no record is with two clients", "assumed")
MESSAGES = Assumption("nothing of a client but what it sends is seen by the server or by other clients", "assumed")


@dataclass(frozen=True)
class ClientsState(State):
    """The `memory` and `meter` of this process's clients, `(runs, clients, ...)`, with the lineage of the runs.

    `stopped` `(runs,)` int64: the first client that could not continue, or whose message was not finite; -1: none.
    """

    stopped: Tensor


@dataclass(frozen=True, eq=False)
class ClientsPlan:
    """The plan of a release by all clients: a run is granted the release if all of its clients are.

    Args:
      state: the state for which it was made.
      parts: the plans of this process's blocks.
      granted: `(runs,)` bool.
      status: `(runs,)`, for refused runs the reason.
      stopped: `(runs,)` int64, the first client that was refused; -1: none.
      cost: `(runs,)`, the largest zCDP of a client.
      gradients: `(runs,)` int64, the number of gradients of single examples, over all clients.
      evaluations: the same for losses; None: none.
    """

    state: ClientsState
    parts: tuple[ReleasePlan, ...]
    granted: Tensor
    status: Tensor
    stopped: Tensor
    cost: Tensor
    gradients: Tensor
    evaluations: Tensor | None
    oracle: "Clients | None" = field(default=None, init=False)  # None: the plan was made or changed by hand


@checked
@dataclass(frozen=True, eq=False)
class Clients:
    """The oracle of the mean of clients' messages, each a private estimate on the client's own examples.

    Lines 4 to 8 and 11 to 16 of Algorithm 3 of "Private Stochastic Optimization for Achieving Second-Order Stationary
    Points" (anonymous, submitted to ICLR), where the oracle is `Spider`; distributed DP-SGD, where it is
    `MinibatchGradient`.

    Formal guarantees:
      Inter-client record-level privacy (Definition 3 there): a client's messages have the guarantee of its oracle, for
      its own examples, against the server and all other clients. All clients plan before any client draws or pays: if
      one has too few examples or budget left, its run ends, and no client has paid.

    All clients use one neighbouring relation. The price of a round is an upper bound for every client: the largest
    client's price, without amplification if the clients' samplings differ, and as zCDP unless all noise is Gaussian.

    On seeded streams a client's key is derived from the run's key and the client's number: a person who knows the seed,
    or the server, can remove the noise. On secret streams every client draws from the operating system, in its own
    process, and cannot repeat a message after a crash: it draws new noise. With a `record` each client writes its
    spending to a file before it sends a message, and `resumed` counts it.

    Args:
      oracles: the oracles of this process's blocks; row `run * clients + place` is a client of a run.
      blocks: the assignment of clients to blocks.
      num_runs: at least 1.
      record: a folder for the spending of these runs' clients, and of no others; unused on seeded streams.
      rows: the indices of these runs among the recorded ones; (): all of them, in order.

    Raises:
      ValueError: for a wrong number of oracles or of an oracle's rows, or for two neighbouring relations.

    Example:
      >>> from dpnotes.core import Relation, WHOLE
      >>> from dpnotes.oracles.minibatch import MinibatchGradient
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> def oracle_of(members):  # all have the same examples here
      ...     noise_std = torch.full((2 * len(members),), 0.1, dtype=torch.float64)
      ...     return MinibatchGradient(problem, WHOLE, noise_std, 2.0, 4, Relation.REPLACE_ONE, clipped=True)
      >>> oracle = Clients.of(oracle_of, Blocks(num_clients=5, size=2), num_runs=2)
      >>> x, streams = torch.ones(2, 2), Streams.of(0, ["a", "b"])
      >>> state, estimate = oracle.estimate(oracle.init(x), x, streams, torch.tensor([True, True]))
      >>> estimate.gradient.shape, estimate.num_gradients.tolist(), state.meter.calls.shape
      (torch.Size([2, 2]), [250, 250], torch.Size([2, 5]))
    """

    oracles: tuple[Any, ...]
    blocks: Blocks
    num_runs: AtLeastOne
    record: Path | None = None
    rows: tuple[int, ...] = ()

    @staticmethod
    def of(oracle_of: Callable[[range], Any], blocks: Blocks, num_runs: int, record: Path | None = None) -> "Clients":
        """The clients with the oracles that `oracle_of` makes from each block's client numbers."""
        return Clients(tuple(map(oracle_of, blocks.members)), blocks, num_runs, record=record)

    def __post_init__(self) -> None:
        if not self.rows:
            object.__setattr__(self, "rows", tuple(range(self.num_runs)))
        validate.same_length(rows=self.rows, runs=range(self.num_runs))
        validate.same_length(oracles=self.oracles, blocks=self.blocks.members)
        for oracle, members in zip(self.oracles, self.blocks.members, strict=True):
            if len(oracle.releases.budget) != self.num_runs * len(members):
                raise ValueError(
                    f"Expected an oracle of {len(oracle.releases.budget)} rows to have {self.num_runs * len(members)}: "
                    f"num_runs={self.num_runs} of {len(members)} clients."
                )
            if (relation := oracle.releases.relation) != (first := self.oracles[0].releases.relation):
                raise ValueError(f"Expected oracles of one relation, got {relation} beside {first}.")

    # ------------------------------------------------------------ conversion between runs of clients and rows of blocks
    def _rows(self, of_runs: Tensor) -> list[Tensor]:
        """The per-run values, repeated for each row of the blocks."""
        return [of_runs.repeat_interleave(len(members), 0) for members in self.blocks.members]

    def _by_client(self, of_rows: list[Tensor]) -> Tensor:
        """The rows of the blocks as one tensor `(runs, clients, ...)`."""
        sizes = [len(members) for members in self.blocks.members]
        return torch.cat(
            [rows.view(self.num_runs, size, *rows.shape[1:]) for rows, size in zip(of_rows, sizes, strict=True)], 1
        )

    def _unfolded(self, state: ClientsState) -> list[State]:
        """The states of the blocks, with new lineages: the lineage of the runs prevents repeated releases."""
        whole, start, states = State(state.memory, state.meter), 0, []
        for members in self.blocks.members:
            own = slice(start, start := start + len(members))
            lineage = Lineage.of(self.num_runs * len(members), state.stopped.device)
            rows = map_state(lambda t, own=own: t[:, own].flatten(0, 1).contiguous(), whole, lineage=lineage)
            states.append(rows)
        return states

    def _folded(self, states: list[State], lineage: Lineage, stopped: Tensor) -> ClientsState:
        whole = map_state(lambda *rows: self._by_client([*rows]), *states, lineage=lineage)
        return ClientsState(whole.memory, whole.meter, stopped)

    @cached_property
    def _remembered(self) -> dict[str, Any]:
        """The cache of `streams_of`: the last streams of the runs, and the clients' streams for them."""
        return {}

    def streams_of(self, streams: Streams) -> tuple[Streams, ...]:
        """The random streams of each block's clients, derived from the runs' streams."""
        if self._remembered.get("of") is not streams:
            own = []
            for keys, members in zip(self._rows(streams.keys), self.blocks.members, strict=True):
                if streams.secret:
                    own.append(Streams.secure(len(keys), keys.device))
                else:
                    clients = torch.tensor(members, device=keys.device)
                    words = Streams(keys).words(CLIENT_PURPOSE, clients.repeat(self.num_runs), 1)
                    own.append(Streams(torch.cat(words[:2], 1)))
            self._remembered.update(of=streams, are=tuple(own))
        return self._remembered["are"]

    @cached_property
    def _priced(self) -> dict[str, Any]:
        """The fields of this process's `Price`, except the multiplier."""
        releases = [oracle.releases for oracle in self.oracles]
        noise = "gaussian" if all(each.is_gaussian for each in releases) else "zcdp"
        samplings = {each.sampling for each in releases}
        alike = len(samplings) == 1 and (noise == "gaussian" or samplings <= {WHOLE, FRESH})
        return {"relation": releases[0].relation, "sampling": samplings.pop() if alike else WHOLE, "noise": noise}

    # ------------------------------------------------------------ plan and release
    def init(self, x: Tensor) -> ClientsState:
        """The state before the first release, for points `x` `(runs, dim)`; all processes compare their settings.

        Raises:
          ProcessLost: if the settings differ.
          ValueError: for another number of rows.
        """
        validate.same_length(x=x, runs=range(self.num_runs))
        sizes = {"num_runs": self.num_runs, "num_clients": self.blocks.num_clients, "block size": self.blocks.size}
        priced = {name: str(value) for name, value in self._priced.items()}
        what = {"dim": x.shape[1], "dtype": str(x.dtype), "oracle": type(self.oracles[0]).__name__, **priced}
        with self._naming():
            agree(self.blocks.processes, {**common_facts(), **sizes, **what})
        states = [oracle.init(rows) for oracle, rows in zip(self.oracles, self._rows(x), strict=True)]
        return self._folded(states, Lineage.of(self.num_runs, x.device), torch.full_like(x[:, 0], -1).long())

    def plan(self, state: ClientsState, x: Tensor, active: Tensor) -> ClientsPlan:
        """The plan of an estimate at `x`: its cost and the refused runs; arguments and errors as `estimate`."""
        check_asked(x, active, self.num_runs)
        active = on_time(state.meter.lineage.late(state.meter.calls[:, 0], active), active)
        given = zip(self.oracles, self._unfolded(state), self._rows(x), self._rows(active), strict=True)
        parts = [oracle.plan(*each) for oracle, *each in given]
        status = self._by_client([part.status for part in parts])
        place = (status != Status.OK).int().argmax(1)
        why = status.gather(1, place[:, None])[:, 0].long()
        own = self.blocks.clients(self.blocks.processes.rank)
        first = torch.where(why == Status.OK, self.blocks.num_clients, place + own.start)
        # All in one message: the cost is sent as its bits.
        cost = self._by_client([part.cost for part in parts]).amax(1).contiguous().view(torch.int64)
        counts = [self._asked(parts, name).sum(1) for name in ("gradients", "evaluations")]
        told = self.blocks.processes.gather(torch.stack([first, why, cost, *counts], 1))
        first, who = told[:, :, 0].min(0)
        why = told[:, :, 1].gather(0, who[None])[0]
        granted = active & (why == Status.OK)
        refused = (active ^ granted) & (why != Status.FINISHED)
        plan = ClientsPlan(
            state,
            tuple(part.only(*each) for part, *each in zip(parts, self._rows(granted), self._rows(why), strict=True)),
            granted,
            why * (active ^ granted),
            torch.where(refused, first, state.stopped),
            told[:, :, 2].contiguous().view(torch.float64).amax(0),
            told[:, :, 3].sum(0),
            None if parts[0].asks[0].evaluations is None else told[:, :, 4].sum(0),
        )
        vars(plan).update(oracle=self)
        return plan

    def _asked(self, parts: list[ReleasePlan], name: str) -> Tensor:
        """The public number `name` of the clients' requests, `(runs, clients)`; 0 where it is None."""
        asked = []
        for part in parts:
            number, like = getattr(part.asks[0], name), part.asks[0].noise_multiplier
            asked.append(per_run.rows(0 if number is None else number, like, torch.int64))
        return self._by_client(asked)

    def release(self, plan: ClientsPlan, streams: Streams) -> tuple[ClientsState, Estimate]:
        """Make the release of a plan of this oracle: the mean of the clients' messages; as `estimate`."""
        if plan.oracle is not self:
            raise ValueError("Expected plan to be this oracle's, released as it was made: plan again.")
        lineage, before = plan.state.meter.lineage, plan.state.meter.calls[:, 0]
        # Taken from the parts, whose plans are protected against changes.
        granted = self._by_client([part.granted for part in plan.parts])[:, 0]
        calls, late = lineage.advance(before, granted)
        on_time(late, granted)
        try:
            given = zip(self.oracles, plan.parts, self.streams_of(streams), strict=True)
            sent = [oracle.release(part, own) for oracle, part, own in given]
            paid = self._folded([state for state, _ in sent], lineage, plan.stopped)
            if streams.secret and self.record is not None:
                self._write_down(plan.state.meter, paid.meter)
        except BaseException:
            lineage.withdraw(calls, before)
            raise
        gradients = [estimate.gradient.view(self.num_runs, -1, estimate.gradient.shape[1]) for _, estimate in sent]
        total, wrong = self.blocks.sum(gradients, calls)
        no_number = granted & (wrong >= 0)
        mean = total / torch.full_like(total[:1, :1], self.blocks.num_clients)
        estimate = Estimate(
            mean.masked_fill(no_number[:, None], 0),
            Price((0.5 / plan.cost) ** 0.5, granted, **self._priced),
            granted * plan.gradients,
            plan.status.masked_fill(no_number, Status.DIVERGED),
            None if plan.evaluations is None else granted * plan.evaluations,
        )
        return replace(paid, stopped=torch.where(no_number, wrong, plan.stopped)), estimate

    # ------------------------------------------------------------ the record of spending that survives a crash
    def _written_down(self) -> Iterator[tuple[int, Path, dict[str, Tensor]]]:
        """The place of each client of this process, its file, and the file's content: numbers by run and name."""
        assert self.record is not None
        for place, client in enumerate(self.blocks.clients(self.blocks.processes.rank)):
            path, found = self.record / f"client-{client}.spent", {}
            if path.exists():
                found = torch.load(io.BytesIO(files.unsealed(path)), weights_only=True)
            yield place, path, found

    def _write_down(self, before: Meter, after: Meter) -> None:
        """Write each client's spending to disk before messages are sent; if this fails, no message is sent."""
        contents, meter = {}, {name: numbers.cpu() for name, numbers in flatten(after).items()}
        for place, path, found in self._written_down():
            for run, row in enumerate(self.rows):
                if int(found.get(f"{row}.calls", torch.tensor(0))) > int(before.calls[run, place]):
                    raise ValueError(
                        f"Expected state to be the newest: {path} says that later rounds were sent. Resume by "
                        "methods.client_checkpoint.resume, or give a new run a record of its own."
                    )
                found |= {f"{row}.{name}": numbers[run, place].clone() for name, numbers in meter.items()}
            buffer = io.BytesIO()
            torch.save(found, buffer)
            contents[path] = files.sealed(buffer.getvalue())
        files.write(contents, mode=0o600)

    def resumed(self, state: ClientsState) -> ClientsState:
        """A stored state, updated with all that its clients have sent since; all processes call it.

        Earlier spending and rounds stay counted: all clients continue after the last round in any client's record.

        Raises:
          ValueError: without a record; in all processes, naming the file, if it is missing, damaged or another run's;
            if rounds were sent whose noise a tree or another factorisation would need again.
        """
        if self.record is None:
            raise ValueError("Expected record=None to be the folder in which these clients wrote what they had spent.")
        meter = {name: numbers.cpu().clone() for name, numbers in flatten(state.meter).items()}
        problem = ""
        try:
            for place, path, found in self._written_down():
                problem = problem or self._problem(state.meter, place, path, found)
                for (run, row), name in product(enumerate(self.rows), meter if not problem and found else ()):
                    meter[name][run, place] = found[f"{row}.{name}"]
        except (ValueError, OSError) as error:
            problem = str(error)
        with self._naming():
            for each in self.blocks.processes.gather_json(problem):
                if each:
                    raise ValueError(each)
            last = self.blocks.processes.gather(meter["calls"].amax(1)).amax(0)
        if bool((last[:, None] > state.meter.calls.cpu()).any()) and _remembers_noise(state.memory):
            raise ValueError(
                f"Expected the checkpoint to include round {int(last.max())}, which was sent: a tree's noise cannot be "
                "drawn again. Begin anew with another record; what was spent stays spent."
            )
        meter["calls"] = last[:, None].expand_as(meter["calls"]).clone()
        return replace(state, meter=restore(state.meter, meter))

    def _problem(self, meter: Meter, place: int, path: Path, found: dict[str, Tensor]) -> str:
        """The error message of a file that does not continue this meter; "" if it does."""
        for run, row in enumerate(self.rows):
            calls, spent = int(meter.calls[run, place]), float(meter.spent[run, place])
            if not found and calls:
                return f"Expected {path}: its client had sent {calls} rounds before the checkpoint; give its record."
            if found and f"{row}.calls" not in found:
                return f"Expected {path} to be of {len(self.rows)} runs."
            after = [float(found.get(f"{row}.filter.{name}", torch.tensor(0.0))) for name in ("reused", "fresh")]
            if found and (int(found[f"{row}.calls"]) < calls or sum(after) < spent):
                return f"Expected {path} to be of this run: it counts less than the checkpoint."
        return ""

    def estimate(
        self, state: ClientsState, x: Tensor, streams: Streams, active: Tensor
    ) -> tuple[ClientsState, Estimate]:
        """The mean of all clients' estimates at `x` for the runs in `active`.

        Args:
          state: from `init` or the last call; a state from which a release was made already is refused.
          x: `(runs, dim)`.
          streams: the runs' randomness.
          active: `(runs,)` bool.

        Returns:
          The next state, and the estimate: its price is the largest of a client, gradients and evaluations are summed
          over all. If a client's message is not finite, the run is DIVERGED, and `stopped` names the client.

        Raises:
          ProcessLost: naming the process that died, hangs or is in another round, with its clients.
          ValueError: for other shapes, a state that has released before, and as the clients' oracles.
        """
        with self._naming():
            return self.release(self.plan(state, x, active), streams)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """A context that adds the clients of the failing processes to a `ProcessLost` error."""
        try:
            yield
        except ProcessLost as error:
            raise ProcessLost(error.ranks, f"({self.blocks.named(error.ranks)}) {error.reason}") from None

    def rollback(self, now: ClientsState, saved: ClientsState, mask: Tensor, *, refresh: bool) -> ClientsState:
        """Restore the saved memory of all clients in the runs of `mask`; as `Spider.rollback`."""
        given = zip(self.oracles, self._unfolded(now), self._unfolded(saved), self._rows(mask), strict=True)
        states = [oracle.rollback(*each, refresh=refresh) for oracle, *each in given]
        return replace(self._folded(states, now.meter.lineage, now.stopped), meter=now.meter)

    # ------------------------------------------------------------ guarantees
    def declared(self) -> Tensor:
        """The zCDP budget that no client of this process exceeds, `(runs,)`."""
        return self._by_client([oracle.releases.budget for oracle in self.oracles]).amax(1)

    def totals(self) -> Tensor:
        """The total number of examples of each client of this process, `(runs, clients)` int64.

        Raises:
          ValueError: if the clients' oracles do not use examples up.
        """
        if any(oracle.releases.total is None for oracle in self.oracles):
            raise ValueError("Expected oracles that use examples up.")
        return self._by_client([oracle.releases.total.expand(oracle.releases.budget.shape) for oracle in self.oracles])

    def claims(
        self, state: ClientsState, delta: float, streams: Streams, *, not_covered: tuple[str, ...] = ()
    ) -> list[list[Guarantee]]:
        """The guarantee of each run for each client of this process, covering all messages of the client.

        Args:
          state: after the run.
          delta: in (0, 1).
          streams: the runs' randomness.
          not_covered: other quantities that depend on the data.
        """
        calls = state.meter.calls[:, 0]
        on_time(state.meter.lineage.late(calls, calls >= 0), calls)
        runs: list[list[Guarantee]] = [[] for _ in range(self.num_runs)]
        for oracle, rows, own in zip(self.oracles, self._unfolded(state), self.streams_of(streams), strict=True):
            found = oracle.guarantee(rows, delta, own, not_covered=not_covered)
            for row, claim in enumerate(found):
                with_trust = replace(claim, assumptions=(*claim.assumptions, MESSAGES, OWN_RECORDS))
                runs[row * self.num_runs // len(found)].append(with_trust.with_events(claim.events))
        return runs

    def guarantee(
        self, state: ClientsState, delta: float, streams: Streams, *, not_covered: tuple[str, ...] = ()
    ) -> tuple[Guarantee, ...]:
        """The guarantee of each run for every client of all processes: the weakest, with all clients' assumptions."""
        claims = [_weakest(run) for run in self.claims(state, delta, streams, not_covered=not_covered)]
        with self._naming():
            sent = self.blocks.processes.gather_json([as_json(claim) for claim in claims])
        return tuple(_weakest([from_json(claim) for claim in run]) for run in zip(*sent, strict=True))

    def take(self, index: Tensor) -> "Clients":
        """The oracle of some of the runs."""
        sizes = [len(members) for members in self.blocks.members]
        rows = [(index[:, None] * size + torch.arange(size, device=index.device)).flatten() for size in sizes]
        return replace(
            self,
            oracles=tuple(oracle.take(each) for oracle, each in zip(self.oracles, rows, strict=True)),
            num_runs=len(index),
            rows=tuple(self.rows[run] for run in index.tolist()),
        )


def _remembers_noise(memory: Any) -> bool:
    """Return whether a memory holds noise of earlier releases, as a tree's does."""
    parts = [getattr(memory, each.name) for each in fields(memory)] if is_dataclass(memory) else []
    return isinstance(memory, SumState) or any(map(_remembers_noise, parts))


def _weakest(claims: Sequence[Guarantee]) -> Guarantee:
    """The guarantee with the largest epsilon, with the assumptions and exclusions of all."""
    assumptions = rest_of(*(claim.assumptions for claim in claims))
    not_covered = dict.fromkeys(each for claim in claims for each in claim.not_covered)
    weakest = max(claims, key=lambda claim: claim.epsilon)
    return replace(weakest, assumptions=assumptions, not_covered=tuple(not_covered))
