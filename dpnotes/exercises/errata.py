"""The exercise of notebooks/errata."""

from dpnotes.notebook.teaching import exercise
from dpnotes.theory.rates import Rate
from dpnotes.theory.verdicts import Kind

# The terms of the proof, as the notebook has them.
CONSTRAINTS = {
    "descent": "f_max/(T*alpha**2*eta)",
    "noise": "Delta**2*L*d*eta/alpha**2",
    "privacy": "L*T*f_max/(Delta**2*epsilon**2*n**2)",
}


@exercise
def find_exponent(answer):
    """Find the rate that follows. Put your `Rate(alpha, value, terms, tuned, constraints)` in place of the dots. You
    may try the printed value first, and read the verdict.

    Hints:
      The units tell you something before any algebra: alpha is a loss over a length, f_max is a loss.

      balance(terms, tuned, constraints) computes the best rate; print its .rate.

      Multiply the constraints, each to the power 1/4 (and alpha): eta, T and Delta cancel.
    """
    if not isinstance(answer, Rate):
        return "give a Rate(alpha, value, terms, tuned, constraints)."
    given = {name: str(term) for name, term in answer.constraints.items()}
    if given != CONSTRAINTS or str(answer.terms) != "{'alpha': alpha}" or len(answer.tuned) != 4:
        return "terms, tuned and constraints should be those above."
    verdict = answer.verdict()
    if verdict.kind == Kind.UNITS_DIFFER:
        return f"{verdict}."
    return (
        "" if verdict.kind == Kind.UP_TO_CONSTANTS else f"{verdict.kind}: a balance of these terms gives another rate."
    )
