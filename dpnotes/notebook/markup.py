"""HTML that notebooks store: pictures with alternative texts, mathematics that wraps, words without markup."""

import base64
import html
import re
from collections.abc import Iterable, Iterator
from typing import Any

_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|[\s\S]")
# A line may break before these tokens, at the top level of a formula, and after a comma.
_BREAKS = set("= < > + - \\le \\leq \\ge \\geq \\lt \\gt \\approx \\sim \\in \\quad \\qquad \\text \\implies".split())
_BREAKS |= {"\\Rightarrow", "\\Longrightarrow", "\\iff", "\\to", "\\cdot", "\\leftarrow", "\\propto", "\\ne", "\\neq"}
# Code without spaces outside of brackets, which may be nested twice; it ends before punctuation.
_BRACKETS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_FORMULA = re.compile(rf"(?:{_BRACKETS}|[\w*/.+-](?![:;,](?:\s|$))|[\w*/+-])+")
_SHORT, _LONG = 12, 100  # letters: shorter pieces get no line of their own; longer pieces do not fit on a line
_WORDS = {"\\varepsilon": "ε", "\\infty": "∞", "\\leq": "≤", "\\geq": "≥", "\\le": "≤", "\\ge": "≥", "\\cdot": "·"}
_WORDS |= {"\\times": "×", "\\approx": "≈", "\\pm": "±", "\\sqrt": "√", "\\epsilon": "ε", "\\,": " ", "\\ ": " "}


# In a dark theme of JupyterLab, or of the book, a chart is dark, with the same hues.
_DARK = ", ".join(f"{theme} .dpnotes-chart" for theme in ('[data-jp-theme-light="false"]', '[data-theme="dark"]'))
_FOLLOW = f"<style>{_DARK} {{filter: invert(.93) hue-rotate(180deg)}}</style>"


def image(picture: bytes, words: str, width: int | None = None, chart: bool = False) -> str:
    r"""A picture inside HTML, with a real alternative text.

    Args:
      picture: the bytes of a PNG or WebP.
      words: a description of the picture; markup and mathematics become plain words.
      width: the width in pixels, if there is room; None: the picture's own.
      chart: whether the picture follows a dark theme.

    >>> image(b"\x89PNG", "A <b>line</b> at $\\varepsilon$ = 1.", 720)[:75]
    '<img alt="A line at ε = 1." width="720" style="max-width: 100%" decoding="s'
    """
    kind = "png" if picture.startswith(b"\x89PNG") else "webp"
    data = base64.b64encode(picture).decode()
    wide = "" if width is None else f'width="{width}" '
    alternative = html.escape(plain(words), quote=True)
    # Decoded at once, a picture that takes another's place leaves no blank frame.
    style = f'{wide}style="max-width: 100%" decoding="sync"'
    follows = ' class="dpnotes-chart"' if chart else ""
    return f'{_FOLLOW * chart}<img alt="{alternative}" {style}{follows} src="data:image/{kind};base64,{data}">'


def plain(words: str) -> str:
    r"""The text without HTML and without the marks of mathematics.

    >>> plain("<i>n</i> = 1 &amp; $\\varepsilon \\leq \\frac{1}{2}$")
    'n = 1 & ε ≤ frac 1 2'
    >>> plain("10<sup>−6</sup>")
    '10^−6'
    """
    text = html.unescape(re.sub(r"<[^>]*>", "", words.replace("<sup>", "^")))
    text = re.sub(r"\\[A-Za-z]+|\\.", lambda found: _WORDS.get(found[0], found[0][1:]), text)
    return " ".join(re.sub(r"[${}]+", " ", text).split()).replace(" ,", ",").replace(" .", ".")


def numbers(text: str) -> str:
    """The text with numbers such as 1.2e-06 as powers of ten in HTML; mathematics between dollar signs stays.

    >>> plain(numbers("δ = 1e-06, of 2.5e+07 examples")), numbers("1e-06")
    ('δ = 10^−6, of 2.5 · 10^7 examples', '<span style="white-space: nowrap">10<sup>−6</sup></span>')
    """

    def power(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        factor = "" if found[1] == "1" else f"{found[1]} · "
        sign = "−" if found[2] == "-" else ""
        return f'<span style="white-space: nowrap">{factor}10<sup>{sign}{found[3]}</sup></span>'

    return re.sub(r"\$[^$]*\$|(?<![\w.])(\d[\d.]*)e([+-])0*(\d+)\b", power, text)


def greek(text: str) -> str:
    """The text with the names of Greek letters as these letters; names in code, such as `epsilon=1`, stay.

    >>> greek("half of the alpha-SOSPs at epsilon = 1, of run(epsilon=2)")
    'half of the α-SOSPs at ε = 1, of run(epsilon=2)'
    """
    letters = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "kappa": "κ", "sigma": "σ"}
    return re.sub(rf"(?<![\w.(])({'|'.join(letters)})(?![\w=.(])", lambda found: letters[found[0]], text)


def typeset(text: str, letters: Iterable[Any]) -> str:
    r"""The text with its formulas, which are in the code of sympy, as mathematics between dollar signs.

    A formula is a product, a power or a root of the given letters, without spaces outside brackets; sums are typeset
    term by term. All other words stay as they are.

    Args:
      text: words with formulas, such as the evidence of a verdict.
      letters: the symbols that formulas may contain.

    >>> import sympy
    >>> d, n = sympy.symbols("d n", positive=True)
    >>> print(typeset("what meets: d**(1/4)*sqrt(n): path; at d = 3", [d, n]))
    what meets: $d^{1/4} n^{1/2}$: path; at d = 3
    """
    import sympy

    named = {str(letter): letter for letter in letters}
    codes = {name: f"letter_{place}" for place, name in enumerate(named) if not name.isidentifier()}
    for name in sorted(codes, key=len, reverse=True):  # "ln N" has a space, which ends a formula
        text = text.replace(name, codes[name])
    known = {codes.get(name, name): letter for name, letter in named.items()}

    def formula(found: re.Match[str]) -> str:
        code = found[0]
        if "*" not in code and "sqrt(" not in code:
            return code
        try:
            parsed = sympy.parse_expr(code, {**known})
        except (SyntaxError, TypeError, ValueError, AttributeError):
            return code
        if not isinstance(parsed, sympy.Expr) or not parsed.free_symbols <= {*known.values()}:
            return code
        return f"${sympy.latex(parsed, fold_frac_powers=True, root_notation=False)}$"

    shown = _FORMULA.sub(formula, text)
    for name, code in codes.items():
        shown = shown.replace(code, name)
    return shown


def wrapped(text: str) -> str:
    r"""The mathematics of a text, between dollar signs, cut into pieces between which a line may break.

    A browser does not break a formula; with its sides and terms as separate formulas, lines break between these. A
    formula that is only words becomes these words.

    Args:
      text: mathematics between single dollar signs, words elsewhere; nothing is escaped.

    >>> wrapped("so $x_{t+1} = x_t - \\eta g(x_t + y) \\le \\frac{a = b}{2}$.")
    'so $x_{t+1} = x_t$ $- \\eta g(x_t + y)$ $\\le \\frac{a = b}{2}$.'
    >>> wrapped("printed: $\\text{the order is tight}$")
    'printed: the order is tight'
    """

    def one(found: re.Match[str]) -> str:
        words = re.fullmatch(r"\\text\{([^{}]*)\}", found[1])
        return words[1] if words else " ".join(f"${piece}$" for piece in pieces(found[1]))

    return re.sub(r"\$([^$]+)\$", one, numbers(text))


def pieces(latex: str) -> list[str]:
    r"""A formula cut at the relations, sums and commas that stand in no brace or environment.

    The content of brackets is cut only if it is long.

    Args:
      latex: without dollar signs.

    >>> pieces(r"\left(a + b\right)^2 \leq 2 a^2 + 2 b^2 + \frac{c}{1 + c}, \quad a \in A")
    ['\\left(a + b\\right)^2', '\\leq 2 a^2 + 2 b^2', '+ \\frac{c}{1 + c},', '\\quad a \\in A']
    """
    large = latex.startswith("\\displaystyle")
    found = [part for piece in _merged(_cut(latex.removeprefix("\\displaystyle"))) for part in _opened(piece)]
    return [f"\\displaystyle {piece}" for piece in found] if large else found


def _opened(piece: str) -> list[str]:
    """A long piece cut inside its outermost brackets, which get a fixed size and may be in different formulas."""
    outer = re.fullmatch(r"(?s)(.*?)\\left([(\[])(.*)\\right([)\]])(.*?)", piece)
    if len(piece) <= _LONG or outer is None or not all(map(_whole, (outer[1], outer[3], outer[5]))):
        return [piece]
    cut = _merged(_cut(outer[3]))
    cut[0] = f"{outer[1]}\\Bigl{outer[2]}{cut[0]}"
    cut[-1] += f"\\Bigr{outer[4]}{outer[5]}"
    return cut


def _whole(latex: str) -> bool:
    """Return whether every brace and bracket that opens in a formula is closed in it, in order."""
    depth = 0
    for token in _TOKEN.findall(latex):
        depth += (token in ("{", "\\left", "\\begin")) - (token in ("}", "\\right", "\\end"))
        if depth < 0:
            return False
    return depth == 0


def _cut(latex: str) -> Iterator[str]:
    depth, piece, operand = 0, "", False  # an operator after nothing is a sign, and stays with what follows
    for token in _TOKEN.findall(latex):
        if depth == 0 and token in _BREAKS and (operand or token.startswith("\\q")):
            yield piece
            piece, operand = "", False
        depth += (token in ("{", "(", "[", "\\left", "\\begin", "\\{")) - (
            token in ("}", ")", "]", "\\right", "\\end", "\\}")
        )
        # The bracket after \left or \right counts once, with its command.
        if piece.endswith(("\\left", "\\right")):
            depth -= (token in ("(", "[", "\\{")) - (token in (")", "]", "\\}"))
        piece += token
        if not token.isspace():
            operand = token not in _BREAKS and token not in (",", "^", "_")
        if depth == 0 and token == ",":
            yield piece
            piece = ""
    yield piece


def _merged(cut: Iterator[str]) -> list[str]:
    """The pieces, with short ones joined to the piece before and blank ones dropped."""
    found: list[str] = []
    for piece in map(str.strip, cut):
        if found and piece and len(found[-1]) + len(piece) < 2 * _SHORT and not found[-1].endswith(","):
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
    return found or [""]
