"""`python -m tests.attack beneath|lattice|kills|audits|mutants|all [--write]`: exit status 1 if anything is wrong.

`all` runs every attack except mutants, and takes at most 20 minutes on two cores. `--write` puts the figures into
docs/privacy.md, except for an attack that ran in part only (`--number`).
"""

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from tests.attack import audits, beneath, kills, lattice, mutants

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "privacy.md"
SIZES = {"beneath": 0, "lattice": lattice.RUNS, "kills": 20, "audits": 100, "mutants": mutants.NUMBER}
Part = tuple[list[str], list[str]]  # lines for the page, and a list of faults


def run_beneath(_: int) -> Part:
    rows = [
        f"Code that shows one example to another, in sums of {beneath.EXAMPLES} clipped gradients. In a neighbour one "
        f"example is {beneath.LONGER:,.0f} times as long: how far that moves the sum, over the bound of clipping. "
        "State that code keeps is what the assumption is about. Controls have no protection of the library's.",
        "",
        "| kind | pieces of code | refused | the claim lists the assumption | said to be enforced | moved, at most | "
        "controls: moved, at least |",
        "|---|---|---|---|---|---|---|",
    ]
    wrong = []
    for kind in beneath.KINDS:
        found, controls = beneath.attack(kind)
        says = Counter(each.says for each in found)
        rows.append(
            f"| {kind} | {len(found)} | {says['refused']} | {says['assumed']} | {says['enforced']} | "
            f"{max(each.moved for each in found):.3g} | {min(each.moved for each in controls):.3g} |"
        )
        wrong += beneath.verdict(found, controls)
    return rows, wrong


def run_lattice(number: int) -> Part:
    rows, wrong = ["| attack | answers told on secret streams | of the control |", "|---|---|---|"], []
    for name in lattice.ATTACKS:
        ours, control = lattice.attack(name)
        rows.append(f"| {name} | {ours} of {number} | {control} |")
        wrong += lattice.verdict(name, ours, control)
    return rows, wrong


def run_kills(number: int) -> Part:
    lines, wrong = [], []
    for name in kills.JOBS:
        found = kills.attack(name, number)
        differ = f"{len(found.different)} of {found.kills}" if found.different else "none"
        lines.append(
            f"{found.kills} kills -9 of a {name} at random moments after the first thing that it kept, and "
            f"{found.too_late} more that came too late. Of what was stored in the end, {differ} differed from the "
            "uninterrupted one's bytes."
        )
        wrong += [f"{name}: {what}" for what in found.different]
        wrong += [f"{name}: {found.kills} kills where {number} were asked for"] * (found.kills < number)
    left_out = ", ".join(sorted(kills.LEFT_OUT))
    return [*lines, f"Not compared, of a manifest: {left_out}."], wrong


def run_audits(number: int) -> Part:
    found, controls = audits.attacked(number)
    rejected = sum(a.p_value <= audits.LEVEL for a in found)
    rows = [
        f"{len(found)} audits by likelihood ratio, seeds and events fixed before, at level {audits.LEVEL:g} each; "
        f"{rejected} refute their claim (at most {audits.MOST_REJECTIONS} may: more have a chance of "
        f"{audits.CHANCE_OF_MORE}). Power: against half of the noise, at the same event and runs; the control is "
        "such a run.",
        "",
        "| door | audits | claim | proved, at most | least p | runs a side | power | control: proved | p |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for control in controls:
        of = [a for a in found if a.door == control.door]
        rows.append(
            f"| {control.door} | {len(of)} | {control.claim.epsilon:.3f} | {max(a.bound.epsilon for a in of):.3f} | "
            f"{min(a.p_value for a in of):.2g} | {control.bound.runs // 2:,} | {control.power:.3f} | "
            f"{control.bound.epsilon:.3f} | {control.p_value:.1g} |"
        )
    return rows, audits.verdict(found, controls)


def run_mutants(number: int) -> Part:
    outcomes = mutants.attack(mutants.chosen(number), report=lambda line: print(line, flush=True))
    killed, explained = sum(bool(o.killed_by) for o in outcomes), sum(bool(o.why) for o in outcomes)
    return [
        f"{len(outcomes)} mutants of one line in `oracles/`, `privacy/` and `methods/`: {explained} change nothing "
        f"that is promised (`tests/attack/mutants.csv` says why of each); of the others {killed} "
        f"({killed / (len(outcomes) - explained):.1%}) are killed by the tests of their part."
    ], mutants.verdict(outcomes)


ATTACKS: dict[str, Callable[[int], Part]] = {
    "beneath": run_beneath,
    "lattice": run_lattice,
    "kills": run_kills,
    "audits": run_audits,
    "mutants": run_mutants,
}


def with_figures(page: str, name: str, lines: list[str]) -> str:
    """Return the page with these lines between the markers of an attack.

    Raises:
      ValueError: the page does not contain each marker exactly once.
    """
    begin, end = f"<!-- attack: {name} -->", f"<!-- end: {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"Expected {begin} and {end} once each in {PAGE.name}.")
    before, rest = page.split(begin)
    return "\n".join([before + begin, "", *lines, "", end + rest.split(end)[1]])


def commit() -> str:
    """Return the version of the code that was attacked."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "not known"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("attack", choices=[*ATTACKS, "all"])
    parser.add_argument("--write", action="store_true", help="put the figures into docs/privacy.md")
    parser.add_argument("--number", type=int, help="of kills of each kind, audits or mutants")
    parser.add_argument("--workers", type=int, default=2, help="attacks at once")
    chosen = parser.parse_args(arguments)
    if chosen.write and chosen.number:
        parser.error("--write goes with the whole attack, without --number")
    names = ["beneath", "kills", "audits"] if chosen.attack == "all" else [chosen.attack]
    if len(names) > 1:  # in separate processes, because a memory limit or a signal affects a whole process
        return _all(names, chosen)
    torch.set_num_threads(1)
    begun = time.monotonic()
    lines, wrong = ATTACKS[names[0]](chosen.number or SIZES[names[0]])
    lines += ["", f"On {commit()}, in {(time.monotonic() - begun) / 60:.0f} minutes."]
    print("\n".join(lines))
    if chosen.write:
        PAGE.write_text(with_figures(PAGE.read_text(), names[0], lines))
    for what in wrong:
        print(f"WRONG: {what}")
    print(f"{names[0]}: {len(wrong)} findings", flush=True)
    return int(bool(wrong))


def _all(names: list[str], chosen: argparse.Namespace) -> int:
    options = [*(["--number", str(chosen.number)] if chosen.number else [])]

    def one(name: str) -> int:
        return subprocess.run([sys.executable, "-m", "tests.attack", name, *options, *write], cwd=ROOT).returncode

    write = ["--write"] if chosen.write else []
    with ThreadPoolExecutor(chosen.workers) as pool:
        return max(pool.map(one, names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
