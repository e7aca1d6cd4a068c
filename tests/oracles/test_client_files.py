"""Clients: files of their own, records of spending, guarantees, and the examples that each holds."""

import io
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from stand_ins import Wrapped
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Relation, Sampling, Status
from dpnotes.methods import client_checkpoint
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import MESSAGES, OWN_RECORDS, Clients
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.holdings import ClientSamples, TiltedSamples, dirichlet_split
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import DataSetSamples, VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.drift_escape.escaping import DriftEscape
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Gaussian, Laplace
from dpnotes.privacy.noise import FixedNoise, LossAdaptiveNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.quadratics import Quadratic
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.util import files
from dpnotes.util.processes import ALONE, ProcessLost
from tests import clients_worker
from tests.clients_worker import RUNS, kept_path, oracle
from tests.oracles.test_clients import ACTIVE, STREAMS, X, clients_of, ended, start, together


# ---------------------------------------------------------------- a file a client
def clients_together(processes: Any, num_clients: int = 5) -> tuple[Clients, Any]:
    """Return clients of these processes, and a fresh state of a method with rollback, which holds two oracle states."""
    clients = Clients.of(oracle_of_5000, Blocks(num_clients, 1, processes), RUNS)
    method = DriftEscape(0.1, 50.0, 2, 50.0, attempts=9, repeat="restore")
    return clients, method


def oracle_of_5000(members: range) -> Any:
    return clients_of([5000] * len(members)).oracles[0] if len(members) < 3 else None


def files_of(folder: Path) -> dict[str, Path]:
    return {each.name.split(".")[0]: each for each in folder.iterdir()}


@pytest.mark.slow
def test_clients_go_on_from_files_of_their_own_in_any_number_of_processes(tmp_path: Path):
    def begin(processes: Any) -> Tensor:
        clients, method = clients_together(processes)
        half = drive(method, clients, method.init(X, clients), STREAMS, 4)
        client_checkpoint.save(tmp_path, half, clients, STREAMS, {"step_size": 0.1})
        return drive(method, clients, half, STREAMS, 4).x

    def go_on(processes: Any) -> Tensor:
        clients, method = clients_together(processes)
        given = (tmp_path, method.init(X, clients), clients, STREAMS, {"step_size": 0.1})
        state, streams = client_checkpoint.resume(*given)
        client_checkpoint.save(tmp_path, state, clients, streams, {"step_size": 0.1})
        return drive(method, clients, state, streams, 4).x

    clients, method = clients_together(ALONE)
    whole = drive(method, clients, method.init(X, clients), STREAMS, 8)
    assert int(whole.attempt[0]) > 2, "it went back"
    assert all(torch.equal(x, whole.x) for x in together(2, begin))
    for num_processes in (3, 1, 5, 2):
        assert all(torch.equal(x, whole.x) for x in together(num_processes, go_on))
        assert files_of(tmp_path).keys() == {"server", *(f"client-{k}" for k in range(5))}
        assert [each.stat().st_mode & 0o777 for each in tmp_path.iterdir()] == [0o600] * 6


def test_a_client_s_file_holds_nothing_of_others(tmp_path: Path):
    clients, method = clients_together(ALONE)
    state = drive(method, clients, method.init(X, clients), STREAMS, 5)
    client_checkpoint.save(tmp_path, state, clients, STREAMS)

    def numbers(*tensors: Tensor) -> set[bytes]:
        return {number.tobytes() for t in tensors for number in t.flatten().numpy()}

    # Of each client the gradients that it sent, and where its noise is: no two clients have one in common.
    of_clients = [numbers(*(s.memory.gradient[:, k] for s in (state.oracle, state.saved))) for k in range(5)]
    assert all(not one & other for k, one in enumerate(of_clients) for other in of_clients[:k])
    found = {name: path.read_bytes() for name, path in files_of(tmp_path).items()}
    for k in range(5):
        for other in range(5):
            inside = [number in found[f"client-{k}"] for number in of_clients[other]]
            assert all(inside) if k == other else not any(inside)
        assert not any(number in found["server"] for number in of_clients[k])
        stored = torch.load(io.BytesIO(files.unsealed(files_of(tmp_path)[f"client-{k}"])), weights_only=True)
        tensors = {name: value for name, value in stored.items() if isinstance(value, Tensor)}
        assert all(t.shape[:2] == (RUNS, 1) or t.shape[0] == 0 for t in tensors.values())
        assert any(name.startswith("state.saved.memory") for name in tensors)
    assert all(number in found["server"] for number in numbers(state.x))
    buffer = io.BytesIO()
    torch.save(state.oracle.memory.gradient[:, :1], buffer)
    assert any(number in buffer.getvalue() for number in of_clients[4]), "control: a view takes others along"


def test_a_client_s_file_that_does_not_belong_is_refused_by_its_name(tmp_path: Path):
    clients, method = clients_together(ALONE)
    fresh, now = method.init(X, clients), tmp_path / "now"
    state = drive(method, clients, fresh, STREAMS, 2)
    client_checkpoint.save(tmp_path / "before", state, clients, STREAMS)
    client_checkpoint.save(now, drive(method, clients, state, STREAMS, 1), clients, STREAMS)
    before, kept = files_of(tmp_path / "before"), {path: path.read_bytes() for path in now.iterdir()}
    path, other = files_of(now)["client-3"], files_of(now)["client-2"]

    def refused(message: str, num_processes: int = 1, **settings: Any) -> None:
        def go_on(processes: Any) -> None:
            again, _ = clients_together(processes)
            with pytest.raises(ValueError, match=message):
                client_checkpoint.resume(now, method.init(X, again), again, STREAMS, settings)

        together(num_processes, go_on)
        for each, content in kept.items():
            each.write_bytes(content)

    path.unlink()
    refused("client 3 to have its file of this checkpoint: .*No such file", 3)
    path.write_bytes(kept[path][:-1] + b"x")
    refused("client 3 to have its file of this checkpoint: .*sha256", 3)
    path.write_bytes(kept[other])
    refused("client 3 to have its file of this checkpoint: .*client was 2, is 3")
    path.write_bytes(before["client-3"].read_bytes())
    refused("client 3 to have its file of this checkpoint: .*checkpoint was", 2)
    files_of(now)["server"].write_bytes(before["server"].read_bytes())
    refused("client 0 to have its file of this checkpoint: .*No such file")
    refused("settings.step_size was not among them", step_size=0.2)
    files_of(now)["server"].write_bytes(b"")
    refused("sha256")
    wider = Clients.of(oracle_of_5000, Blocks(5, 2), RUNS)
    with pytest.raises(ValueError, match="block was 1, is 2"):
        client_checkpoint.resume(now, method.init(X, wider), wider, STREAMS)
    with pytest.raises(ValueError, match="have other keys"):
        client_checkpoint.resume(now, fresh, clients, Streams.of(1, ["a", "b"]))
    client_checkpoint.resume(now, fresh, clients, STREAMS)


def secret_clients(record: Path, num_rounds: int = 20, mechanism: Any = None, processes: Any = ALONE) -> Clients:
    """Return four clients on secret streams, each with 1,000 examples, all of which it uses in every round."""

    def oracle_of(members: range) -> Any:
        problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=1000, spread=0.5, seed=0)
        std = torch.full((len(members),), 0.01, dtype=torch.float64)
        if mechanism is None:
            return MinibatchGradient(problem, WHOLE, std, 2.0, num_rounds, Relation.REPLACE_ONE, clipped=True)
        noise = FixedNoise.of([uniform(0.5, num_rounds)] * len(members))
        return ClippedGradient(problem, 2.0, noise, Relation.REPLACE_ONE, mechanism)

    return Clients.of(oracle_of, Blocks(4, 1, processes), 1, record)


def test_a_record_keeps_what_runs_spent_that_have_ended(tmp_path: Path):
    """The loop drops an ended run; the file of its client continues without it."""
    problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=1000, spread=0.5, seed=0)

    def oracle_of(members: range) -> Any:
        plans = [uniform(0.5, steps) for steps in (2, 5, 3) for _ in members]
        return ClippedGradient(problem, 2.0, FixedNoise.of(plans), Relation.REPLACE_ONE)

    def clients() -> Clients:
        return Clients.of(oracle_of, Blocks(4, 2), 3, tmp_path / "record")

    first, method, secret, x = clients(), Descent(0.1), Streams.secure(3), torch.ones(3, 2)
    begun = drive(method, first, method.init(x, first), secret, 1)
    client_checkpoint.save(tmp_path, begun, first, secret)
    ended = drive(method, first, begun, secret, 9)
    assert ended.oracle.meter.calls[:, 0].tolist() == [2, 5, 3]
    again = clients()
    state, _ = client_checkpoint.resume(tmp_path, method.init(x, again), again)
    assert torch.equal(state.oracle.meter.calls, ended.oracle.meter.calls)
    assert torch.equal(state.oracle.meter.spent, ended.oracle.meter.spent)


def begun(folder: Path, num_rounds: int, **given: Any) -> Any:
    """Return a saved state after `num_rounds` rounds whose clients recorded their spending."""
    clients, method, secret = secret_clients(folder / "record", **given), Descent(0.1), Streams.secure(1)
    state = drive(method, clients, method.init(torch.ones(1, 2), clients), secret, num_rounds)
    client_checkpoint.save(folder, state, clients, secret)
    return state


def resumed(folder: Path, **given: Any) -> tuple[Clients, Any, Streams]:
    clients = secret_clients(folder / "record", **given)
    return clients, *client_checkpoint.resume(folder, Descent(0.1).init(torch.ones(1, 2), clients), clients)


def test_rounds_that_were_sent_count_however_often_a_client_crashes(tmp_path: Path):
    half = begun(tmp_path, 2)
    one = float(half.oracle.meter.spent[0, 0]) / 2
    for crash in range(5):
        clients, state, streams = resumed(tmp_path)
        assert state.oracle.meter.calls.tolist() == [[2 + crash] * 4] and int(state.steps) == 2
        state = drive(Descent(0.1), clients, state, streams, 1)
        assert state.oracle.meter.spent[0].tolist() == pytest.approx([one * (3 + crash)] * 4)
    clients, state, streams = resumed(tmp_path)
    found = drive(Descent(0.1), clients, state, streams, 50)
    assert found.oracle.meter.calls.tolist() == [[20] * 4] and found.status.tolist() == [Status.FINISHED]
    assert int(found.steps) == 15, "rounds that were lost count towards T"
    claim = clients.guarantee(found.oracle, 1e-6, streams)[0]
    noise = (0.5 / one) ** 0.5
    assert claim.epsilon == account([Event(noise, Relation.REPLACE_ONE, WHOLE, 20)], 1e-6).epsilon


def test_what_a_client_spent_is_on_the_disk_before_anything_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    begun(tmp_path, 2)
    files_there = [*(tmp_path / "record").iterdir()]
    assert [each.stat().st_mode & 0o777 for each in files_there] == [0o600] * 4
    clients, state, streams = resumed(tmp_path)
    before = [each.read_bytes() for each in files_there]

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "record")

    def killed(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Blocks, "sum", killed)
    with monkeypatch.context() as disk:
        disk.setattr(files, "write", full)
        with pytest.raises(OSError, match="No space left"):
            clients.estimate(state.oracle, state.x, streams, ACTIVE[:1])
    assert [each.read_bytes() for each in files_there] == before
    clients, state, streams = resumed(tmp_path)
    with pytest.raises(KeyboardInterrupt):  # between its record and its message
        clients.estimate(state.oracle, state.x, streams, ACTIVE[:1])
    assert resumed(tmp_path)[1].oracle.meter.calls.tolist() == [[3] * 4]


def test_a_run_that_begins_anew_beside_what_was_sent_is_refused(tmp_path: Path):
    begun(tmp_path, 2)
    clients, method = secret_clients(tmp_path / "record"), Descent(0.1)
    with pytest.raises(
        ValueError, match=r"Expected state to be the newest: .*client-0.spent says that later rounds were sent"
    ):
        drive(method, clients, method.init(torch.ones(1, 2), clients), Streams.secure(1), 1)
    without = replace(clients, record=None)
    with pytest.raises(ValueError, match="Expected oracle.record=None to be a folder"):
        client_checkpoint.save(tmp_path, method.init(torch.ones(1, 2), without), without, Streams.secure(1))
    with pytest.raises(ValueError, match="record=None"):
        client_checkpoint.resume(tmp_path, method.init(torch.ones(1, 2), without), without)
    kept = (tmp_path / "record" / "client-2.spent").read_bytes()
    (tmp_path / "record" / "client-2.spent").write_bytes(b"cut short")
    with pytest.raises(ValueError, match="client-2.spent"):
        resumed(tmp_path)
    (tmp_path / "record" / "client-2.spent").unlink()
    with pytest.raises(ValueError, match="client-2.spent: its client had sent 2 rounds before the checkpoint"):
        resumed(tmp_path)
    other = tmp_path / "other"
    begun(other, 1)
    shutil.copy(other / "record" / "client-2.spent", tmp_path / "record")
    with pytest.raises(ValueError, match="client-2.spent to be of this run: it counts less than the checkpoint"):
        resumed(tmp_path)
    (tmp_path / "record" / "client-2.spent").write_bytes(kept)
    resumed(tmp_path)  # control


def test_a_tree_s_noise_is_not_made_up_again(tmp_path: Path):
    begun(tmp_path, 1, mechanism=Tree(16))
    clients, state, streams = resumed(tmp_path, mechanism=Tree(16))
    drive(Descent(0.1), clients, state, streams, 1)  # control: nothing was sent after the checkpoint
    with pytest.raises(ValueError, match="Expected the checkpoint to include round 2, which was sent"):
        resumed(tmp_path, mechanism=Tree(16))


def test_all_clients_go_on_after_the_last_round_that_one_has_sent(tmp_path: Path):
    begun(tmp_path, 2)
    clients, state, streams = resumed(tmp_path)
    kept = {k: (tmp_path / "record" / f"client-{k}.spent").read_bytes() for k in (2, 3)}
    drive(Descent(0.1), clients, state, streams, 1)
    for k, content in kept.items():  # its process crashed earlier
        (tmp_path / "record" / f"client-{k}.spent").write_bytes(content)

    def go_on(processes: Any) -> Any:
        _, state, _ = resumed(tmp_path, processes=processes)
        return state.oracle.meter.calls.tolist(), state.oracle.meter.spent.tolist()

    (one, spent), (two, unspent) = together(2, go_on)
    assert one == two == [[3, 3]] and spent[0][0] == pytest.approx(1.5 * unspent[0][0])


def test_secret_clients_go_on_with_fresh_noise(tmp_path: Path):
    begun(tmp_path, 3)
    for each in tmp_path.glob("*.pt"):
        stored = torch.load(io.BytesIO(files.unsealed(each)), weights_only=True)
        assert stored["secret_seed"] and stored["keys_hash"] is None
    gradients = []
    for _ in range(2):  # continuing twice from one checkpoint draws different noise
        clients, state, streams = resumed(tmp_path)
        assert streams.secret
        gradients.append(clients.estimate(state.oracle, state.x, streams, ACTIVE[:1])[1].gradient)
    assert not (gradients[0] == gradients[1]).any()
    with pytest.raises(ValueError, match="its noise is secret"):
        client_checkpoint.resume(tmp_path, Descent(0.1).init(torch.ones(1, 2), clients), clients, STREAMS)


@pytest.mark.slow
def test_processes_that_are_killed_go_on_in_another_number_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = kept_path(5, 1, ALONE, tmp_path / "whole")
    folder = tmp_path / "kept"
    monkeypatch.setenv("KEPT", str(folder))
    numbers = []
    for num_processes, kill in ((2, 5), (3, 2), (1, 12)):  # in the middle of a checkpoint, and at the server's file
        out = tmp_path / f"{num_processes}"
        started = start(out, num_processes, 5, 1, f"kill{kill}")
        started[-1].communicate(timeout=120)
        assert started[-1].returncode == -signal.SIGKILL
        for said in ended(out, started, range(num_processes - 1)) if num_processes > 1 else ():
            assert re.search(f"rank {num_processes - 1} did not come to round", said), said
        numbers.append(len([*folder.iterdir()]))
    assert numbers[0] > 6, "files of two checkpoints, of which one is whole"
    for found in ended(tmp_path / "end", start(tmp_path / "end", 2, 5, 1)):
        assert torch.equal(found, whole)
    assert len([*folder.iterdir()]) == 6


# ---------------------------------------------------------------- guarantees
def test_claims_are_a_client_s_own_and_the_weakest_is_the_run_s():
    clients = oracle(5, 2, ALONE)
    weak = replace(clients.oracles[1], budget=2 * clients.oracles[1].budget)
    clients = replace(clients, oracles=(clients.oracles[0], weak, clients.oracles[2]))
    state = clients.init(X)
    for _ in range(3):
        state, _ = clients.estimate(state, X, STREAMS, ACTIVE)
    claims = clients.claims(state, 1e-6, STREAMS)
    assert [len(run) for run in claims] == [5, 5]
    assert (
        claims[0][0].epsilon
        < claims[0][2].epsilon
        == claims[0][3].epsilon
        == clients.guarantee(state, 1e-6, STREAMS)[0].epsilon
    )
    event = Event((0.5 / 0.6) ** 0.5, Relation.REPLACE_ONE, FRESH, 1)
    assert claims[1][4].epsilon == account([event], 1e-6).epsilon
    assert all({MESSAGES, OWN_RECORDS} <= {*claim.assumptions} for run in claims for claim in run)
    assert (state.meter.spent <= 1.2 * (1 + 1e-9)).all() and (state.meter.spent > 0).all()
    assert clients.declared().tolist() == [1.2, 1.2]
    assert clients.totals().tolist() == [clients_worker.sizes(5)] * 2


def test_the_run_s_claim_rests_on_what_any_client_s_does():
    """For equal epsilons the first claim was taken, without the assumptions of the others."""
    problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)

    def oracle_of(members: range) -> MinibatchGradient:
        std = torch.full((len(members),), 0.1, dtype=torch.float64)
        clipped = 0 in members
        return MinibatchGradient(problem, WHOLE, std, 2.0, 4, Relation.REPLACE_ONE, clipped=clipped, check=0)

    clients, streams = Clients.of(oracle_of, Blocks(4, 2), 1), Streams.of(0, ["a"])
    state = clients.init(torch.ones(1, 2))
    (claims,), (whole,) = clients.claims(state, 1e-6, streams), clients.guarantee(state, 1e-6, streams)
    assert {claim.epsilon for claim in claims} == {whole.epsilon}
    assert {*whole.assumptions} == {each for claim in claims for each in claim.assumptions}
    assert {*claims[3].assumptions} - {*claims[0].assumptions}, "control: the first claim does not say all"


def answering(processes: Any = ALONE, others: Sequence[int] = (1,), **other: Any) -> Clients:
    """Return two clients, of which `others` answer under other terms."""
    problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)

    def oracle_of(members: range) -> Any:
        terms = other if members[0] in others else {}
        relation, std = terms.get("relation", Relation.REPLACE_ONE), torch.full((1,), 0.1, dtype=torch.float64)
        if "noise" in other:
            noise, mechanism = FixedNoise.of([uniform(0.1, 4)]), terms.get("noise", Gaussian())
            return ClippedGradient(problem, 2.0, noise, relation, mechanism=mechanism)
        std = std / terms.get("precision", 1.0)
        return MinibatchGradient(problem, terms.get("sampling", WHOLE), std, 2.0, 4, relation, clipped=True)

    return Clients.of(oracle_of, Blocks(2, 1, processes), 1)


OTHER_TERMS = {
    "relation": Relation.ZERO_OUT, "sampling": Sampling.fixed_size(5, 50), "noise": Wrapped(Gaussian()),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_TERMS)
def test_processes_claim_and_price_alike(name: str):
    def begin(**terms: Any) -> Callable[[Any], str]:
        def work(processes: Any) -> str:
            try:
                answering(processes, **terms).init(torch.ones(1, 2))
            except ProcessLost as lost:
                return str(lost)
            return ""

        return work

    assert all(f"has {name}=" in said for said in together(2, begin(**{name: OTHER_TERMS[name]})))
    assert together(2, begin()) == ["", ""], "control: on the same terms they begin"


def test_the_price_of_a_round_is_no_less_than_any_client_s():
    with pytest.raises(ValueError, match="Expected oracles of one relation, got zero-out-one beside replace-one"):
        answering(relation=Relation.ZERO_OUT)
    fixed = OTHER_TERMS["sampling"]
    for terms, expected in (
        ({}, (WHOLE, "gaussian")),
        ({"sampling": fixed}, (WHOLE, "gaussian")),
        ({"others": (0, 1), "sampling": fixed}, (fixed, "gaussian")),
        ({"noise": OTHER_TERMS["noise"]}, (WHOLE, "zcdp")),
        ({"others": (0, 1), "noise": OTHER_TERMS["noise"]}, (WHOLE, "zcdp")),
    ):
        clients, x = answering(**terms), torch.ones(1, 2)
        _, estimate = clients.estimate(clients.init(x), x, Streams.of(0, ["a"]), ACTIVE[:1])
        assert (estimate.price.sampling, estimate.price.noise) == expected


@pytest.mark.parametrize("heaviest", [0, 1])
def test_the_price_of_a_round_is_that_of_the_client_that_pays_most(heaviest: int):
    def rho(processes: Any) -> float:
        clients, x = answering(processes, (heaviest,), precision=3.0), torch.ones(1, 2)
        return clients.estimate(clients.init(x), x, Streams.of(0, ["a"]), ACTIVE[:1])[1].price.rho().item()

    one = 0.5 * (2 * 2.0 / 50 / 0.1) ** 2
    assert [rho(ALONE), *together(2, rho)] == pytest.approx([9 * one] * 3, rel=1e-12)


@pytest.mark.parametrize("name", ["two answers", "tree", "square root", "Laplace", "Gaussian"])
def test_a_round_costs_what_a_client_does(name: str):
    """The multiplier of the first answer is not the price of a sum, of Laplace noise, or of two answers."""
    one = torch.ones(1, dtype=torch.float64)
    problem = Quadratic.sample(torch.ones(1, dtype=torch.float64), num_examples=50, spread=0.5, seed=0)
    data = VirtualData(Separable([(Cosine(1.0), 1)]), Separable([(Sine(0.5), 1)]))

    def oracle_of(members: range) -> Any:
        if name == "two answers":
            return ClippedGradient(problem, 2.0, LossAdaptiveNoise(one, 0.02 * one, 1.5, one))
        if name == "Laplace":
            return ClippedGradient(problem, 2.0, FixedNoise.of([uniform(1.0, 2)]), mechanism=Laplace())
        mechanism = {"tree": Tree(16), "square root": BandedSquareRoot(4, 4), "Gaussian": Gaussian()}[name]
        return Spider(
            VirtualSamples(data, torch.tensor([5000])), mechanism, 1.0, 8 * one, Refresh.squared_moves(0.5),
            BatchSizes(100, 10), gradient_bound=2.0, smoothness=2.0, term_sensitivity=0.05,
        )  # fmt: skip

    x, streams, active = torch.ones(1, 1, dtype=torch.float64), Streams.of(0, ["a"]), ACTIVE[:1]
    clients, alone = Clients.of(oracle_of, Blocks(2, 1), 1), oracle_of(range(1))
    state, estimate = clients.estimate(clients.init(x), x, streams, active)
    price = alone.estimate(alone.init(x), x, streams, active)[1].price
    torch.testing.assert_close(estimate.price.rho(), price.rho(), rtol=1e-12, atol=0)
    assert estimate.price.rho().item() <= state.meter.spent.amax().item() * (1 + 1e-12)


@pytest.mark.slow
def test_what_a_client_sends_is_as_private_as_it_says_by_its_exact_transcript():
    """Every neighbour of client 1's data is checked at the worst position, by the means to send, without noise."""
    size, runs = 24, 1
    rows = Streams.of("neighbours", ["data"]).normal("a", 0, 3 * size * 2).view(3 * size, 2)
    mine = torch.arange(size, 2 * size)

    def transcript(data: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        problem = CustomProblem(lambda x, a: (2 * (x - a)).cos().sum() / 2, 2, data)
        parts = torch.arange(3 * size).split(size)

        def oracle_of(members: range) -> Spider:
            samples = ClientSamples.of(problem, [parts[client] for client in members], runs)
            budget = torch.full((runs * len(members),), 0.5 * (1 + 1e-9), dtype=torch.float64)
            return Spider(
                samples, Gaussian(), 1.0, budget, Refresh.squared_moves(0.5), BatchSizes(8, 4), gradient_bound=1.0,
                smoothness=2.0,
            )  # fmt: skip

        clients = Clients.of(oracle_of, Blocks(3, 2), runs)
        state, sent, scales = clients.init(rows[:1]), [], []
        for step in range(3):  # the points of one transcript
            plan = clients.plan(state, torch.full((1, 2), 0.1 * step, dtype=torch.float64), torch.tensor([True]))
            scales.append(plan.parts[0].asks[0].noise_std[1])
            state, _ = clients.release(plan, Streams.of(0, ["a"]))
            sent.append(state.memory.gradient[0, 1])
        return [sent[0], *(b - a for a, b in zip(sent, sent[1:], strict=False))], scales

    base, scales = transcript(rows)
    worst = 0.0
    for place in mine.tolist():
        for value in (0.8, -0.8):  # gradients of exactly the clipping norm, in either direction
            other = rows.clone()
            other[place] = value
            moved, _ = transcript(other)
            ratio = sum(float(((a - b) / s).square().sum()) for a, b, s in zip(base, moved, scales, strict=True))
            worst = max(worst, ratio / 2)
    assert worst <= 0.5 * (1 + 1e-6), "zCDP of the exact transcript"
    assert worst > 0.25, "some neighbour comes near"
    other = rows.clone()
    other[0] = 50.0  # client 0's example does not change client 1's messages
    assert all(torch.equal(a, b) for a, b in zip(base, transcript(other)[0], strict=True))


# ---------------------------------------------------------------- holdings
def test_a_client_alone_is_a_data_set_of_its_own():
    problem = Quadratic.sample(torch.tensor([1.0, 0.1]).double(), num_examples=50, spread=0.5, seed=0)
    held = torch.tensor([7, 3, 9, 30, 31])
    streams, none = Streams.of(0, ["a", "b"]), torch.zeros(2, dtype=torch.int64)
    source = ClientSamples.of(problem, [held, torch.arange(10, 30)], 1)
    x = torch.ones(2, 2, dtype=torch.float64)
    batch = source.batch(none, torch.tensor([5, 20]), streams, none)
    found = batch.term(x, x, none == 0, torch.full((2,), 1e9, dtype=torch.float64))
    each = problem.gradients(x[:1], held[None]).weighted_sum(torch.full((1, 5), 0.2).double())
    torch.testing.assert_close(found[:1], each)
    assert source.total.tolist() == [5, 20] and source.basis == "enforced"
    part = source.take(torch.tensor([1]))
    assert part.total.tolist() == [20]
    for wrong in ([torch.tensor([0, 0])], [torch.tensor([50])], [torch.tensor([-1])], [torch.arange(0)]):
        with pytest.raises(ValueError, match="each once"):
            ClientSamples.of(problem, wrong, 1)


def test_tilts_add_up_to_nothing_and_leave_differences_alone():
    data = VirtualData(Separable([(Cosine(1.0), 2)]), Separable([(Sine(0.5), 2)]))
    tilts = torch.tensor([[0.5, 0.0], [-0.5, 0.0]], dtype=torch.float64)
    plain, none, x = VirtualSamples(data, 100), torch.zeros(2, dtype=torch.int64), torch.ones(2, 2).double()
    streams, bound = Streams.of(0, ["a", "b"]), torch.ones(2).double()
    terms = [
        source.batch(none, none + 5, streams, none).term(x, 0 * x, new, bound)
        for source in (plain, TiltedSamples(plain, tilts))
        for new in (none == 0, none == 1)
    ]
    torch.testing.assert_close(terms[2] - terms[0], tilts)
    assert torch.equal(terms[3], terms[1])
    with pytest.raises(ValueError, match="not clipped"):
        TiltedSamples(DataSetSamples(Quadratic.sample(torch.ones(2), num_examples=5, spread=0.5, seed=0)), tilts)


def test_a_small_concentration_deals_labels_unevenly():
    labels = torch.arange(3000) % 10
    shares = {}
    for concentration in (0.05, 1000.0):
        parts = dirichlet_split(labels, 8, concentration, "split")
        assert sorted(torch.cat(parts).tolist()) == [*range(3000)] and min(map(len, parts)) > 0
        counts = torch.stack([labels[part].bincount(minlength=10) for part in parts]).double()
        shares[concentration] = float((counts / counts.sum(1, keepdim=True)).amax(1).mean())
    assert shares[0.05] > 0.4 > 0.2 > shares[1000.0]
    assert all(map(torch.equal, dirichlet_split(labels, 8, 1.0, "a"), dirichlet_split(labels, 8, 1.0, "a")))
    with pytest.raises(ValueError, match="one a client or more"):
        dirichlet_split(labels[:3], 4, 1.0, 0)


def test_bad_input_is_named():
    clients = clients_of([1000] * 4)
    for call, message in (
        (lambda: Clients(clients.oracles[:1], clients.blocks, RUNS), "oracles"),
        (lambda: Clients(clients.oracles, clients.blocks, 3), "num_runs=3 of 2 clients"),
        (lambda: clients.init(X[:1]), "x"),
        (lambda: clients.estimate(clients.init(X), X[:1], STREAMS, ACTIVE), r"x of shape \(1, 7\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
