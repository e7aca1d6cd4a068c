"""The names and numbers of the references: a value that comes from the data and is not released is named private."""

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dpnotes import papers
from dpnotes.papers.adaptive_batch import reference as adaptive
from dpnotes.papers.budget_schedules import reference as schedules
from dpnotes.papers.drift_escape import reference as escape
from dpnotes.papers.goldstein import reference as nonsmooth
from dpnotes.papers.noisy_sgd import reference as noisy

# Arguments that look at examples. Noise and random directions do not, and what is only added noise is not secret data.
DATA = {"gradients", "losses", "hessians", "minibatch", "values", "norm", "eigenvalue", "terms", "of_j"}
# A release by its name, and the numbers that the printed selection of a point publishes with noise of their own.
RELEASED = {"released", "length", "least"}
Name = tuple[str, str]  # a function and a variable of it


def names(node: ast.AST, context: type = ast.expr_context) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, context)}


def read(node: ast.AST) -> set[str]:
    """Return the names that an expression reads, and its private fields: of `last`, `last.private_mean`."""
    fields = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return names(node) | {field for field in fields if field.startswith("private_")}


def assigned(tree: ast.AST) -> Iterator[tuple[set[str], ast.AST]]:
    """Yield the names that each statement sets, with the expression that they are computed from, or depend on."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=some)], value=ast.Tuple(elts=others)) if len(some) == len(others):
                yield from ((names(one), other) for one, other in zip(some, others, strict=True))
            case ast.Assign(targets=[target], value=value) | ast.AugAssign(target=target, value=value):
                yield names(target), value
            case ast.For(
                target=ast.Tuple(elts=[_, target]), iter=ast.Call(func=ast.Name(id="enumerate"), args=[value, *_])
            ):
                yield names(target), value  # the count is public
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield names(target), value
            case ast.If(test=value) | ast.While(test=value):  # what a branch sets depends on the condition
                yield names(node, ast.Store), value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=target)) as value):  # such as `sent.append(released)`
                yield names(target), value


def secrets(source: str) -> set[Name]:
    """Return the variables that are computed from data by way of no released value, as pairs of function and name."""
    body = ast.parse(source).body
    tops = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    flows: set[tuple[Name, Name]] = set()
    released: set[Name] = set()
    for function, tree in tops.items():
        yielded = [classes[name] for name in re.findall(r"yield (\w+)\(", ast.unparse(tree))]
        fields = {
            name for each in yielded for node in each.body if isinstance(node, ast.AnnAssign) for name in names(node)
        }
        released |= {(function, field) for field in fields | RELEASED if not field.startswith("private_")}
        for targets, value in assigned(tree):
            flows |= {((function, source), (function, target)) for source in read(value) for target in targets}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for called in names(call.func) & tops.keys():
                given: list[Any] = [(each.arg, each.value) for each in call.keywords]
                given += zip((each.arg for each in tops[called].args.args), call.args, strict=False)
                flows |= {((function, source), (called, one)) for one, value in given for source in read(value)}
    ends = {name for flow in flows for name in flow}
    more = {name for name in ends if name[1] in DATA or name[1].startswith("private_")}
    found: set[Name] = set()
    while more:
        found |= more
        more = {into for source, into in flows if source in more} - found - released
    return found


def open_secrets(source: str) -> set[Name]:
    return {name for name in secrets(source) if not name[1].startswith("private_") and name[1] not in DATA}


def reference(paper: str) -> str:
    module = papers.part(paper, "reference")
    assert module is not None, "Expected the algorithm for one run, whole."
    return inspect.getsource(module)


@pytest.mark.obligation("reference")
def test_what_comes_from_data_and_is_not_released_is_named_private(paper: str):
    found = sorted(name for _, name in open_secrets(reference(paper)))
    assert not found, f"Expected names that begin with private_ for data that are not released, got {found}."


CONTROLS = {
    "rho": (schedules, "rho = 1 / sigma**2", "rho = 1 / sigma**2 + 0 * private_mean.norm()"),
    "longer": (noisy, "private_longer = int((private_lengths > C)", "longer = int((private_lengths > C)"),
    "summands": (escape, "private_terms = gradients(x, z)", "summands = gradients(x, z)"),
    "frozen": (adaptive, "frozen = Gamma if saddle", "frozen = Gamma if private_grad.norm() > 1"),
    "levels": (adaptive, "blocks = node(leaf, Sigma)", "blocks = node(leaf, int(private_grad.norm()))"),
    "slopes": (nonsmooth, "private_slopes = (losses(z", "slopes = (losses(z"),
    "free": (nonsmooth, "free = Delta - eta * last.g", "free = Delta - eta * last.private_g"),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_control_a_secret_with_another_name_is_found(name: str):
    module, line, instead = CONTROLS[name]
    source = inspect.getsource(module)
    assert line in source
    assert name in {variable for _, variable in open_secrets(source.replace(line, instead))}


def unnumbered(source: str) -> list[str]:
    """Return the lines with a condition `4 in printed` and no such number in their comment."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "printed":
            line = source.splitlines()[node.lineno - 1]
            numbers = {str(each.value) for each in ast.walk(node.left) if isinstance(each, ast.Constant)}
            found += [line] * (not numbers <= {*re.findall(r"\d+", line.partition("  # ")[2])})
    return found


@pytest.mark.obligation("reference")
def test_a_line_that_runs_as_printed_carries_its_number(paper: str):
    assert not (found := unnumbered(reference(paper))), f"Expected the numbers of their lines beside {found}."


def test_control_a_number_that_is_missing_is_found():
    source = inspect.getsource(noisy)
    assert len(unnumbered(source.replace("  # 4: the average", ""))) == 1
