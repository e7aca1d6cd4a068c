"""Commands about experiments and their results: run, verify, show, keep and transfer."""

import csv as csv_format
import json
import os
import re
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dpnotes import papers
from dpnotes.cli import catalogue
from dpnotes.cli.console import (
    ExperimentName,
    Json,
    Profile,
    app,
    columns,
    command,
    counted,
    fail,
    in_one_line,
    print_json,
)
from dpnotes.util import files, validate

if TYPE_CHECKING:
    from dpnotes.experiments import Experiment, Result
    from dpnotes.util.processes import Processes

LONG_UNVERIFIED = 60  # commits
_OTHERS_WAIT = 3  # exit code of a shard that is finished before the others

cells = typer.Typer(help="Finished cells of long runs: keep them beside the results, or carry them elsewhere.")
Names = Annotated[
    list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Or a paper for all of its; default: all.")
]
OneProfile = Annotated[str | None, typer.Option("--profile", help="Only this profile.")]
app.add_typer(cells, name="cells")


@command("run")
def run(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Or a paper for all of its, or all.")
    ] = None,
    profile: Profile = "quick",
    missing: Annotated[bool, typer.Option(help="What is not stored, the greatest value for its time first.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    memory: Annotated[
        str | None, typer.Option(help="What the run may hold, such as 4GB; default: most of what is free.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Keep finished cells and a stored result, or start afresh.")] = True,
    jobs: Annotated[int, typer.Option(help="Cells computed at once.")] = 1,
    shard: Annotated[str, typer.Option(help="3/16: every 16th cell, from the third on, for a batch queue.")] = "1/1",
    dask: Annotated[str | None, typer.Option(help="A scheduler whose workers compute the cells.")] = None,
    timeout: Annotated[float, typer.Option(help="Under torchrun: seconds that one process waits for another.")] = 120.0,
) -> None:
    """Run experiments and store their results.

    An interrupted run continues where it stopped, and ends with the same bytes. Clients of drift_escape may be shared
    out over processes: torchrun --nproc-per-node 4 -m dpnotes run drift_escape.clients. A finished shard ends with the
    exit code 3 while cells of others are missing.
    """
    with _joined(timeout) as processes:
        refusal, chosen, part = "", [], (1, 1)
        try:
            part = _shard(shard)
            if dask is not None and processes.size > 1:
                raise ValueError("Expected --dask without torchrun: either shares the work out.")
            chosen = _to_run(names or [], missing, profile, device, jobs, processes.size, part)
            catalogue.refuse_an_installation(chosen)
        except ValueError as error:
            refusal = str(error)
        for rank, each in enumerate(processes.gather_json(refusal)):
            if each and processes.rank == 0:
                fail(f"rank {rank}: {each}" if rank else each)
            if each:
                raise typer.Exit(2)
        settings: dict[str, Any] = {"device": device, "memory": memory, "resume": resume, "jobs": jobs, "shard": part}
        with _workers(dask) as elsewhere:
            code = _run_all(chosen, profile, missing, settings | elsewhere, processes)
        if code:
            raise typer.Exit(code)


def _run_all(
    chosen: "Sequence[Experiment]", profile: str, missing: bool, settings: dict[str, Any], processes: "Processes"
) -> int:
    """Run experiments one after another, and return the exit code."""
    from dpnotes import experiments as parts
    from dpnotes.experiments.runner import OthersWait

    code = 0
    for experiment in chosen:
        how = dict(settings)
        if missing:
            how["jobs"] = _jobs_that_fit(experiment, profile, how["device"], how["jobs"])
        try:
            parts.run(experiment, profile, **how, processes=processes, report=lambda line: typer.echo(line))
        except OthersWait as error:
            typer.echo(str(error))
            code = code or _OTHERS_WAIT
        except Exception as error:  # an experiment that cannot run here does not stop the others
            if not missing:
                raise
            code = 1
            what = f"{type(error).__name__}: {in_one_line(error)}"
            typer.echo(f"dpnotes: {experiment.id} {profile}: {what}", err=True)
    return code


def _shard(text: str) -> tuple[int, int]:
    """The number of a shard, from 1 on, and how many there are."""
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f"Expected --shard {text} to be like 3/16, the third of sixteen.")
    return int(found[1]), int(found[2])


@contextmanager
def _workers(address: str | None) -> Iterator[dict[str, Any]]:
    """A context with the settings of a run on the workers of a cluster; none without an address."""
    if address is None:
        yield {}
        return
    from dpnotes.experiments.cluster import ClusterError, workers

    try:
        with workers(address) as cluster:
            yield {"cluster": cluster}
    except (ClusterError, ImportError) as error:
        fail(error)


def _jobs_that_fit(experiment: "Experiment", profile: str, device: str, jobs: int) -> int:
    """The number of cells that fit on a GPU at once, by the memory that the experiment states for one."""
    from dpnotes.experiments import runner

    cost = experiment.wants.get(profile)
    if cost is None or not cost.gigabytes or not runner.has_gpu(device):
        return jobs
    return max(1, min(jobs, int(runner.free_memory("cuda")[1] / 1e9 / cost.gigabytes)))


def _to_run(
    names: Sequence[str],
    missing: bool,
    profile: str,
    device: str,
    jobs: int,
    num_processes: int,
    shard: tuple[int, int] = (1, 1),
) -> "list[Experiment]":
    """The experiments to run; an error in any of them is raised before the first long run."""
    from dpnotes.experiments import runner, store

    if not names and not missing:
        raise ValueError("Expected the name of an experiment or a paper, all, or --missing.")
    chosen = catalogue.experiments_of(names or ["all"])
    if missing:
        catalogue.check_profile(profile)
        return store.wanted(chosen, profile, on_gpu=runner.has_gpu(device))
    # A paper's name means those of its experiments that have the profile.
    chosen = [experiment for experiment in chosen if profile in experiment.specs or experiment.id in names] or chosen
    for experiment in chosen:
        experiment.spec(profile)
        runner.refuse(experiment, device, jobs, num_processes, shard)
    return chosen


@contextmanager
def _joined(timeout: float) -> "Iterator[Processes]":
    """A context with the processes that torchrun has started, or with this process alone."""
    from dpnotes.util.processes import ALONE, ProcessLost, Together

    validate.positive(timeout=timeout)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    # If a process dies, torchrun sends SIGTERM to the others: they have five seconds to find out which, and to report
    # it.
    signal.signal(signal.SIGTERM, lambda number, frame: signal.alarm(5))
    try:
        processes = Together(timeout)
    except RuntimeError as error:
        fail(error)
    try:
        yield processes
    except (ProcessLost, ValueError, OSError, MemoryError) as error:
        parts = [in_one_line(error).rstrip("."), *getattr(error, "__notes__", [])]
        typer.echo(f"dpnotes: rank {processes.rank}: {', '.join(parts)}.", err=True)
        _leave(2)
    except KeyboardInterrupt:
        _leave(130)
    except typer.Exit:
        processes.close()
        raise
    processes.close()


def _leave(status: int) -> NoReturn:
    """End this process without waiting for the other processes, which may be dead."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@command("chances")
def chances(
    name: ExperimentName,
    profile: Profile = "quick",
    simulations: Annotated[int, typer.Option(help="Results to draw in either case.")] = 200,
    as_json: Json = False,
) -> None:
    """Simulate how often an experiment's rule is right, where the paper's prediction or its nearest rival holds."""
    from dpnotes import experiments as parts

    found, counts = parts.simulate(catalogue.experiment(name), profile, simulations)
    if as_json:
        print_json({**asdict(found), "underpowered": found.underpowered, "verdicts": counts})
        return
    for case, words in (("prediction", found.prediction), ("rival", found.rival)):
        typer.echo(columns((case, 10), counted(simulations, "result", "results", Counter(counts[case])), words))
    typer.echo("underpowered" if found.underpowered else "the rule can decide")


@command("verify")
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Default: all.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only this profile.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Begin no cell that is not expected to end by then.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Put what agreed on record in the manifests.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Run cells of stored results again, longest unverified first; their numbers must equal the stored ones.

    Of each result at least one cell for every level of every factor. A difference is named by cell, column and row, and
    the exit status is 1, unless notebooks/results/PENDING.md says that the numbers are to change.
    """
    from dpnotes import experiments as parts

    pairs = _pairs(names, profile)
    validate.one_of(("auto", "cpu", "cuda"), device=device)
    if write:
        catalogue.refuse_an_installation()
    report = lambda line: typer.echo(line)  # noqa: E731
    found = parts.verify(pairs, minutes=minutes, write=write, device=device, report=report)
    if not found:
        wanted = f"{' '.join(names or ['any experiment'])}{f' with profile={profile!r}' if profile else ''}"
        raise ValueError(f"Expected a stored result of {wanted}, found none.")
    words = ["different" if each.differences else "agree" for each in found]
    typer.echo(counted(len(found), "result", "results", Counter(words)))
    if any(each.differences and each.result.state == "stored" for each in found):
        raise typer.Exit(1)


@command("status")
def status(
    write: Annotated[
        bool, typer.Option("--write", help="Also rewrite the lists, and put today's decisions on record.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the stored results, when they were computed and last agreed with today's code, and the missing results."""
    from dpnotes import experiments as parts

    experiments = catalogue.all_experiments()
    results = parts.status(experiments)
    if write:
        catalogue.refuse_an_installation()
        for experiment in experiments:
            for line in filter(None, (parts.decide_again(experiment, each) for each in experiment.specs)):
                typer.echo(line, err=True)
        here = [experiment for experiment in experiments if experiment.paper in papers.PAPERS]
        index = json.dumps(catalogue.index_of(here), indent=1) + "\n"
        texts = {"OUTSTANDING.md": parts.outstanding(here), catalogue.INDEX: index}
        files.write({parts.results_folder() / name: text.encode() for name, text in texts.items()})
    if as_json:
        print_json([asdict(result) for result in results])
        return
    width = max((len(result.experiment) for result in results), default=0)
    for result in results:
        typer.echo(columns((result.experiment, width), (result.profile, 5), (result.state, 10), result.reason))
    typer.echo(counted(len(results), "result", "results", Counter(result.state for result in results)))
    long = [f"{each.experiment} {each.profile}" for each in results if (each.unverified or 0) >= LONG_UNVERIFIED]
    if long:
        typer.echo(f"not verified for {LONG_UNVERIFIED} commits: {', '.join(long)} (dpnotes verify --write)")


_ROWS = 20  # of a table that is shown


@command("results")
def results(
    name: ExperimentName,
    profile: Annotated[
        str | None, typer.Option(help="quick, cpu or paper; default: the largest that is stored.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv")] = False,
    as_json: Json = False,
) -> None:
    """Show the answer of a stored result, with the facts behind it and its first rows."""
    from dpnotes import experiments as parts

    if csv and as_json:
        raise ValueError("Expected --csv or --json, got both.")
    result = (
        _largest(catalogue.experiment(name)) if profile is None else parts.load(catalogue.experiment(name), profile)
    )
    profile = result.spec.profile
    if not result.is_shown:
        raise ValueError(f"{name} {profile}: {result.reason}")
    if csv:
        if result.state != "stored":
            typer.echo(f"dpnotes: {name} {profile} is {result.state}: {in_one_line(result.reason)}", err=True)
        writer = csv_format.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.frame.columns)
        writer.writerows(result.frame.itertuples(index=False, name=None))
        sys.stdout.flush()
    elif as_json:
        rows = json.loads(result.frame.to_json(orient="records", double_precision=15) or "[]")
        print_json(
            {
                "state": result.state,
                "reason": result.reason,
                "decision": asdict(result.decision),
                "outcome": asdict(parts.outcome(result.experiment, result.decision)),
                "rows": rows,
                "manifest": result.manifest,
            }
        )
    else:
        for line in _remarks(result):
            typer.echo(line)
        typer.echo(f"\n{result.frame.head(_ROWS).to_string(index=False)}")
        if len(result.frame) > _ROWS:
            typer.echo(f"... {len(result.frame) - _ROWS} more rows: --csv or --json")


def _largest(experiment: "Experiment") -> "Result":
    """The result of the largest profile that has one as computed by today's code, else of one that may be shown."""
    from dpnotes.experiments import load
    from dpnotes.experiments.spec import PROFILES

    found = [load(experiment, profile) for profile in reversed(PROFILES) if profile in experiment.specs]
    shown = [one for one in found if one.is_shown]
    return next((one for one in shown if one.state == "stored"), [*shown, *found][0])


def _remarks(result: "Result") -> Iterable[str]:
    from dpnotes.experiments import outcome

    found = outcome(result.experiment, result.decision)
    remarks = [("question", found.question), ("answer", found), ("profile", result.spec.profile)]
    remarks += [("found", f"{name}: {fact}" if name else fact) for name, fact in found.facts]
    remarks += [("state", result.state), ("reason", result.reason), ("computed", f"{result.computed}; {result.agreed}")]
    remarks += [("rule", result.spec["decision_rule"]), ("chances", result.chances)]
    remarks += [("unaccounted", text) for text in result.experiment.unaccounted]
    return [columns((name, 11), str(text)) for name, text in remarks if str(text)]


@command("clean")
def clean(
    names: Annotated[list[str] | None, typer.Argument(metavar="PAPER.EXPERIMENT", help="Default: all.")] = None,
    profile: Annotated[str | None, typer.Option(help="Only this profile.")] = None,
) -> None:
    """Remove the cached cells of runs; results stay."""
    from dpnotes import experiments as parts

    catalogue.check_profile(profile)
    chosen = catalogue.experiments_of(names) if names else [None]
    freed = sum(parts.clean(experiment, profile) for experiment in chosen)
    typer.echo(f"{freed / 1e6:.1f} MB removed; results stay.")


# ---------------------------------------------------------------- cells
def _pairs(names: Sequence[str] | None, profile: str | None) -> "list[tuple[Experiment, str]]":
    """The pairs of experiment and profile that the arguments select."""
    catalogue.check_profile(profile)
    chosen = catalogue.experiments_of(names) if names else catalogue.all_experiments()
    pairs = [(experiment, each) for experiment in chosen for each in experiment.specs if profile in (None, each)]
    if not pairs:
        raise ValueError(f"Expected an experiment with profile={profile!r}, found none.")
    return pairs


@command("keep", cells)
def keep(names: Names = None, profile: OneProfile = None) -> None:
    """Put finished cells of results that are not complete beside the results, in parts of at most 1 MB to commit.

    `run` continues from them, here and in another clone; they are removed when the result is stored.
    """
    from dpnotes import experiments
    from dpnotes.experiments.cells import parts_folder

    catalogue.refuse_an_installation()
    total = 0
    for experiment, each in _pairs(names, profile):
        if count := experiments.keep(experiment, each):
            typer.echo(f"{experiment.id} {each}: {count} cells kept")
            total += count
    typer.echo(f"{total} cells kept in {parts_folder()}{': commit them' if total else ''}")


@command("export", cells)
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="To be written.")],
    names: Names = None,
    profile: OneProfile = None,
) -> None:
    """Write finished cells into one file, for another machine."""
    from dpnotes import experiments

    for name, count in experiments.export(_pairs(names, profile), file).items():
        typer.echo(f"{name}: {count} cells")
    typer.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB; there: dpnotes cells import {shlex.quote(str(file))}")


@command("import", cells)
def import_(file: Annotated[Path, typer.Argument(metavar="FILE", help="Or a folder of dpnotes gpu.")]) -> None:
    """Take cells from another machine; `run` continues from them.

    Refused are cells of other parameters or other data; then the exit status is 1.
    """
    from dpnotes import experiments

    found = experiments.bring(catalogue.all_experiments(), file)
    for words, counts in (("taken", found.added), ("here before", found.known), ("refused", found.refused)):
        for name, count in counts.items():
            typer.echo(f"{name}: {words}: {count}" if words == "refused" else f"{name}: {count} cells {words}")
    if not (found.added or found.known or found.refused):
        raise ValueError(f"Expected {file} to hold finished cells, found none.")
    if found.refused:
        raise typer.Exit(1)
