"""Seeded random calls of all public functions, with arguments that are valid, on the edge of a domain, or hostile.

Valid calls come from a table `{name: [call, ...]}`, which `examples()` fills with the calls of
`tests/calls.py`. A fuzzed call changes one or two arguments of a valid one: any value may become a number,
strings and arrays become other strings and arrays, and records stay as they are. A fault of the result is reported as a
`Finding`.
"""

import contextlib
import inspect
import io
import math
import os
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typer.testing import CliRunner

import dpnotes
from dpnotes import papers
from dpnotes.cli.main import app
from dpnotes.core import Guarantee, Ledger
from tests import calls
from tests.public import numbers_of, within
from tests.test_bad_arguments import WORDS

LIMIT = 10  # seconds per call; a longer call counts as hanging
MEMORY = 8 * 2**30  # bytes that a call may allocate beyond those in use
SHARE_OF_COMMANDS = 0.1
Call = tuple[tuple[Any, ...], dict[str, Any]]


class Hang(BaseException):
    """The exception for a call that takes longer than `LIMIT`."""


@dataclass(frozen=True)
class Finding:
    """A fault: the function, its arguments, and the fault of the answer (kind "answer") or error (kind "error")."""

    name: str
    arguments: str
    wrong: str
    kind: str


# ---------------------------------------------------------------- public functions and their calls
def public() -> dict[str, Callable[..., Any]]:
    """Return the public functions, classes and methods that take a number, a flag or a word, by name."""
    return calls.DOORS | WORDS


def examples(named: Mapping[str, Callable[..., Any]]) -> dict[str, list[Call]]:
    """Return a valid call of each function, which also passes the optional numbers."""
    table: dict[str, list[Call]] = {}
    for name, function in named.items():
        taken = inspect.signature(function)
        bound, numbers = taken.bind_partial(), numbers_of(function)
        usual = {number: taken.parameters[number].default for number in numbers}
        given = {argument: value for argument, value in usual.items() if value is not inspect.Parameter.empty}
        bound.arguments.update(given | calls.example(name))
        table[name] = [(bound.args, bound.kwargs)]
    return table


# ---------------------------------------------------------------- arguments
_NUMBERS = [
    math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1.0, 0.5, 1e-300, 5e-324, 1e308, -1e308, 1 + 1e-16, 2.0**53, 1e-12,
]  # fmt: skip
_WHOLE = [0, -1, 1, 2, 3, 7, 2**31, 2**63, -(2**63), True]
_MUCH = 2**31  # steps, runs or draws; that many take a long time
_WRONG = [None, "1", "", "nonsense", [], {}, (), 1j, b"1", object(), [1.0], {"a": 1}, np.float64(0.5), np.int64(2)]


def hostile(value: Any, draw: random.Random) -> Any:
    """Return a replacement for a valid argument: of the same kind or another, within its domain or outside."""
    if isinstance(value, int | float) and draw.random() < 0.2:
        return draw.choice(_WRONG)
    if value is None:
        return draw.choice([*_NUMBERS, *_WHOLE])
    if isinstance(value, bool):
        return draw.choice([True, False, "nonsense", ""])
    if isinstance(value, str):
        return draw.choice(["nonsense", "", value])
    if isinstance(value, int):
        return draw.choice([*_WHOLE, value + 1, value - 1, float(value), *_NUMBERS[:4]])
    if isinstance(value, float):
        return draw.choice([*_NUMBERS, value * 0.9, value * 1.1, -value, 1, 0, 2.0**70])
    if isinstance(value, Tensor | np.ndarray):
        return _hostile_array(value, draw)
    if isinstance(value, list | tuple) and value:
        kept = list(value)
        if isinstance(kept[0], int | float):
            kept[draw.randrange(len(kept))] = draw.choice(_NUMBERS)
        return type(value)(draw.choice([kept, kept[:0], kept + kept])) if type(value) in (list, tuple) else None
    return value  # a record, which only the library makes, or a function


def _hostile_array(value: Any, draw: random.Random) -> Any:
    """Return an array with one entry, the shape or the type changed."""
    array = torch.as_tensor(value).detach().clone(memory_format=torch.contiguous_format)
    kind = draw.randrange(6)
    if kind <= 1 and array.numel():
        numbers = _NUMBERS if array.is_floating_point() else [0, -1, 1, 2**7]
        array.view(-1)[draw.randrange(array.numel())] = torch.tensor(draw.choice(numbers)).to(array.dtype)
    elif kind == 2 and array.dim():
        array = array[:0]
    elif kind == 3:
        array = array[None]
    elif kind == 4:
        array = array.flatten()
    elif kind == 5:
        kinds = [torch.float32, torch.float64] if array.is_floating_point() else [torch.int64, torch.bool]
        array = array.to(draw.choice(kinds))
    return array if isinstance(value, Tensor) else array.numpy()


# ---------------------------------------------------------------- faults of results
def numbers(value: Any) -> Iterator[float]:
    """Yield the numbers in a value, of a large array the first 1,000."""
    for part in within(value, 3):
        if isinstance(part, Tensor | np.ndarray):
            with contextlib.suppress(TypeError, ValueError):
                yield from map(float, (part.detach() if isinstance(part, Tensor) else part).reshape(-1)[:1000])
        elif isinstance(part, int | float) and not isinstance(part, bool):
            with contextlib.suppress(OverflowError):
                yield float(part)


def wrong_answer(function: Callable[..., Any], call: Call, answer: Any) -> str:
    """Return the fault of an answer, or "": NaN from numbers, an impossible guarantee, or missing noise."""
    claims = [part for part in within(answer, 3) if isinstance(part, Guarantee)]
    for claim in claims:
        if math.isnan(claim.epsilon) or claim.epsilon < 0 or math.isnan(claim.delta) or claim.delta < 0:
            return f"claims epsilon = {claim.epsilon}, delta = {claim.delta}"
    if any(math.isfinite(claim.epsilon) and claim.holds for claim in claims):
        for ledger in (part for part in within(answer, 3) if isinstance(part, Ledger)):
            if any(bool((price.charged & (price.noise_multiplier == 0)).any()) for price in ledger.prices):
                return "claims a finite epsilon for a release without noise"
    given = list(numbers([*call[0], *call[1].values()]))
    told = re.search(r"\bNaN\b|not a number|\bdiverges?\b", inspect.getdoc(function) or "")
    if all(map(math.isfinite, given)) and any(map(math.isnan, numbers(answer))) and not told:
        return "NaN from finite numbers, and the docstring does not say so"
    return ""


def wrong_error(function: Callable[..., Any], error: BaseException) -> str:
    """Return the fault of an error, or "": its type, its length, or that it names no argument."""
    text = str(error)
    kind = type(error).__name__
    code = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    given = [place for place, c in enumerate(code) if c.co_name == "<lambda>" and c.co_filename == calls.__file__]
    if given and not any(map(_ours, code[given[-1] :])):
        return ""  # raised by the function that was passed in, outside our code
    if isinstance(error, Hang):
        return f"no answer within {LIMIT} s"
    documented = re.search(rf"\b{kind}\b", inspect.getdoc(function) or "")
    if not (isinstance(error, ValueError | TypeError) or documented):
        return f"{kind}: {text.splitlines()[0][:100] if text else ''}"
    if "\n" in text.strip():
        return f"{kind} of {len(text.splitlines())} lines: {text.splitlines()[0][:100]}"
    named = any(re.search(rf"\b{re.escape(name)}\b", text) for name in _names(function))
    if not (named or (text.startswith("Expected") and code and _ours(code[-1]))):  # torch says "Expected", too
        return f"{kind} that names no argument: {text[:100]}"
    return ""


def _ours(code: CodeType) -> bool:
    return code.co_filename.startswith(os.path.dirname(dpnotes.__file__))


def _names(function: Callable[..., Any]) -> list[str]:
    with contextlib.suppress(ValueError, TypeError):
        return [*inspect.signature(function).parameters, function.__name__]
    return [function.__name__]


# ---------------------------------------------------------------- calls
@contextlib.contextmanager
def limits(seconds: float = LIMIT) -> Iterator[None]:
    """Limit the time and the memory of a call while this context lasts."""

    def up(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def one_call(name: str, function: Callable[..., Any], call: Call, seconds: float = LIMIT) -> tuple[str, str]:
    """Call the function; return "answered" or "refused", and the fault, or ""."""
    try:
        with limits(seconds), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            answer = function(*call[0], **call[1])
    except (Exception, Hang) as error:
        given = [value for value in [*call[0], *call[1].values()] if isinstance(value, int | float)]
        much = any(isinstance(value, int) and value >= _MUCH for value in given)
        far = any(value != 0 and abs(value) < math.inf and not 1e-150 < abs(value) < 1e150 for value in given)
        # If squares overflow, or counts exceed memory or time, the error says so, though it does not name the argument.
        full = re.search("overflow|allocat|maximum allowed dimension", str(error), re.IGNORECASE)
        reached = (much and isinstance(error, Hang | MemoryError)) or (
            (much or far) and (full or isinstance(error, ArithmeticError))
        )
        return "refused", "" if reached else wrong_error(function, error)
    try:
        return "answered", wrong_answer(function, call, answer)
    except Exception as error:
        return "answered", f"an answer that cannot be looked at: {type(error).__name__}"


def changed(call: Call, draw: random.Random) -> Call:
    """Return the call with one or two arguments replaced, or in one case of twenty unchanged."""
    positional, named = list(call[0]), dict(call[1])
    places: list[Any] = [*range(len(positional)), *named]
    if not places or draw.random() < 0.05:
        return call
    for place in draw.sample(places, min(len(places), draw.choice([1, 1, 1, 2]))):
        if isinstance(place, int):
            positional[place] = hostile(positional[place], draw)
        else:
            named[place] = hostile(named[place], draw)
    return tuple(positional), named


def shown(call: Call) -> str:
    """Return the arguments of a call as one line."""
    with contextlib.suppress(Exception):
        texts = [*map(repr, call[0]), *(f"{name}={value!r}" for name, value in call[1].items())]
        return " ".join(", ".join(text if len(text) <= 60 else f"{text[:57]}..." for text in texts).split())
    return "arguments that cannot be shown"


# ---------------------------------------------------------------- the command line
_WORDS = ["nan", "inf", "-1", "0", "1e400", "1", "0.5", "x=", "=1", "", "--json", "--", "-h", "none", "é", "a b", "2=3"]


def command(draw: random.Random) -> list[str]:
    """Return a random command line that reads, calculates or is refused, but computes no experiment."""
    claims = [claim.id for claim in papers.claims()]
    kind = draw.choice(["calc", "calc", "calc", "check", "cite", "run", "status", "results", "list", "clean", "junk"])
    claim = draw.choice([*claims, claims[0][:-1], "nothing", ""])
    if kind == "calc":
        chosen = draw.choice([c for c in papers.claims() if c.calculation is not None])
        names = chosen.calculator().parameters
        values = draw.choices(["1", "2", "0.5", "1e-6", "100", "1e6", *_WORDS[:7]], k=len(names))
        pairs = [f"{name}={value}" for name, value in zip(names, values, strict=True)]
        named = draw.choice([chosen.id] * 8 + [claim])
        return ["calc", named, *pairs, *draw.choice([[], [], ["--json"], [draw.choice(_WORDS)]])]
    if kind == "run":
        wrong = [["--jobs", "0"], ["--device", "tpu"], ["--memory", "lots"], ["--profile", draw.choice(_WORDS[:6])]]
        return ["run", draw.choice(["drift_escape.audit", "nothing", "goldstein"]), *draw.choice(wrong)]
    if kind == "results":
        named = draw.choice(["noisy_sgd.escape", "drift_escape.audit", "x"])
        return ["results", named, *draw.choice([[], ["--csv"], ["--json"]])]
    if kind == "clean":
        return ["clean", draw.choice(["noisy_sgd.escape", "nothing"]), "--profile", draw.choice(["quick", "nothing"])]
    if kind == "junk":
        return draw.choices([*_WORDS, "calc", "check"], k=draw.randrange(4))
    named = {"check": [claim or "nothing"], "cite": [claim]}.get(kind, [])
    return [kind, *named, *draw.choice([[], ["--json"], [draw.choice(_WORDS)]])]


def one_command(line: list[str], seconds: float = 6 * LIMIT) -> tuple[str, str]:
    """Run a command line in this process; the result is a finding unless it ends in an answer or a one-line error."""
    try:
        with limits(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = CliRunner().invoke(app, line, prog_name="dpnotes")
            if isinstance(result.exception, Hang):
                raise result.exception
    except Hang:
        return "refused", f"no answer within {seconds} s"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return "refused", f"{type(result.exception).__name__}: {str(result.exception)[:100]}"
    if result.exit_code == 0:
        quiet = line[:1] == ["clean"]  # prints nothing if there was nothing to remove
        return "answered", "" if result.output.strip() or quiet else "no output"
    errors = [text for text in result.stderr.splitlines() if text.strip()]
    usage = bool(errors) and errors[0].startswith("Usage:")  # the usage line, followed by the error
    remarks = all(line.startswith("dpnotes: ") for line in errors)
    if result.exit_code != 2 or not errors or (len(errors) > 1 and not usage and not remarks):
        return "refused", f"status {result.exit_code}, {len(errors)} lines of errors"
    return "refused", ""


# ---------------------------------------------------------------- the attack
@dataclass(frozen=True)
class Fuzz:
    """The result of a number of calls."""

    calls: int
    commands: int
    answered: int
    refused: int
    covered: int
    findings: tuple[Finding, ...]


def attack(
    number: int,
    named: Mapping[str, Callable[..., Any]] | None = None,
    table: Mapping[str, Sequence[Call]] | None = None,
    seed: int = 0,
    commands: float = SHARE_OF_COMMANDS,
    seconds: float = LIMIT,
) -> Fuzz:
    """Make `number` seeded calls of the functions in the table, and a share of them on the command line."""
    named = public() if named is None else named
    table = examples(named) if table is None else table
    names = sorted(name for name in table if table[name] and name in named)
    draw, counts, found = random.Random(seed), Counter[str](), dict[tuple[str, str], Finding]()
    used, lines = set[str](), 0
    with _apart():
        for _ in range(number):
            if draw.random() < commands:
                line = command(draw)
                lines += 1
                name, said = f"dpnotes {' '.join(line[:1])}", " ".join(line)
                became, wrong = one_command(line)
            else:
                name = draw.choice(names)
                call = changed(draw.choice(list(table[name])), draw)
                used.add(name)
                said, (became, wrong) = shown(call), one_call(name, named[name], call, seconds)
            counts[became] += 1
            if wrong:
                kind = "answer" if became == "answered" or wrong.startswith("no answer") else "error"
                found.setdefault((name, wrong), Finding(name, said, wrong, kind))
    return Fuzz(number, lines, counts["answered"], counts["refused"], len(used), tuple(found.values()))


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Give the command line its own folder for results and caches, and a memory limit."""
    before, (soft, hard) = dict(os.environ), resource.getrlimit(resource.RLIMIT_AS)
    streams = sys.stdout, sys.stderr  # a call that is ended by the time limit may leave its own streams in their place
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"DPNOTES_CACHE": f"{place}/cache", "DPNOTES_RESULTS": f"{place}/results"}
        os.makedirs(f"{place}/results")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
            os.environ.clear()
            os.environ |= before


def verdict(fuzz: Fuzz) -> list[str]:
    """Return the faults, one per line."""
    return [f"{f.name}({f.arguments}): {f.wrong}" for f in fuzz.findings]
