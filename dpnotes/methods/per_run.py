"""Parameters that are one number for all runs, or one a run."""

import torch
from torch import Tensor


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
