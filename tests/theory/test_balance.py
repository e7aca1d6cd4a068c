"""The balance is exact: compared with a numeric linear program on random instances, with a control that must fail."""

import random
import re
from fractions import Fraction

import numpy as np
import pytest
import sympy
from scipy.optimize import linprog
from sympy import Max, Min, Rational, exp, sqrt

from dpnotes.theory.balance import Certificate, Vertex, Witness, at_most, balance, regime_of, solve_for
from dpnotes.theory.monomials import branches, monomial_of, monomials, powers_of
from dpnotes.theory.symbols import COUNT, UNIT_INTERVAL, PaperSymbols

X = sympy.symbols("x0:7", positive=True)
T, ETA, N, D, ALPHA = sympy.symbols("T eta n d alpha", positive=True)


def instance(seed):
    """Return random monomials, tuned symbols and constraints, of sizes that occur in papers."""
    generator = random.Random(seed)
    num_tuned, num_terms, num_constraints = (generator.randint(1, 3), generator.randint(2, 7), generator.randint(0, 3))
    symbols = X[: num_tuned + generator.randint(1, 3)]

    def monomial():
        return sympy.Mul(*(s ** Rational(generator.randint(-4, 4), generator.randint(1, 3)) for s in symbols))

    terms = {f"t{k}": monomial() for k in range(num_terms)}
    constraints = {f"c{k}": monomial() for k in range(num_constraints)}
    return symbols, symbols[:num_tuned], terms, constraints, generator


def numeric(symbols, tuned, terms, constraints, logs):
    """Return the least possible largest logarithm at one point of the kept symbols, by a linear program in floats."""
    rows, bounds = [], []
    for group, has_height in ((terms, 1.0), (constraints, 0.0)):
        for m in group.values():
            powers = powers_of(m)
            rows.append([*(float(powers.get(s, 0)) for s in tuned), -has_height])
            bounds.append(-sum(float(p) * logs[s] for s, p in powers.items() if s not in tuned))
    cost = [0.0] * len(tuned) + [1.0]
    found = linprog(cost, A_ub=np.array(rows), b_ub=np.array(bounds), bounds=(None, None), method="highs")
    return found.fun if found.status == 0 else {2: "infeasible", 3: "unbounded", 4: "unbounded"}[found.status]


def height(rates, logs):
    """Return the largest logarithm of monomials at a point."""
    return max(sum(float(p) * logs[s] for s, p in powers_of(rate).items()) for rate in rates)


def disagreements(seed, spoil=lambda vertices: vertices):
    """Return the points at which the balance of a random instance differs from the linear program."""
    symbols, tuned, terms, constraints, generator = instance(seed)
    points = [{s: generator.uniform(-5, 5) for s in symbols} for _ in range(4)]
    expected = [numeric(symbols, tuned, terms, constraints, logs) for logs in points]
    try:
        found = balance(terms, tuned, constraints)
    except ValueError as error:
        assert "arbitrarily small" in str(error) or "more than an edge" in str(error)
        excused = ("unbounded", "infeasible") if "small" in str(error) else ("infeasible",)
        return [e for e in expected if e not in excused]
    rates = [vertex.rate for vertex in spoil(found.vertices)]
    wrong = []
    for logs, value in zip(points, expected, strict=True):
        broken = any(height([c], logs) > 1e-9 for c in found.conditions)
        if broken != (value == "infeasible") or (
            not broken and (isinstance(value, str) or abs(height(rates, logs) - value) > 1e-7)
        ):
            wrong.append((logs, value))
    return wrong


@pytest.mark.parametrize("block", range(10))
@pytest.mark.slow
def test_five_hundred_random_instances_agree_with_a_linear_program(block):
    assert not [seed for seed in range(50 * block, 50 * block + 50) if disagreements(seed)]


@pytest.mark.slow
def test_a_wrong_vertex_is_noticed():
    def spoil(vertices):
        first = vertices[0]
        return (Vertex(first.rate * X[2] ** Rational(1, 12), first.weights), *vertices[1:])

    bounded = [seed for seed in range(60) if not disagreements(seed) and len(instance(seed)[0]) > 3]
    noticed = [seed for seed in bounded if disagreements(seed, spoil)]
    assert len(noticed) >= 10


def test_a_vertex_left_out_is_noticed():
    # Every vertex is needed: without any one of them the maximum is too small somewhere.
    found = balance({"a": ETA * N, "b": T / N, "c": 1 / (ETA * T), "d": D / T}, [ETA, T])
    assert len(found.vertices) == 2
    for left_out in found.vertices:
        others = [v.rate for v in found.vertices if v != left_out]
        assert isinstance(at_most(left_out.rate, others, found.regime), Witness)


@pytest.mark.slow
def test_meeting_terms_multiply_to_the_rate_and_parameters_reach_it():
    for seed in range(40):
        _, tuned, terms, constraints, _ = instance(seed)
        try:
            found = balance(terms, tuned, constraints)
        except ValueError:
            continue
        everything = {**found.terms, **found.constraints}
        for vertex in found.vertices:
            product = sympy.Mul(
                *(everything[n] ** Rational(w.numerator, w.denominator) for n, w in vertex.weights.items())
            )
            assert powers_of(product) == powers_of(vertex.rate)
            assert sum(w for name, w in vertex.weights.items() if name in found.terms) == 1
            chosen = found.parameters(vertex)
            if chosen is not None:
                for name in vertex.meet:
                    reached = powers_of(everything[name].xreplace(chosen))
                    assert reached == (powers_of(vertex.rate) if name in found.terms else {})


def test_dominated_vertices_go_and_the_regime_decides():
    terms = {"a": ETA, "b": 1 / (ETA * N), "c": 1 / N}
    assert len(balance(terms, [ETA]).vertices) == 2
    assert balance(terms, [ETA], regime={"n >= 1": 1 / N}).rate == 1 / sqrt(N)
    count = PaperSymbols("example").symbol("n", "examples", domain=COUNT)
    assert balance({"a": ETA, "b": 1 / (ETA * count), "c": 1 / count}, [ETA]).rate == 1 / sqrt(count)


def test_solve_for_is_the_inverse():
    rate = N ** Rational(-1, 3) + (sqrt(D) / N) ** Rational(2, 5)
    needed = solve_for(N, {"rate": rate / ALPHA})
    assert {v.rate for v in needed.vertices} == {ALPHA**-3, sqrt(D) * ALPHA ** Rational(-5, 2)}
    back = solve_for(ALPHA, {"samples": needed.rate / N})
    assert {v.rate for v in back.vertices} == set(rate.args)


def test_conditions_of_the_constraints_are_reported():
    found = balance({"T": T}, [T], {"low": N / T, "high": T / D})
    assert found.rate == N and found.conditions == (N / D,)


def test_certificates_are_proofs_and_witnesses_are_counterexamples():
    proof = at_most(sqrt(N * D), [N, D])
    assert proof == Certificate({0: Fraction(1, 2), 1: Fraction(1, 2)}, {})
    within = at_most(D, [N], {"d <= n^2": D / N**2})
    assert isinstance(within, Witness)
    point = within.at()
    assert float(D.xreplace(point)) > float(N.xreplace(point)) and (D / N**2).xreplace(point) <= 1
    assert isinstance(at_most(D, [N], {"d <= n^2": D / N**2, "n <= 1": N}), Certificate)


@pytest.mark.slow
def test_rationals_decide_what_floats_cannot(monkeypatch):
    import dpnotes.theory.balance as module

    cases = [disagreements(seed) for seed in range(30)]
    monkeypatch.setattr(module, "_proposal", lambda *_, **__: None)
    assert [disagreements(seed) for seed in range(30)] == cases == [[]] * 30


def test_pieces():
    assert set(monomials(sqrt(N + D) * (1 + T))) == {sqrt(N), sqrt(D), sqrt(N) * T, sqrt(D) * T}
    assert {monomial_of(b.powers) for b in branches(1 / Min(N, D))} == {1 / N, 1 / D}
    assert set(monomials(1 / Min(N, D))) == {1 / N, 1 / D}
    with pytest.raises(ValueError, match="contains a minimum"):
        monomials(1 / (N + D), "noise")
    with pytest.raises(ValueError, match="contains a minimum"):
        monomials(1 / Max(Min(N, D), T), "noise")


def test_domains_become_a_regime():
    paper = PaperSymbols("example")
    n, delta = paper.symbol("n", "", domain=COUNT), paper.symbol("delta", "", domain=UNIT_INTERVAL)
    assert regime_of([n, delta]) == {"n >= 1": 1 / n, "delta <= 1": delta}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: balance({"noise": exp(T)}, [T]), r"the term 'noise', got exp\(T\)"),
        (lambda: balance({"noise": T ** sqrt(2)}, [T]), r"'noise'.*power sqrt\(2\) is not rational"),
        (lambda: balance({"noise": T - N}, [T]), "'noise'.*not positive"),
        (lambda: balance({"noise": sympy.Symbol("y")}, []), "y may be zero or negative"),
        (lambda: balance({"noise": ETA, "steps": 1 / T}, [T, ETA]), "noise, steps fall without end"),
        (
            lambda: balance({"T": T}, [T], {"low": N / T, "high": T}, {"n >= 1": 1 / N}),
            "more than an edge, got n >= 1; low, high",
        ),
        (lambda: balance({"T": T}, [T], {}, {"low": N, "high": 1 / N}), "more than an edge, got low; high"),
        (lambda: balance({"T": T}, [T], {"a": N / T, "b": T * D, "c": T / D}, {"n >= 1": 1 / N}), "more than an edge"),
        (lambda: balance({"a": T + N * T, "a 2": 1 / T}, [T]), "'a 2' for a term"),
        (lambda: balance({}, [T]), "at least one term"),
        (lambda: balance({"a": T}, [T**2]), "got the expression"),
        (
            lambda: balance({"a": sympy.Mul(*(T + s for s in sympy.symbols("y0:12", positive=True)))}, []),
            "multiplies out",
        ),
        (lambda: at_most(N, []), "at least one monomial"),
        (lambda: balance({"T": T}, [T], {"T": N / T}), "'T' twice"),
        (lambda: balance({"T": T}, [T], {"low": N / T}, {"T >= 1": 1 / T}), "without tuned symbols, got T"),
    ],
)
def test_bad_input_names_the_term_and_the_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_terms_without_names_and_one_symbol_in_place_of_several_are_refused_by_name():
    for call, message in (
        (lambda: balance([ETA, T], [T]), r"terms=\[eta, T\] to be a Mapping"),  # type: ignore[arg-type]
        (lambda: balance({"a": T}, [T], [ETA]), r"constraints=\[eta\] to be a Mapping"),  # type: ignore[arg-type]
        (lambda: balance({"a": T}, [T], {}, T), "regime=T to be a Mapping"),
        (lambda: balance({"a": 1 / T}, tuned=T), "tuned=T to be an Iterable"),
    ):
        with pytest.raises(TypeError, match=f"^Expected {message}"):
            call()


def test_a_tuned_symbol_in_no_term_may_have_any_value():
    found = balance({"a": ETA, "b": 1 / (ETA * N)}, [ETA, T])
    assert found.parameters(found.vertices[0]) == {ETA: 1 / sqrt(N), T: 1}


@pytest.mark.slow
def test_a_balance_of_too_many_terms_says_so_at_once():
    symbols = sympy.symbols("T eta b lambda", positive=True)
    data = sympy.symbols("n d epsilon", positive=True)
    powers = np.random.default_rng(1).integers(-3, 4, (40, 7))
    terms = {
        f"term {i}": sympy.Mul(*(s ** int(p) for s, p in zip((*symbols, *data), row, strict=True)))
        for i, row in enumerate(powers)
    }
    with pytest.raises(ValueError, match=re.escape("leave out terms that others dominate, or tune fewer than 4")):
        balance(terms, symbols)
