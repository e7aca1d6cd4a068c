"""An independent program for the draws: Philox in Python's integers, the Box-Muller transform in mpmath's floats.

    python tests/draws_by_mpmath.py        # writes tests/known_draws.csv

mpmath rounds every operation separately to 53 bits, to nearest with ties to even, which equals IEEE 754's float64 as
long as nothing overflows. With more bits and exact functions, it computes the ideal value of the transform.
"""

import csv
import math
from pathlib import Path

import mpmath

FILE = Path(__file__).with_name("known_draws.csv")
PLACES = [  # key, purpose (two words each), call, element
    ((0, 0), (0, 0), 0, 0),
    ((1, 2), (3, 4), 5, 6),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, 2**33 - 2),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), 0xA4093822, 0x299F31D0),
    *(((7 * i, i * i), (i, 11), i, 1000 * i) for i in range(1, 60)),
]


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Return Philox4x32 with ten rounds, from Salmon et al. (2011)."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0]
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c[0], c[1], c[2], c[3]


def bits(key: tuple[int, int], purpose: tuple[int, int], call: int, element: int) -> tuple[int, int]:
    """Return two integers of 52 bits from the block that starts at an even element."""
    w0, w1, w2, w3 = philox(key, (element // 2, call, *purpose))
    return (w0 << 20) + (w1 >> 12), (w2 << 20) + (w3 >> 12)


def rounded(radius_bits: int, angle_bits: int) -> tuple[float, float]:
    """Return the pair as the streams define it: series of ten and nine terms, each operation rounded to float64."""
    with mpmath.workprec(53):
        f = mpmath.mpf
        mantissa, exponent = math.frexp(radius_bits + 0.5)
        centre = f(math.sqrt(0.5))
        s = (f(mantissa) - centre) / (f(mantissa) + centre)
        log = f(-4 / 19)
        for k in reversed(range(9)):
            log = log * (s * s) + f(-4 / (2 * k + 1))
        square = log * s + f(exponent - 52.5) * f(-2 * math.log(2))
        radius = mpmath.sqrt(max(square, f(0)))
        angle = f((angle_bits % 2**50) + 0.5) * f(2.0**-51 * math.pi) - f(math.pi / 4)
        sine = f(1 / math.factorial(17))
        for k in reversed(range(8)):
            sine = sine * (angle * angle) + f((-1) ** k / math.factorial(2 * k + 1))
        sine = sine * angle
        cosine = mpmath.sqrt(1 - sine * sine)
        radius = radius if angle_bits >> 50 & 1 else -radius
        first, second = (sine, cosine) if angle_bits >> 51 else (cosine, sine)
        return float(first * radius), float(second * radius)


def exact(radius_bits: int, angle_bits: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Return the pair to fifty digits, with the exact logarithm and sine."""
    with mpmath.workdps(50):
        u = mpmath.mpf(2 * radius_bits + 1) / 2**53
        angle = mpmath.pi / 2 * mpmath.mpf(2 * (angle_bits % 2**50) + 1) / 2**51 - mpmath.pi / 4
        radius = mpmath.sqrt(-2 * mpmath.log(u)) * (1 if angle_bits >> 50 & 1 else -1)
        pair = mpmath.cos(angle) * radius, mpmath.sin(angle) * radius
        return (pair[1], pair[0]) if angle_bits >> 51 else pair


def rows() -> list[list[str]]:
    """Return rows of key, purpose, call, element, the uniform pair and the normal pair, written exactly."""
    table = []
    for key, purpose, call, element in PLACES:
        radius_bits, angle_bits = bits(key, purpose, call, element)
        uniforms = [(b + 0.5) * 2.0**-52 for b in (radius_bits, angle_bits)]
        numbers = [*uniforms, *rounded(radius_bits, angle_bits)]
        table.append([str(n) for n in (*key, *purpose, call, element)] + [number.hex() for number in numbers])
    return table


if __name__ == "__main__":
    with FILE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows())
