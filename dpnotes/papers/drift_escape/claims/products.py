"""Our own results on selection with Hessian-vector products in place of whole Hessians, as in `own.py`.

The section "Selection by products" of docs/derivations/drift_escape.md states the test and proves it.
"""

from sympy import Rational, log, sqrt

from dpnotes.papers.drift_escape.calculators import SELECTION_BY_PRODUCTS
from dpnotes.papers.drift_escape.claims.distributed import count, error_out, gradient, learned, scale, steps
from dpnotes.papers.drift_escape.claims.oracle import log_delta
from dpnotes.papers.drift_escape.notation import *
from dpnotes.theory.inequalities import Inequality
from dpnotes.theory.rates import Choice, Crossover, Rate

at, CLAIMS = PAPER.section()

smooth = LOSS / LENGTH**2
products = symbol("K", "products of a Hessian with a vector for one candidate")
product_variance = symbol(
    "coordinate variance", "variance of a coordinate of a product", smooth**2, latex="\\mathrm{var}(y)"
)
needed = {"privacy of T K releases": T * products * (2 * M / n) ** 2 * 2 * log_delta / (product_variance * epsilon**2)}
stated = M**2 * products * T * log_delta / (n**2 * epsilon**2)
at.own("products.noise", "Noise of a product of a Hessian with a unit vector")(
    Rate(product_variance, stated, {"variance": product_variance}, (product_variance,), needed),
    "The difference of two Hessians has spectral norm 2M/n, so its product with a unit vector is 2M/n long at most; "
    "T K releases cost sqrt(T K). A gradient has G^2 for M^2 K, a whole Hessian has d for K.",
)

norms = sqrt(T) / scale  # norm of the noise per unit of sensitivity
at.own("products.whole", "Number of products from which whole Hessians have less noise")(
    Crossover(M * sqrt(d * products) * norms, M * d * norms, products, d),
    "The norms of the noise of K products and of a whole Hessian, up to constants.",
)

excess = symbol("x", "(1 + x) is the largest eigenvalue of what is iterated")
at.own("products.growth", "How noise alone makes the iterates grow")(
    Inequality(log(1 + excess / 2 + sqrt(excess + excess**2 / 4)), sqrt(excess), {excess: (1e-6, 10)}),
    "The larger root of z^2 - (2 + x) z + 1, of the recursion that bounds the iterates where no curvature is below the "
    "level: after K steps they are exp(K sqrt(x)) long at most.",
)
growth, least = log(1 + excess + sqrt(excess**2 + 2 * excess)), log(1 + sqrt(2)) * sqrt(2 * excess)
at.own("products.escape", "How curvature below the level makes the iterates grow")(
    Inequality(growth, least, {excess: (1e-6, 2)}, ">=", conditions=(excess <= 2,)),
    "arccosh(1 + x), the growth of the Chebyshev polynomial of degree K over K, which is concave in sqrt(x).",
)

noise = symbol("R_y", "norm of the noise of a product of all clients", smooth)
level = sqrt(rho * alpha)
misses = {"too few products": M * ell**2 / products**2, "noise": products**2 * noise**2 / M}
quiet = {"noise below the level": ell * noise / level}
at.own("products.number", "Products that the test of a curvature needs")(
    Choice({products: ell * sqrt(M / level)}, misses, level, regime=quiet),
    "What an accepted point may lie below the level, M ell^2/K^2 or K^2 R^2/M, with ell the logarithm of d: sqrt(M/"
    "sqrt(rho alpha)) products, each with noise below sqrt(rho alpha)/ell.",
)

fewest = {"steps": steps[T] / T, "products": sqrt(M / level) / products}
curvature = (level + M / sqrt(count) + M * sqrt(d * products) * norms) ** 2 / rho
sampled = alpha + G / sqrt(count) + M**2 / (rho * count)
private = G * M * sqrt(U * d) / (rho ** Rational(1, 4) * scale * alpha ** Rational(5, 4))
private += M ** Rational(9, 2) * U * d / (rho ** Rational(7, 4) * scale**2 * alpha ** Rational(11, 4))
at.own("products.error", "Error of the point that is selected by products")(
    Rate(error_out, sampled + private, {"gradient": gradient, "curvature": curvature}, (T, products), fewest),
    "The gradient bound (120), and the square of the curvature bound over rho with sqrt(d K) for d, at T = M^2 "
    "U/(sqrt(rho) alpha^(5/2)) and the K that the test needs.",
    calculation=SELECTION_BY_PRODUCTS,
)
of_products = M * sqrt(sqrt(M / level)) * norms / level
equal_at = G ** Rational(8, 3) * rho ** Rational(5, 3) / M ** Rational(10, 3)
at.own("products.gradient", "Error below which gradients are the larger part of the noise")(
    Crossover(G * norms / alpha, of_products, alpha, equal_at),
    "Noise of a gradient over alpha against noise of K products over sqrt(rho alpha).",
)
at.own("products.condition", "Dimension up to which products cost nothing, at any error")(
    Crossover(d / (data**2 * a ** Rational(11, 4)), a, d, data**2 * a ** Rational(15, 4)),
    "The last term of the error against alpha: sqrt(d)/(sqrt(m) n epsilon) is at most alpha^(15/8). By whole Hessians, "
    "d is at most sqrt(m) n epsilon alpha^(7/4).",
)
at.own("products.dimension", "Dimension up to which selection by products costs nothing")(
    Crossover(d / (data**2 * learned ** Rational(11, 4)), learned, d, data**2),
    "The same at alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5), the private part of what is learned: d is at most (sqrt("
    "m) n epsilon)^2, as for gradients, where Remark 3 has (sqrt(m) n epsilon)^(6/13).",
    calculation=SELECTION_BY_PRODUCTS,
    premises=("thm3",),
)
noise_error = d * products / (data**2 * learned ** Rational(5, 2))
at.own("products.room", "Products that cost nothing")(
    Crossover(noise_error, learned, products, (data / sqrt(d)) ** Rational(3, 5)),
    "With any K, at alpha = (sqrt(d)/(sqrt(m) n epsilon))^(2/5): alpha^(-3/2), where the test needs alpha^(-1/4), and "
    "the power method alpha^(-1/2).",
    premises=("thm3",),
)
