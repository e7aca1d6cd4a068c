"""One subpackage per paper; a paper elsewhere has an entry point `dpnotes.papers`. None of them is imported here."""

import functools
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import traceback
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpnotes.theory import methods as theory_methods
    from dpnotes.theory.calculators import Calculator
    from dpnotes.theory.claims import Claim, Paper

PAPERS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))  # of this repository
RESERVED = ("all", "privacy", "train")  # what commands call something else


class PaperWarning(UserWarning):
    """A paper is left out, because it fails to import or its key is taken."""


def packages() -> dict[str, str]:
    """Return the package of each paper by its key: the folders here, then the entry points `dpnotes.papers`.

    Nothing is imported. An entry point whose key is taken is left out, with a `PaperWarning`.

    >>> packages()["budget_schedules"]
    'dpnotes.papers.budget_schedules'
    """
    found = {key: f"{__name__}.{key}" for key in PAPERS}
    for key, package in _entry_points():
        if not key.isidentifier() or key in RESERVED:
            _left_out(f"The paper {key} of {package} is left out: its key is no name that a paper can have.")
        elif found.setdefault(key, package) != package:
            _left_out(f"The paper {key} of {package} is left out: {found[key]} has this key.")
    return found


def part(key: str, name: str) -> ModuleType | None:
    """Return a module of a paper, such as its `notation`; None if the paper has no such module.

    Raises:
      ValueError: there is no such paper, or it fails to import.

    >>> part("budget_schedules", "notation").__name__
    'dpnotes.papers.budget_schedules.notation'
    """
    # An unknown key or one of an entry point needs the list of all; the papers here do not.
    package = f"{__name__}.{key}" if key in PAPERS else packages().get(key)
    if package is None:
        raise ValueError(f"Expected {key!r} to be one of: {', '.join(packages())}.")
    import dpnotes.theory.cache as cache  # first: it must know when the source was loaded

    try:
        module = importlib.import_module(f"{package}.{name}") if importlib.util.find_spec(f"{package}.{name}") else None
        if name == "claims" and module is not None:
            if module.PAPER.key != key or not isinstance(module.CLAIMS, Sequence):
                raise ValueError(f"PAPER.key is {module.PAPER.key!r}")
            cache.remember(key, module)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} at {place.filename}:{place.lineno}: {error}"
        raise ValueError(f"Expected the paper {key} of {package} to import, got {what}") from error
    return module


def parts(name: str) -> list[ModuleType]:
    """Return this module of every paper that has one; a paper that fails to import is left out, with a `PaperWarning`.

    >>> len(parts("notation")) >= len(PAPERS)
    True
    """
    found = []
    for key in packages():
        try:
            found.append(part(key, name))
        except ValueError as error:
            _left_out(f"A paper is left out: {error}")
    return [module for module in found if module is not None]


@functools.cache
def _entry_points() -> tuple[tuple[str, str], ...]:
    """The keys and packages of the entry points."""
    return tuple(sorted((one.name, one.value) for one in importlib.metadata.entry_points(group=__name__)))


def _left_out(message: str) -> None:
    warnings.warn(message, PaperWarning, stacklevel=3)


def paper(key: str) -> "Paper":
    """Return the title, authors and citation of a paper.

    >>> paper("budget_schedules").year
    2022
    """
    return _claims_of(key).PAPER


def cards() -> "list[Paper]":
    """Return the titles, authors and citations of all papers.

    >>> [card.key for card in cards()][: len(PAPERS)] == [*PAPERS]
    True
    """
    return [module.PAPER for module in parts("claims")]


def claims(*names: str) -> "tuple[Claim, ...]":
    """Return the claims whose id equals or begins with one of the names; without names, the claims of all papers.

    Args:
      names: a paper (`budget_schedules`), a claim (`budget_schedules.thm4.5.schedule`) or its beginning.

    Raises:
      ValueError: a name fits no claim.

    >>> [claim.title for claim in claims("budget_schedules.lemma4.4.optimum")]
    ['Best schedule for any influence']
    """
    from dpnotes.theory.claims import select

    named = {name.split(".", 1)[0] for name in names}
    # Only the papers that are asked for are imported. An unknown name needs all of them, to suggest similar ids.
    known = PAPERS if named <= {*PAPERS} else packages()
    modules = [_claims_of(key) for key in known if key in named] if named and named <= {*known} else parts("claims")
    return select([claim for module in modules for claim in module.CLAIMS], names)


def claim(name: str) -> "Claim":
    """Return the claim with exactly this id.

    Raises:
      ValueError: no claim has this id; the message lists the claims whose ids begin with it, or similar ids.

    >>> claim("budget_schedules.lemma4.4")
    Traceback (most recent call last):
    ValueError: Expected 'budget_schedules.lemma4.4' to be one claim, got the beginning of
        budget_schedules.lemma4.4.optimum, budget_schedules.lemma4.4.gap.
    """
    found = claims(name)
    exact = [one for one in found if one.id == name]
    if not exact:
        raise ValueError(
            f"Expected {name!r} to be one claim, got the beginning of {', '.join(one.id for one in found)}."
        )
    return exact[0]


def calculators(key: str) -> "dict[str, Calculator]":
    """Return the calculators of a paper (or of `privacy`) by name, including those that no claim refers to.

    Raises:
      ValueError: there is no such paper.

    >>> calculators("adaptive_batch")["adaptive_batch.node"](t=5, rank=1)["num_nodes"]
    2.0
    """
    from dpnotes.theory.calculators import Calculator

    module = importlib.import_module(f"{__name__}.accountant") if key == "privacy" else part(key, "calculators")
    found = {name: value for name, value in vars(module or object).items() if isinstance(value, Calculator)}
    return {f"{key}.{name.lower()}": value for name, value in found.items()}


def methods() -> "tuple[theory_methods.Method, ...]":
    """Return the methods that the papers declare in a module `methods`, in the order of the papers.

    >>> {method.paper for method in methods()} <= set(packages())
    True
    """
    return tuple(method for module in parts("methods") for method in module.METHODS)


def _claims_of(key: str) -> ModuleType:
    """The module of a paper's claims, whose attributes are `PAPER` and `CLAIMS`."""
    if (module := part(key, "claims")) is None:
        raise ValueError(f"Expected the paper {key} to have a module `claims`.")
    return module
