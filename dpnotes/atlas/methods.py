"""The methods of all papers, and the combinations of two papers that none of them declares."""

from dataclasses import replace
from functools import cache

from dpnotes import papers
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import Method, stated
from dpnotes.theory.orders import Order


@cache
def methods() -> tuple[Method, ...]:
    """Return all methods, with promises for the population that follow by uniform deviation.

    The gradients of the population deviate from those of the data by G sqrt(d/n), and the Hessians by M sqrt(d/n), so
    that a second-order point of the data is one of the population at an accuracy that is larger by these terms.

    >>> [method.name for method in methods() if "noisy SGD" in method.name]
    ['noisy SGD', 'noisy SGD, and uniform deviation']
    """
    found = papers.methods()
    gradient, hessian = (papers.claim(f"adaptive_batch.{name}") for name in ("thmA.2.gradient", "own.net_hessian"))
    deviation = stated(gradient) | Order.of(hessian.statement.right)  # pyright: ignore[reportAttributeAccessIssue]
    combined = [
        replace(
            method,
            name=f"{method.name}, and uniform deviation",
            measure=Measure.SECOND_ORDER,
            claims=(*method.claims, gradient, hessian),
            order=method.order | deviation,
            printed=None,
            domain=tuple(replace(one, of=method.order) for one in method.domain),  # of the optimiser, on the data
            proved=None,
            note="A combination of ours.",
        )
        for method in found
        if method.measure is Measure.SECOND_ORDER_EMPIRICAL and method.order and not method.source
    ]
    return (*found, *combined)
