"""The answers to the experiments' questions, and the paper's own."""

from dpnotes.experiments.outcomes import Answers

_GROWS = "Yes: accuracy grows with epsilon, and is close to that without privacy at the largest."
_DOES_NOT = "No: accuracy falls between some epsilons, or is far from that without privacy at the largest."
ANSWERS = {
    "escape": Answers(
        "Yes: coupled runs part at the predicted rate and spread, and none leaves without noise.",
        "No: the growth, the spread or the escape time differs, or a run leaves without noise.",
        "Yes", "Lemmas B.6 to B.9",
    ),
    "slopes": Answers(
        "Yes: all four exponents are met.", "No: some exponent is that of a larger alpha, or noise is not needed.",
        "Yes", "proof of Theorem 3.5; the print has f_max instead of its root",
    ),
    "fraction": Answers(
        "Yes: with the theorem's noise at least half of the iterates are alpha-SOSPs, without noise none is.",
        "No: with the theorem's noise fewer than half are, or noise is not needed.",
        "Yes", "Theorem 3.4",
    ),
    "lemma_3_2": Answers(
        "No: in high dimensions the noise alone makes gradients longer than C, in every run.",
        "Yes: no run exceeds the bound in high dimensions.",
        "Yes", "Lemma 3.2",
    ),
    "appendix_c": Answers(
        "Yes: at least half of the iterates are alpha-SOSPs, for heavy tails, too.",
        "No: with a heavy tail fewer than half of the iterates are alpha-SOSPs.",
        "Yes", "Theorem 3.4; Appendix C asks for more in its proof",
    ),
    **{
        name: Answers(_GROWS, _DOES_NOT, "Yes", figure)
        for name, figure in {
            "convnet": "Section 4 and Figure 1a", "convnet_more": "Section 4 and Figure 1a",
            "resnet18": "Section 4 and Figure 1b", "cifar100": "Section 4 and Figure 2a",
            "cola": "Section 4 and Figure 2b",
        }.items()
    },
    "convnet_clipped": Answers(_GROWS, _DOES_NOT, where="the paper's experiments do not clip"),
    "convnet_lemma": Answers(
        "Yes: accuracy grows with epsilon.", "No: accuracy falls between some epsilons.",
        "Yes", "Appendix A and Figure 3b",
    ),
    "pretraining": Answers(
        "Yes: at epsilon 1/8 accuracy is close to that without privacy with pretraining, and is not without it.",
        "No: at epsilon 1/8 accuracy is far from that without privacy with pretraining, or is close without it.",
        where="Figure 2 has pretrained networks alone, of other data; this one is ours",
    ),
}  # fmt: skip
