"""The answers to the experiments' questions, and the paper's own."""

from dpnotes.experiments.outcomes import Answers

ANSWERS = {
    "influence": Answers(
        "Yes: the influence grows exponentially rather than along a straight line.",
        "No: under no reading of the setup that was run does the influence grow exponentially.",
        "Yes", "Section 5 and Figure 1, left",
        undecided="The readings of what the paper leaves open, steps and start, disagree.",
    ),
    "mnist35": Answers(
        "Yes: at every training size it has the lower training loss and the higher test accuracy.",
        "No: it is worse at more training sizes than it is better, in training loss or in test accuracy.",
        "Yes", "Section 5 and Figure 1, middle and right",
        undecided="Training loss or test accuracy is not better at every size, and neither is worse at most.",
    ),
    "momentum": Answers(
        "Yes: the gain with momentum is smaller.",
        "No: the gain with momentum is larger, or there is no gain without it.",
        "Yes", "discussion of Theorem 4.8",
    ),
    "subsampled": Answers(
        "Yes: its training loss is lower.", "No: its training loss is higher.",
        "Yes", "Section 4.3, which carries the results over to random batches",
    ),
    "quadratic": Answers(
        "Yes: every mean agrees with the algebra and stays below its bound, and the dynamic schedule wins everywhere.",
        "No: a mean differs from the algebra or exceeds its bound, or the uniform schedule wins somewhere.",
        "Yes", "Theorems 4.2 to 4.5",
    ),
    "erub_gain": Answers(
        "Yes: the ratio grows as ln N.", "No: the ratio does not grow as ln N.", "Yes", "Section 4.2, first paragraph",
    ),
}  # fmt: skip
