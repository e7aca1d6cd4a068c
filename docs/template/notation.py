"""The letters of the paper: unit, domain and meaning of each."""

from dpnotes.theory.claims import Paper
from dpnotes.theory.symbols import REAL, UNIT_INTERVAL, PaperSymbols, letters
from dpnotes.theory.units import LENGTH, LOSS

PAPER = Paper(
    key="storm",
    title="Momentum-Based Variance Reduction in Non-Convex SGD",
    authors=("Ashok Cutkosky", "Francesco Orabona",),
    venue="arXiv",
    year=2019,
    doi="",
    arxiv="1905.10018",
    version="arXiv:1905.10018, the newest version",
    bibtex="""@misc{storm2019,
  title  = {Momentum-Based Variance Reduction in Non-Convex SGD},
  author = {Ashok Cutkosky and Francesco Orabona},
  year   = {2019},
  eprint = {1905.10018}
}""",
)  # fmt: skip

SYMBOLS = PaperSymbols(PAPER.key)
_GRADIENT = LOSS / LENGTH
a = SYMBOLS.symbol("a", "momentum", domain=UNIT_INTERVAL)
d = SYMBOLS.symbol("d_t", "direction of step t", _GRADIENT, REAL)
d_before = SYMBOLS.symbol("d_t-1", "direction of the step before", _GRADIENT, REAL)
g = SYMBOLS.symbol("g_t", "gradient of batch t at x_t", _GRADIENT, REAL)
g_before = SYMBOLS.symbol("g_t-1", "gradient of batch t at x_t-1", _GRADIENT, REAL)
F = SYMBOLS.symbol("F_t", "gradient of the objective at x_t", _GRADIENT, REAL)
F_before = SYMBOLS.symbol("F_t-1", "gradient of the objective at x_t-1", _GRADIENT, REAL)
error = SYMBOLS.symbol("epsilon_t", "error of the direction", _GRADIENT, REAL)

__all__ = letters(vars())
