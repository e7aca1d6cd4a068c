"""The choice of the code that draws: a fused kernel if the device has one, else the reference, with equal bits.

A kernel is compared with the reference when it is first needed, and rejected if a bit differs.
"""

import importlib
import importlib.metadata
import importlib.util
import warnings
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

import torch

from dpnotes.random import reference

# By type of device: the compiler of the kernel, the kernel's module, and how to install the compiler.
_COMPILERS = {"cpu": "numba", "cuda": "triton"}
_MODULES = {"cpu": "dpnotes.random.cpu_kernel", "cuda": "dpnotes.random.gpu_kernel"}
_ADVICE = {"cpu": "pip install -c constraints.txt -e '.[fast]'", "cuda": "it comes with PyTorch's builds for CUDA"}


@dataclass(frozen=True)
class Backend:
    """The code that draws on a device: its module, whether it is fused, a description and advice."""

    module: ModuleType
    fused: bool
    about: str
    advice: str = ""

    @property
    def bytes_a_number(self) -> int:
        """The peak memory for drawing one number, in bytes, including intermediate values."""
        return 16 if self.fused else 96


@lru_cache(maxsize=16)
def backend(device: torch.device) -> Backend:
    """The code that draws on this device, determined at the first draw there.

    A kernel that does not compile or draws other bits is not used, with one warning.

    Example:
      >>> backend(torch.device("meta")).about
      'no fused kernel for meta'
    """
    compiler = _COMPILERS.get(device.type)
    if compiler is None:
        return Backend(reference, False, f"no fused kernel for {device.type}")
    if importlib.util.find_spec(compiler) is None:
        return Backend(reference, False, f"{compiler} is not installed, draws are slower", _ADVICE[device.type])
    try:
        module = importlib.import_module(_MODULES[device.type])
        if not agrees(module, device):
            raise ArithmeticError("its bits are not the reference's")
    except Exception as error:  # anything that a compiler may raise: too old, too new, no place to write to
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        about = f"the kernel of {compiler} is not used, draws are slower ({why})"
        warnings.warn(about, RuntimeWarning, stacklevel=2)
        return Backend(reference, False, about, f"report it, or remove {compiler}")
    return Backend(module, True, f"fused kernel, compiled by {compiler} {importlib.metadata.version(compiler)}")


def agrees(module: ModuleType, device: torch.device) -> bool:
    """Return whether a module draws the same bits on a device as the reference on a CPU, on some thousand numbers."""
    keys = torch.tensor([[0, 0], [0xFFFFFFFF, 0x12345678], [5, 0xFFFFFFFF]])
    for calls in (torch.tensor([3]), torch.tensor([0, 2**31, 2**32 - 1])):
        for kind in ("words", "uniforms", "normals"):
            for start, count in ((0, 700), (2**31 - 3, 5)):
                where = (0xDEADBEEF, 7), start, count
                found = getattr(module, kind)(keys.to(device), calls.to(device), *where).cpu()
                if not torch.equal(found, getattr(reference, kind)(keys, calls, *where)):
                    return False
    return True
