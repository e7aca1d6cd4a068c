"""The answers to the experiments' questions, and the paper's own."""

from dpnotes.experiments.outcomes import Answers

ANSWERS = {
    "slopes": Answers(
        "Yes: the exponent is -2 with both, and -7/3 with either alone or with none.",
        "No: some method needs more samples than its exponent says.",
        "Yes", "Section 1, comparison with Ganesh et al. (2023)",
    ),
    "escape": Answers(
        "No: batches of fewer than about M / (2 lambda) examples do not leave the saddle.",
        "Yes: some batch below the boundary M / (2 lambda) leaves, or some batch above it stays.",
        "Yes", "Lemma 3.3, from Wang et al. (2019), which asks for accurate estimates alone",
    ),
    "necessity": Answers(
        "No: with the drift reset as printed the error of the estimates grows, without the reset it does not.",
        "Yes: the error does not grow with the reset, or runs stay on the ridge without it.",
        "Yes", "Algorithm 2, lines 9 and 10",
    ),
    "audit": Answers(
        "No: densities and audits refute every printed variant, and no corrected one.",
        "Yes: some printed variant stands, or a corrected one falls, too.",
        "Yes", "Theorem 2.2 and Lemma 3.7, read literally",
    ),
}  # fmt: skip
