"""Points at which tests evaluate calculators."""

import random

from dpnotes.theory.calculators import Calculator


def drawn(calculator: Calculator) -> dict[str, float]:
    """Return a number of moderate size inside each parameter's domain; the numbers need not be compatible."""
    inside = {name: symbol.domain.draw(random.Random(0)) for name, symbol in calculator.parameters.items()}
    return {name: float(value) if value.q > 1 else int(value) for name, value in inside.items()}
