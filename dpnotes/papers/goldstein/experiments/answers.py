"""The answers to the experiments' questions, and the paper's own."""

from dpnotes.experiments.outcomes import Answers

ANSWERS = {
    "sensitivity": Answers(
        "Yes: the error of an estimate is sqrt(d/m), and an increment is short only with common directions.",
        "No: the error of an estimate or the length of an increment has another exponent.",
        where="Lemma 3.4 has the larger bound d/sqrt(m), which is true, and directions that are not common",
    ),
    "generalisation": Answers(
        "No: on the counterexample the empirical norm is off by 1/2, however many examples there are. Smoothed "
        "gradients are near, at the rate 1/sqrt(n).",
        "Yes: the empirical norm approaches that of the population, or smoothed gradients do not.",
        "Yes", "Proposition 5.1",
    ),
    "tree": Answers(
        "Yes: the tree's noise grows as the logarithm of the period, independent noise as its root.",
        "No: one of the two laws is missed.",
        "Yes", "Section 2, before Proposition 2.5",
    ),
    "complexity": Answers(
        "No: the plain oracle reaches the smaller norm.",
        "Yes: the paper's oracles reach the smaller norm somewhere that our bounds exclude.",
        where="the paper compares with earlier algorithms, not with a plain oracle at our bounds",
    ),
    "orders": Answers(
        "Yes: the exponent is nearer to 2 than to 1.",
        "No: the exponent is nearer to 1, as our accounting has it.",
        where="Remark 6.2 compares the numbers of directions m that Theorems 3.1 and 6.1 set, and their ratio is d^2; "
        "this experiment tests our accounting, which is of plain oracles with the m that reaches an equal norm. It "
        "does not refute the remark, but shows that a ratio of d is attainable",
    ),
    "mnist": Answers(
        "No: the plain oracle has the lower loss and the smaller bound on the norm.",
        "Yes: the algorithm of Theorem 4.1 has the lower loss or the smaller bound on the norm.",
        where="the paper has no experiments, and does not compare with a plain oracle",
    ),
}  # fmt: skip
