"""The claims of STORM: its letters with their units, and each claim as an expression that is checked."""

from dpnotes.theory.claims import Paper
from dpnotes.theory.statements import Identity
from dpnotes.theory.symbols import REAL, UNIT_INTERVAL, PaperSymbols
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper("storm", "Momentum-Based Variance Reduction in Non-Convex SGD", ("Ashok Cutkosky", "Francesco Orabona"),
              "NeurIPS", 2019, "", "1905.10018", "arXiv:1905.10018v3", "@inproceedings{cutkosky2019storm}")  # fmt: skip
letter, at, CLAIMS = PaperSymbols(PAPER.key).symbol, *PAPER.section()
a = letter("a", "momentum", domain=UNIT_INTERVAL)
before, after = (letter(f"d_{t}", "direction of a step", LOSS / LENGTH, REAL) for t in ("t-1", "t"))
there, here = (letter(f"g_{t}", f"gradient of batch t at x_{t}", LOSS / LENGTH, REAL) for t in ("t-1", "t"))
once = Identity(after, here + (1 - a) * (before - there), (1 - a) * before + a * here + (1 - a) * (here - there))
at("alg1.direction", "Algorithm 1", "The direction is momentum with a correction")(once, "Momentum, and the change.")
