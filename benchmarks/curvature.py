"""The smallest eigenvalue for a million parameters from 40 products, and the cost of Lanczos beside its products.

    python benchmarks/curvature.py

There are two spectra. One is artificial, with a known smallest eigenvalue: a bulk near 0 with a long tail, ten large
eigenvalues and six negative ones, as in the Hessians of classifiers (Sagun et al., arXiv:1706.04454; Ghorbani, Krishnan
and Xiao, arXiv:1901.10159). The other is that of a tanh network with 942,860 parameters after some training; its
smallest eigenvalue is known from an interval after 160 products in float64. The target is a Ritz value within 1e-3 of
the spectral norm after 40 products, and an interval that contains the true value. The width of the interval, whose
lower end accounts for an unlucky random start vector, is printed too. The exit status is 1 if the target is missed.

Then 40 steps of Lanczos on the network are timed in turn with 40 bare products. Where a product costs almost nothing,
intervals are timed in turn with `scipy.sparse.linalg.eigsh`, which finds the eigenvalue without a certificate. The
target is at most twice its time, without the products; it is printed and does not affect the exit status.
"""

import itertools
import statistics
import sys
import time

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call

from dpnotes.measure.curvature import Interval, Product, lanczos, smallest_eigenvalue
from dpnotes.problems.datasets import gaussian_like
from dpnotes.random.streams import Streams

DIM, PRODUCTS, LIMIT, FAILURE = 10**6, 40, 1e-3, 1e-3
LAYERS, NUM_EXAMPLES, TRAINING = (100, 900, 850, 100, 10), 1000, 60
TRIALS, ROUNDS = 3, 4
CHEAP_DIM, CHEAP_TOLERANCE, CHEAP_RUNS = 20_000, 1e-3, 16
STREAMS = Streams.of("benchmark", ["run"])


def made_spectrum(dim: int = DIM) -> Tensor:
    """Return ten outliers up to 1, six down to -0.3, and a bulk `0.01 z^3` of normal z, cut at 0.1 and -0.02."""
    bulk = (0.01 * STREAMS.normal("bulk", 0, dim)[0] ** 3).clamp(-0.02, 0.1)
    bulk[:10] = torch.linspace(1, 0.2, 10)
    bulk[10:16] = -torch.tensor([0.3, 0.22, 0.15, 0.1, 0.06, 0.04])
    return bulk


def network() -> tuple[Tensor, nn.Sequential, Tensor, Tensor]:
    """Return the parameters after training, flat `(1, dim)`, the network and the examples."""
    drawn = gaussian_like(NUM_EXAMPLES, LAYERS[0], 2, "benchmark")
    inputs, labels = drawn.train_inputs.float(), drawn.train_labels
    torch.manual_seed(0)
    pairs = itertools.pairwise(LAYERS)
    modules = [module for i, o in pairs for module in (nn.Linear(i, o), nn.Tanh())]
    model = nn.Sequential(*modules[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(TRAINING):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    flat = nn.utils.parameters_to_vector(model.parameters()).detach()
    return flat[None], model, inputs, labels


def products(x: Tensor, model: nn.Module, inputs: Tensor, labels: Tensor) -> Product:
    """Return the product with the Hessian of the mean loss at `x`, in the type of `x`."""
    shapes = {name: p.shape for name, p in model.named_parameters()}

    def loss(x: Tensor) -> Tensor:
        parts = x[0].split([shape.numel() for shape in shapes.values()])
        parameters = {name: part.view(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
        return nn.functional.cross_entropy(functional_call(model, parameters, (inputs.to(x),)), labels)[None]

    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x).sum(), x, create_graph=True)
    return lambda vector: torch.autograd.grad(gradient, x, vector, retain_graph=True)[0]


def compare(name: str, hvp: Product, dim: int, dtype: torch.dtype, truth: Interval, norm: float) -> bool:
    """Print the worst result over several start vectors; return whether the target is met."""
    errors, widths, wrong = [], [], 0
    for trial in range(TRIALS):
        found = smallest_eigenvalue(
            hvp, dim, STREAMS, num_products=PRODUCTS, failure_probability=FAILURE, call=trial, dtype=dtype
        )
        errors.append(float((found.upper - truth.lower).abs()) / norm)
        widths.append(float(found.width) / norm)
        wrong += bool(found.lower > truth.upper) or bool(found.upper < truth.lower)
    print(
        f"{name}, {PRODUCTS} products, {TRIALS} start vectors, over the spectral norm:  Ritz value off by at most "
        f"{max(errors):.1e}, interval {statistics.median(widths):.1e} wide, {wrong} miss the truth"
    )
    return max(errors) <= LIMIT and not wrong


def overhead(hvp: Product, dim: int, dtype: torch.dtype) -> None:
    """Print the seconds of 40 steps of Lanczos relative to those of 40 bare products, timed in turn."""
    start = STREAMS.normal("lanczos", 0, dim).to(dtype)
    bare, full, bounds = [], [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(PRODUCTS):
            hvp(start)
        bare.append(time.perf_counter() - began)
        began = time.perf_counter()
        lanczos(hvp, start, PRODUCTS)
        full.append(time.perf_counter() - began)
        began = time.perf_counter()
        smallest_eigenvalue(hvp, dim, STREAMS, num_products=PRODUCTS, failure_probability=FAILURE, dtype=dtype)
        bounds.append(time.perf_counter() - began)
    bare_time, full_time, bound_time = (statistics.median(times) for times in (bare, full, bounds))
    print(
        f"{PRODUCTS} bare products {bare_time:.2f} s, with Lanczos {full_time:.2f} s ({full_time / bare_time:.2f} "
        f"times), with start vector and bounds {bound_time:.2f} s ({bound_time / bare_time:.2f} times)"
    )


def beside_eigsh(name: str, spectrum: Tensor, runs: int) -> None:
    """Print the processor seconds, without the products, of intervals for some runs and of eigsh for each run."""
    products, streams = [0, 0], Streams.of("benchmark", range(runs))
    starts = streams.normal("eigsh", 0, CHEAP_DIM).numpy()

    def hvp(vectors: Tensor) -> Tensor:
        products[0] += 1
        return spectrum * vectors

    def product(vector: np.ndarray) -> np.ndarray:
        products[1] += 1
        return diagonal * vector.ravel()

    def ours() -> None:
        smallest_eigenvalue(
            hvp, CHEAP_DIM, streams, num_products=400, failure_probability=FAILURE, tolerance=CHEAP_TOLERANCE
        )

    def theirs() -> None:
        for start in starts:
            eigsh(operator, k=1, which="SA", tol=CHEAP_TOLERANCE, v0=start, return_eigenvectors=False)

    diagonal = spectrum.numpy()
    operator = LinearOperator((CHEAP_DIM, CHEAP_DIM), matvec=product, dtype=np.float64)
    times: list[list[float]] = [[], []]
    vectors = torch.ones(runs, CHEAP_DIM, dtype=torch.float64)
    for _ in range(2 * ROUNDS):
        for which, action, bare in ((0, ours, lambda: spectrum * vectors), (1, theirs, lambda: diagonal * starts[0])):
            products[which], began = 0, time.process_time()
            action()
            whole, began = time.process_time() - began, time.process_time()
            for _ in range(products[which]):
                bare()
            times[which].append(whole - (time.process_time() - began))
    one, other = (statistics.median(each) for each in times)
    print(
        f"{name}, {CHEAP_DIM} dimensions, {runs} runs: {products[0]} products and {one:.3f} s beside them, eigsh "
        f"{products[1] / runs:.0f} and {other:.3f} s ({one / other:.1f} times)"
    )


def main() -> int:
    """Print the lines; return 1 if the target is missed."""
    spectrum = made_spectrum()
    exact = Interval(spectrum.min()[None], spectrum.min()[None])
    kept = True
    for dtype in (torch.float64, torch.float32):
        diagonal = spectrum.to(dtype)
        name = f"made spectrum, {DIM} dimensions, {str(dtype)[6:]}"
        kept &= compare(name, lambda v, diagonal=diagonal: diagonal * v, DIM, dtype, exact, 1.0)

    x, model, inputs, labels = network()
    dim = x.shape[1]
    settings = {"num_products": 160, "failure_probability": 1e-6, "call": TRIALS}
    precise = products(x.double(), model, inputs, labels)
    truth = smallest_eigenvalue(precise, dim, STREAMS, **settings)
    largest = smallest_eigenvalue(lambda v: -precise(v), dim, STREAMS, num_products=PRODUCTS, failure_probability=1e-6)
    norm = max(-float(truth.upper), -float(largest.upper))
    print(f"network, {dim} parameters: {float(truth.lower):.4g} to {float(truth.upper):.4g}, spectral norm {norm:.4g}")
    hvp = products(x, model, inputs, labels)
    kept &= compare("the same in float32", hvp, dim, torch.float32, truth, norm)
    overhead(hvp, dim, torch.float32)
    torch.set_num_threads(1)  # like eigsh
    even = torch.linspace(-1, 1, CHEAP_DIM, dtype=torch.float64)
    for name, spectrum in (("even spectrum", even), ("made spectrum", made_spectrum(CHEAP_DIM))):
        for runs in (1, CHEAP_RUNS):
            beside_eigsh(name, spectrum, runs)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
