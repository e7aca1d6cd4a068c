"""The claims of the paper: each as an expression that is checked."""

from dpnotes.papers.storm.notation import *
from dpnotes.theory.statements import Identity

at, CLAIMS = PAPER.section()

direction = g + (1 - a) * (d_before - g_before)
at("alg1.direction", "Algorithm 1", "The direction is momentum with a correction")(
    Identity(d, direction, (1 - a) * d_before + a * g + (1 - a) * (g - g_before)),
    "The terms of Algorithm 1, sorted by a.",
)

at("sec3.error", "Section 3", "The error of the direction forgets the past")(
    Identity(
        error,
        (1 - a) * (d_before - F_before) + a * (g - F) + (1 - a) * (g - g_before - (F - F_before)),
        direction - F,
    ),
    "The direction minus the gradient of the objective.",
)
