"""The time of the theory: an exact balance relative to a linear program in floats, and all claims.

    python benchmarks/theory.py

The exact balance finds all vertices for all values of the kept symbols at once; the linear program finds the optimum at
one point. Both are timed in turn on the same random instances (ten terms, three tuned symbols). On one core, the
targets are half a second per balance, a second per claim and a minute for all claims; the exit status is 1 if one is
missed.
"""

import random
import statistics
import sys
import time

import numpy as np
import sympy
from scipy.optimize import linprog

from dpnotes import papers
from dpnotes.theory.balance import balance, powers_of

NUM_TERMS, NUM_TUNED, NUM_KEPT, INSTANCES = 10, 3, 4, 40


def instance(seed: int) -> tuple[tuple[sympy.Symbol, ...], dict[str, sympy.Expr]]:
    """Return ten random monomials in three tuned and four kept symbols."""
    generator = random.Random(seed)
    symbols = sympy.symbols(f"x0:{NUM_TUNED + NUM_KEPT}", positive=True)

    def power() -> sympy.Rational:
        return sympy.Rational(generator.randint(-4, 4), generator.randint(1, 3))

    return symbols, {f"t{k}": sympy.Mul(*(s ** power() for s in symbols)) for k in range(NUM_TERMS)}


def balances() -> float:
    """Time both methods on every instance; return the seconds of the longest balance."""
    ours, floor, counts = [], [], []
    for seed in range(INSTANCES):
        symbols, terms = instance(seed)
        tuned, kept = symbols[:NUM_TUNED], symbols[NUM_TUNED:]
        start = time.perf_counter()
        try:
            counts.append(len(balance(terms, tuned).vertices))
        except ValueError:  # these terms can be made arbitrarily small
            continue
        ours.append(time.perf_counter() - start)
        powers = [powers_of(term) for term in terms.values()]
        start = time.perf_counter()
        rows = np.array([[*(float(p.get(s, 0)) for s in tuned), -1.0] for p in powers])
        bounds = np.array([-sum(float(p.get(s, 0)) for s in kept) for p in powers])
        linprog([0.0] * NUM_TUNED + [1.0], A_ub=rows, b_ub=bounds, bounds=(None, None), method="highs")
        floor.append(time.perf_counter() - start)
    ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
    print(
        f"balance, {NUM_TERMS} terms, {NUM_TUNED} tuned, {len(ours)} instances, up to {max(counts)} vertices:  "
        f"median {1e3 * statistics.median(ours):.0f} ms, longest {1e3 * max(ours):.0f} ms, "
        f"{ratio:.0f} times one linear program at one point"
    )
    return max(ours)


def claims() -> tuple[float, float]:
    """Check every claim and its correction; return the processor seconds of the longest, and the sum."""
    everything = []
    for key in papers.PAPERS:
        seconds = {}
        for claim in papers.claims(key):
            start = time.process_time()
            claim.check()
            seconds[claim.id] = time.process_time() - start
        longest = max(seconds, key=lambda name: seconds[name])
        print(
            f"{key}:  {len(seconds)} claims, {sum(seconds.values()):.1f} s, "
            f"longest {seconds[longest]:.2f} s ({longest.split('.', 1)[1]})"
        )
        everything += seconds.values()
    print(f"all papers:  {len(everything)} claims, {sum(everything):.1f} s of one core")
    return max(everything), sum(everything)


if __name__ == "__main__":
    longest_balance = balances()
    longest_claim, total = claims()
    sys.exit(int(longest_balance > 0.5 or longest_claim > 1.0 or total > 60.0))
