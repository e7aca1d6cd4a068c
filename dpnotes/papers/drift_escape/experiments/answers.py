"""The answers to the experiments' questions, and the paper's own."""

from dpnotes.experiments.outcomes import Answers

ANSWERS = {
    "returned_point": Answers(
        "Yes: the error is proportional to psi, and attempts and repeats do what is promised.",
        "No: the error is not proportional to psi, or attempts or repeats fail more often than promised.",
        "Yes", "Theorem 1, Corollary 1 and Lemma 2",
    ),
    "repeats": Answers(
        "No: with the oracle's state restored, eight attempts fail together far more often than independent ones. "
        "With a fresh gradient at each attempt they fail as rarely as independent ones.",
        "Yes: eight attempts with the oracle's state restored fail together as rarely as independent ones.",
        where="Lemma 2 is for independent attempts, and the paper does not say what its oracle knows in a further one",
    ),
    "step_size": Answers(
        "Yes: with small batches the step 1 / M stays at the saddle, and the paper's step leaves it.",
        "No: the step 1 / M leaves the saddle with small batches, or the paper's step stays.",
        "Yes", "Section 3, on the stochastic gradients' variance",
    ),
    "audit": Answers(
        "No: samples that are used again, and a jump back that no noise covers, cost more than is claimed.",
        "Yes: a release with reused samples or an uncovered jump keeps the claim.",
        undecided="The audit is not strong enough.",
        where="the paper uses every sample once, and does not say what its oracle knows of a jump back",
    ),
    "clients": Answers(
        "Yes: the squared error is 1/m of one client's, for clients alike and for clients that disagree.",
        "No: the squared error does not fall as 1/m.",
        "Yes", "Lemma 9",
    ),
    "sharing": Answers(
        "Yes: the accuracy falls as m^(-1/3) where examples decide, and as m^(-1/5) where privacy does.",
        "No: the accuracy falls with another exponent, or runs miss it.",
        "Yes", "Theorem 3",
    ),
    "selection": Answers(
        "Yes: its exponent is within 0.04 of 6/13. At these dimensions the edge of the noise's spectrum lowers it by "
        "about 0.02, so that the interval may leave out 6/13.",
        "No: its exponent is not within 0.04 of 6/13, or Algorithm 4 fails.",
        "Yes", "Remark 3",
    ),
    "mnist_clients": Answers(
        "No: the gradient norm is the same, whether clients hold the same digits or not.",
        "Yes: the gradient norm depends on how much the clients disagree.",
        "No", "Section 6, on heterogeneous settings",
    ),
    "sensing": Answers(
        "Yes: in every problem one of the SPIDERs leaves less risk than both simple methods.",
        "No: in every problem one of the simple methods leaves less risk than both SPIDERs.",
        where="the paper's rates are for many examples, and it does not compare with DP-SGD at these sizes",
        undecided="No kind of method is ahead in every problem.",
    ),
}  # fmt: skip
