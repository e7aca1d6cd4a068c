"""The environment of a process that computes as another processor would, so that digits that depend on it show."""

import platform
from typing import Any

from dpnotes.util import files

# With these glibc (each name in two spellings, before and since 2.33), torch, its oneDNN and MKL, OpenBLAS and numba
# use no AVX2 and no FMA. MKL takes orders from MKL_CBWR alone on processors of all makers.
_NO_AVX2 = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable", "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE", "OPENBLAS_CORETYPE": "Nehalem",
    "NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": "",
}  # fmt: skip
# What a process on another processor runs last, to see that the variables had their effect.
CHECK_OF_ANOTHER = """\
import torch
assert torch.backends.cpu.get_cpu_capability() == "DEFAULT", "this is no other processor"
"""


def another_processor() -> dict[str, str] | None:
    """Environment variables of a process that computes as an x86-64 processor without AVX2 and FMA would.

    `experiments.provenance.variables_for` gives the bits of a stored result again; this gives other bits, so that a
    printed digit that depends on the processor shows. What such a process caches (verdicts, cells) is kept apart.

    Returns:
      The variables; None where they would change little: elsewhere than with glibc on x86-64.

    >>> found = another_processor()
    >>> found is None or found["ATEN_CPU_CAPABILITY"]
    'default'
    """
    if platform.machine() not in ("x86_64", "AMD64") or platform.libc_ver()[0] != "glibc":
        return None
    import numpy as np

    known: dict[str, Any] = np.show_config(mode="dicts") or {}  # pyright: ignore[reportAssignmentType]
    names = known.get("SIMD Extensions", {})
    disabled = [*names.get("found", ()), *names.get("not found", ())]
    folders = {"DPNOTES_VERDICTS": "verdicts", "DPNOTES_CELLS": "cells", "NUMBA_CACHE_DIR": "numba"}
    apart = {name: str(files.cache_folder(part="another_processor") / folder) for name, folder in folders.items()}
    return {**_NO_AVX2, "NPY_DISABLE_CPU_FEATURES": " ".join(disabled), **apart}
