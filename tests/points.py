"""Points at which calculators are asked."""

import random

from dpnotes.theory.calculators import Calculator


def drawn(calculator: Calculator) -> dict[str, float]:
    """A number of moderate size inside of each parameter's domain; they need not go together."""
    inside = {name: symbol.domain.draw(random.Random(0)) for name, symbol in calculator.parameters.items()}
    return {name: float(value) if value.q > 1 else int(value) for name, value in inside.items()}
