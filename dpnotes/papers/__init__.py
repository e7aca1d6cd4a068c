"""One subpackage per paper. Importing this package imports none of them."""

import importlib
import importlib.util
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpnotes.theory import methods as theory_methods
    from dpnotes.theory.calculators import Calculator
    from dpnotes.theory.claims import Claim, Paper

PAPERS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


def paper(key: str) -> "Paper":
    """Return the title, authors and citation of a paper.

    >>> paper("budget_schedules").year
    2022
    """
    return _claims_of(key).PAPER


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
    keys = [key for key in PAPERS if key in named] if named and named <= set(PAPERS) else PAPERS
    return select([claim for key in keys for claim in _claims_of(key).CLAIMS], names)


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

    >>> calculators("adaptive_batch")["adaptive_batch.tree_size"](Sigma=5)["nodes"]
    8.0
    """
    from dpnotes.theory.calculators import Calculator

    if key not in (*PAPERS, "privacy"):
        raise ValueError(f"Expected {key!r} to be one of: {', '.join((*PAPERS, 'privacy'))}.")
    where = "accountant" if key == "privacy" else f"{key}.calculators"
    module = importlib.import_module(f"dpnotes.papers.{where}")
    found = {name: value for name, value in vars(module).items() if isinstance(value, Calculator)}
    return {f"{key}.{name.lower()}": value for name, value in found.items()}


def methods() -> "tuple[theory_methods.Method, ...]":
    """Return the methods that the papers declare in a module `methods`, in the order of the papers.

    >>> {method.paper for method in methods()} == set(PAPERS)
    True
    """
    import dpnotes.theory.cache  # noqa: F401 - first, as for claims

    names = [f"dpnotes.papers.{key}.methods" for key in PAPERS]
    modules = [importlib.import_module(name) for name in names if importlib.util.find_spec(name)]
    return tuple(method for module in modules for method in module.METHODS)


def _claims_of(key: str):  # noqa: ANN202 - a module, whose attributes are PAPER and CLAIMS
    if key not in PAPERS:
        raise ValueError(f"Expected {key!r} to be one of: {', '.join(PAPERS)}.")
    import dpnotes.theory.cache  # noqa: F401 - first: it must know when the source was loaded

    return importlib.import_module(f"dpnotes.papers.{key}.claims")
