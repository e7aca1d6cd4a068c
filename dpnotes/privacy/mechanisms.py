"""Mechanisms without memory: Gaussian, Laplace, and no noise. Only mechanisms read the value of a `Sensitive`.

Mechanisms whose noise is correlated over steps are in `tree.py` and `factorisation.py`; answers yes or no in
`selection.py`; the calibration of noise to a guarantee in `calibration.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from dpnotes.core import Mechanism, Price, Request, Sensitive
from dpnotes.guarantees import WHOLE, Noise, Sampling, check_combination
from dpnotes.random import secret
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian mechanism, which adds independent Gaussian noise to every release.

    Formal guarantees:
      A release with standard deviation `s` of an answer of L2 sensitivity `D` is `(D / s)^2 / 2`-zCDP (Bun and
      Steinke 2016, arXiv:1605.02065v1, Proposition 1.6). Runs that are not active are neither charged nor answered:
      their rows are zeros.

    Args:
      purpose: names the noise stream; two mechanisms of one run need two purposes.
    """

    purpose: str = "gaussian mechanism"
    noise: ClassVar[Noise] = "gaussian"

    def init(self, x: Tensor) -> Tensor:
        """The empty state of a mechanism without memory, a `(runs, 0)` tensor."""
        return x.new_zeros(len(x), 0)

    def cost(
        self, state: Tensor, noise_multiplier: Tensor, sampling: Sampling = WHOLE, restart: Tensor | None = None
    ) -> Tensor:
        """The zCDP of one release, `(runs,)`, without amplification by sampling."""
        return 0.5 * noise_multiplier.double() ** -2

    def release(self, state: Tensor, request: Request, streams: Streams) -> tuple[Tensor, Tensor, Price]:
        """Release the answer of the active runs.

        Returns:
          The unchanged state, the noisy answer `(runs, dim)` and its price.

        Raises:
          CombinationError: if no accountant knows the answer's sampling under its relation.
          ValueError: if an active run's noise is not positive and finite, or its sensitivity is negative, infinite
            or NaN (a release without noise needs the mechanism `Exact`).
        """
        valid = check_release(request, streams)
        value, scale = request.answer.value, request.noise_std.double()
        if streams.secret:
            noisy = noisy_on_grid("normal", value, scale, valid)
        else:
            noise = streams.normal(self.purpose, request.call, value.shape[1])
            # In float64, and rounded to the answer's type only after the noise is added: see `Streams.normal`.
            noisy = noise.mul_(scale[:, None]).add_(value)
        return state, zeroed_except(noisy.to(value.dtype), valid), price_of(request, "gaussian")


@dataclass(frozen=True)
class Laplace:
    """The Laplace mechanism, with noise of standard deviation `noise_std`, that is of scale `noise_std / sqrt(2)`.

    It is for answers of one number, whose L1 and L2 sensitivities are equal.

    A Laplace number is computed from four normal numbers as `g1 g2 + g3 g4` (its characteristic function is
    `1 / (1 + t^2)`), so that it has the same bits on every device.

    Formal guarantees:
      A release with scale `b` of an answer of sensitivity `D` is `D / b`-DP (Dwork, McSherry, Nissim and Smith 2006,
      doi:10.1007/11681878_14, Proposition 1) and so `(D / b)^2 / 2`-zCDP (Bun and Steinke 2016, arXiv:1605.02065v1,
      Proposition 1.4).

    Args:
      purpose: names the noise stream; two mechanisms of one run need two purposes.
    """

    purpose: str = "laplace mechanism"

    def init(self, x: Tensor) -> Tensor:
        """The empty state of a mechanism without memory, a `(runs, 0)` tensor."""
        return x.new_zeros(len(x), 0)

    def cost(
        self, state: Tensor, noise_multiplier: Tensor, sampling: Sampling = WHOLE, restart: Tensor | None = None
    ) -> Tensor:
        """The zCDP of one release, `(runs,)`; the multiplier is the standard deviation over the sensitivity."""
        return noise_multiplier.double() ** -2

    def release(self, state: Tensor, request: Request, streams: Streams) -> tuple[Tensor, Tensor, Price]:
        """Release the answer of the active runs; as `Gaussian.release`.

        Raises:
          CombinationError: if the answer's sampling is a random batch: no accountant knows Laplace noise on one.
          ValueError: as `Gaussian.release`, or if the answer is not one number per run.
        """
        valid = check_release(request, streams, "laplace")
        value = request.answer.value
        if value.shape[1] != 1:
            raise ValueError(f"Expected an answer of shape (runs, 1), got {tuple(value.shape)}: L1 is L2 only there.")
        scale = request.noise_std.double() / 2**0.5
        if streams.secret:
            noisy = noisy_on_grid("laplace", value, scale, valid)
        else:
            noisy = (laplace(streams, self.purpose, request.call) * scale)[:, None].add_(value)
        price = price_of(request, "laplace", scale / request.answer.l2_sensitivity)
        return state, zeroed_except(noisy.to(value.dtype), valid), price


def noisy_on_grid(
    noise: secret.Noise, value: Tensor, scale: Tensor, valid: Tensor, step: Tensor | None = None
) -> Tensor:
    """The sum of value and real-valued noise, rounded once to a grid, which is released on secret streams.

    The grid is public. The result is post-processing of a real number plus real noise, and equally private
    (docs/derivations/rounded_noise.md). A value is clamped at 2^62 steps, which moves no two values apart, and one that
    is not a number counts as 0: an error would reveal it.

    Args:
      noise: standard normal, or Laplace of scale 1; from the operating system.
      value: `(runs, dim)`.
      scale: `(runs,)` float64, of the noise.
      valid: `(runs,)` bool, the runs whose scale is valid.
      step: `(runs,)` float64, the step of the grid; None: `grid_of(scale)`.

    Returns:
      `(runs, dim)` float64.

    Example:
      >>> one = torch.ones(1, dtype=torch.float64)
      >>> (noisy_on_grid("normal", one[:, None], one, one > 0) * 1024).frac()
      tensor([[0.]], dtype=torch.float64)
    """
    scale = torch.where(valid, scale, 1.0)
    step = grid_of(scale) if step is None else step
    steps = (value.double() / step[:, None]).nan_to_num(0.0).clamp(-(2.0**62), 2.0**62)
    whole = steps.round()  # not floor: for a small negative number the remainder would be inexact
    return secret.rounded(noise, steps - whole, scale / step).add_(whole).mul_(step[:, None])


def grid_of(scale: Tensor) -> Tensor:
    """The power of two between 2^-11 and 2^-10 times a scale above 0, `(runs,)`.

    Example:
      >>> grid_of(torch.tensor([1.0, 1.5, 1024.0]))
      tensor([9.7656e-04, 9.7656e-04, 1.0000e+00])
    """
    return torch.ldexp(torch.ones_like(scale), torch.frexp(scale).exponent - 11).clamp_min(2.0**-1022)


def is_exact(mechanism: object) -> bool:
    """Return whether a mechanism uses `noisy_on_grid` on secret streams; False for other `release` methods.

    Example:
      >>> is_exact(Gaussian()), is_exact(Exact())
      (True, False)
    """
    own = "release" in getattr(mechanism, "__dict__", {})
    return not own and getattr(type(mechanism), "release", None) in (Gaussian.release, Laplace.release)


def rounded_to_grid(noise: Tensor, value: Tensor, scale: Tensor) -> Tensor:
    """The sum of value and floating-point noise `(runs, dim)`, rounded to the grid of a scale `(runs,)`.

    Example:
      >>> rounded_to_grid(torch.tensor([[1e-5]]), torch.tensor([[3.0]]), torch.tensor([1.0]))
      tensor([[3.]], dtype=torch.float64)
    """
    step = grid_of(torch.where(scale > 0, scale, 1.0))[:, None]
    steps = value.double() / step
    whole = steps.floor()
    return ((noise / step + (steps - whole)).round() + whole) * step


def laplace(streams: Streams, purpose: str, call: int | Tensor) -> Tensor:
    """Laplace numbers of scale 1 (variance 2), `(runs,)` float64, one per run; arguments as `Streams.normal`.

    Example:
      >>> laplace(Streams.of(0, range(4)), "example", 0).shape
      torch.Size([4])
    """
    four = streams.normal(purpose, call, 4)
    return four[:, 0] * four[:, 1] + four[:, 2] * four[:, 3]


@dataclass(frozen=True)
class Exact:
    """The mechanism without noise or guarantee, whose cost is infinite; for tests and non-private baselines."""

    noise: ClassVar[Noise] = "gaussian"  # so that it may replace Gaussian noise; without noise nothing is claimed

    def init(self, x: Tensor) -> Tensor:
        """The empty state of a mechanism without memory, a `(runs, 0)` tensor."""
        return x.new_zeros(len(x), 0)

    def cost(
        self, state: Tensor, noise_multiplier: Tensor, sampling: Sampling = WHOLE, restart: Tensor | None = None
    ) -> Tensor:
        """The infinite zCDP cost, `(runs,)`: no finite budget covers a release without noise."""
        return torch.full_like(noise_multiplier, torch.inf, dtype=torch.float64)

    def release(self, state: Tensor, request: Request, streams: Streams) -> tuple[Tensor, Tensor, Price]:
        """Release the exact answers of the active runs, whatever the requested noise, with a noise multiplier of 0.

        Raises:
          CombinationError: as `Gaussian.release`, so that code which runs with `Exact` also runs with noise.
          ValueError: if an active run's sensitivity is negative or NaN; an infinite one, that of an unbounded answer,
            is allowed.
        """
        answer = request.answer
        valid = check_answer(answer, request.active, streams)
        price = Price(torch.zeros_like(request.noise_std), request.active, answer.relation, answer.sampling)
        return state, answer.value.masked_fill(~valid[:, None], 0), price


def says_gaussian(mechanism: Mechanism) -> bool:
    """Return whether a mechanism declares `noise = "gaussian"`, in the class of its methods or in a subclass.

    A declaration that a class inherits does not cover the methods that the class defines itself.

    Example:
      >>> says_gaussian(Gaussian()), says_gaussian(Laplace())
      (True, False)
    """
    classes = type(mechanism).__mro__
    says = next((each for each in classes if "noise" in vars(each)), object)
    speaks = all(each in says.__mro__ for each in classes if any(map(_is_own_method, vars(each).items())))
    own = {"cost", "release"} & getattr(mechanism, "__dict__", {}).keys()
    return speaks and not own and vars(says).get("noise") == "gaussian" == getattr(mechanism, "noise", None)


def _is_own_method(attribute: tuple[str, Any]) -> bool:
    name, value = attribute
    return not name.startswith("__") and (callable(value) or hasattr(value, "__get__"))


def shared(mechanism: Mechanism, noise: Sequence[float]) -> Mechanism:
    """The mechanism for runs with these amounts of noise: `Exact` if all are 0, else `mechanism`.

    Raises:
      ValueError: if there is no run, or if some runs have noise and others have none.

    Example:
      >>> shared(Gaussian(), [0.0, 0.0])
      Exact()
    """
    validate.at_least(1, num_runs=len(noise))
    silent = [level == 0 for level in noise]
    if any(silent) and not all(silent):
        raise ValueError(f"Expected noise={list(noise)} in all runs or in none: runs share their mechanism.")
    return Exact() if silent[0] else mechanism


def zeroed_except(noisy: Tensor, valid: Tensor) -> Tensor:
    """The noisy answers, `(runs, dim)`, with zeros in the runs that are not in `valid`; in place.

    Example:
      >>> zeroed_except(torch.ones(2, 1), torch.tensor([True, False])).flatten()
      tensor([1., 0.])
    """
    refused = ~valid
    return noisy if checks.known_empty(refused) else noisy.masked_fill_(refused[:, None], 0)


def price_of(request: Request, noise: Noise, noise_multiplier: Tensor | None = None) -> Price:
    """The price of a release with this kind of noise; the multiplier is noise over sensitivity unless it is given.

    Example:
      >>> from dpnotes.core import Relation, Sensitive
      >>> answer = Sensitive(torch.zeros(1, 1), torch.tensor([0.5]), Relation.ZERO_OUT, "proved")
      >>> request = Request(answer, torch.tensor([1.0]), torch.tensor([0]), torch.tensor([True]))
      >>> price_of(request, "gaussian").noise_multiplier
      tensor([2.])
    """
    answer = request.answer
    if noise_multiplier is None:
        noise_multiplier = request.noise_std / answer.l2_sensitivity
    return Price(noise_multiplier, request.active, answer.relation, answer.sampling, noise)


def check_release(request: Request, streams: Streams, noise: Noise = "gaussian") -> Tensor:
    """Refuse a release with an invalid noise or answer; every mechanism with noise calls this first.

    Args:
      request: the requested release.
      streams: the source of the noise.
      noise: the kind of noise.

    Returns:
      The runs that may be answered, `(runs,)` bool: the active ones. On a device, where an error is raised only when
      the host waits for it (`dpnotes.util.checks`), the runs with an error are excluded.

    Raises:
      CombinationError: see `Gaussian.release`.
      ValueError: see `Gaussian.release`; or if the answer or a parameter does not have one row per run.

    Example:
      >>> from dpnotes.core import Relation
      >>> answer = Sensitive(torch.zeros(1, 1), torch.tensor([-0.5]), Relation.ZERO_OUT, "proved")
      >>> check_release(
      ...     Request(answer, torch.tensor([1.0]), torch.tensor([0]), torch.tensor([True])), Streams.of(0, ["a"])
      ... )
      Traceback (most recent call last):
      ValueError: Expected 0 < noise_std=1.0 < inf and 0 <= l2_sensitivity=-0.5 < inf in run 0; a release without noise
      is asked for with Exact().
    """
    noise_std, l2_sensitivity, active = request.noise_std, request.answer.l2_sensitivity, request.active
    _check(request.answer, streams, noise, active=active, noise_std=noise_std, call=request.call)
    valid = active & (noise_std > 0) & (l2_sensitivity >= 0) & (noise_std + l2_sensitivity < torch.inf)
    if valid.device.type != "cpu":  # an invalid call would draw another call's noise before the error is raised
        valid = valid & streams.valid_calls(request.call)

    def error() -> ValueError:
        run = int((active & ~valid).nonzero()[0])
        return ValueError(
            f"Expected 0 < noise_std={noise_std[run].item()} < inf and 0 <= l2_sensitivity="
            f"{l2_sensitivity[run].item()} < inf in run {run}; a release without noise is asked for with Exact()."
        )

    checks.require(valid == active, error)
    return valid


def check_answer(answer: Sensitive, active: Tensor, streams: Streams, noise: Noise = "gaussian") -> Tensor:
    """Refuse an answer that has no price, whatever the amount of noise; `Exact` checks nothing else.

    Returns:
      The active runs whose answer has a price, `(runs,)` bool; see `check_release`.

    Raises:
      CombinationError: if no accountant supports the answer's sampling under its relation, or with this noise.
      ValueError: if an active run's sensitivity is negative or NaN.

    Example:
      >>> from dpnotes.core import FRESH, Relation
      >>> answer = Sensitive(torch.zeros(1, 1), torch.ones(1), Relation.ADD_OR_REMOVE, "proved", FRESH)
      >>> check_answer(answer, torch.tensor([True]), Streams.of(0, ["a"]))
      Traceback (most recent call last):
      dpnotes.guarantees.CombinationError: Expected sampling=fresh with relation replace-one or zero-out-one, got
      add-or-remove-one; add-or-remove-one goes with sampling whole or poisson.
    """
    _check(answer, streams, noise, active=active)
    l2_sensitivity = answer.l2_sensitivity
    valid = active & (l2_sensitivity >= 0)

    def error() -> ValueError:
        run = int((active & ~valid).nonzero()[0])
        return ValueError(f"Expected l2_sensitivity={l2_sensitivity[run].item()} >= 0 in run {run}.")

    checks.require(valid == active, error)
    return valid


def _check(answer: Sensitive, streams: Streams, noise: Noise, **named: Tensor) -> None:
    """Refuse an answer without an accountant, and tensors without one row per run.

    An answer that broadcasts would be released often and paid for once.
    """
    runs = len(streams.keys)
    if answer.value.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"Expected an answer of {answer.value.dtype} to be float32 or float64: rounding in fewer bits moves it "
            "further than its sensitivity says."
        )
    if answer.value.dim() != 2 or len(answer.value) != runs:
        raise ValueError(f"Expected an answer of shape ({runs}, dim), one row a run, got {tuple(answer.value.shape)}.")
    for name, tensor in {"l2_sensitivity": answer.l2_sensitivity, **named}.items():
        if tuple(tensor.shape) != (runs,):
            raise ValueError(f"Expected {name} of shape ({runs},), one a run, got {tuple(tensor.shape)}.")
    check_combination(answer.sampling, answer.relation, noise)
