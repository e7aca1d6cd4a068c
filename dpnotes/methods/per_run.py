"""Parameters that are one number for all runs, or one a run."""

import torch
from torch import Tensor

from dpnotes import validate


def rows(value: float | Tensor, x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """The parameter of each run, `(runs,)`, a tensor of its own for a method's state.

    Raises:
      ValueError: if it is neither one number nor one a run.

    Example:
      >>> rows(3, torch.zeros(2, 5), torch.int64)
      tensor([3, 3])
    """
    found = torch.as_tensor(value, dtype=dtype, device=x.device)
    if found.shape not in ((), (len(x),)):
        raise ValueError(f"Expected a parameter of shape {tuple(found.shape)} to be () or {(len(x),)}: one a run.")
    return found.expand(len(x)).clone()


def positive(**named: float | Tensor) -> None:
    """Refuse what is not above 0 in every run.

    Example:
      >>> positive(radius=torch.tensor([1.0, -2.0]))
      Traceback (most recent call last):
      ValueError: Expected radius=-2.0 > 0.
    """
    for name, value in named.items():
        for number in _numbers(value):
            validate.positive(**{name: number})


def non_negative(**named: float | Tensor) -> None:
    """Refuse what is below 0 in some run.

    Example:
      >>> non_negative(perturbation=-1.0)
      Traceback (most recent call last):
      ValueError: Expected perturbation=-1.0 >= 0.
    """
    for name, value in named.items():
        for number in _numbers(value):
            validate.non_negative(**{name: number})


def at_least(minimum: int, **named: int | Tensor) -> None:
    """Refuse what is not a whole number of at least `minimum` in every run.

    Example:
      >>> at_least(1, attempts=torch.tensor([2, 0]))
      Traceback (most recent call last):
      ValueError: Expected attempts=0 >= 1.
    """
    for name, value in named.items():
        for number in _numbers(value):
            validate.at_least(minimum, **{name: number})


def _numbers(value: float | Tensor) -> list[float]:
    return value.flatten().tolist() if isinstance(value, Tensor) else [value]
