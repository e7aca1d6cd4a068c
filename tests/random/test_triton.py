"""The GPU kernel without a GPU: its bits in Triton's interpreter, and its compiled instructions.

Triton comes with PyTorch's CUDA builds, and can be installed beside other builds. The kernel's results on a GPU are
tested there (`pytest -m gpu`), and before its first draw (`draws.agrees`).
"""

import os
import re
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CAPABILITIES = (70, 100)  # V100, B200
EXACT = ("ld", "st", "mov", "cvt", "setp", "selp", "max", "neg", "reg", "param")  # these do not round here
ROUNDED = {f"{name}.rn.f64" for name in ("add", "sub", "mul", "div", "sqrt")}

INTERPRETED = """
import torch
from dpnotes.random import draws, gpu_kernel, reference
cpu = torch.device("cpu")
print(draws.agrees(gpu_kernel, cpu))
keys, calls = torch.tensor([[1, 2], [3, 2**32 - 1], [5, 6]]), torch.tensor([7, 2**32 - 1, 9])
where = (5, 6), 3, 3000
print(all(torch.equal(getattr(gpu_kernel, kind)(keys, calls, *where), getattr(reference, kind)(keys, calls, *where))
          for kind in ("words", "uniforms", "normals")))
gpu_kernel._table(cpu)[20] *= 1 + 2**-52  # the control: a constant that is a last place off
print(draws.agrees(gpu_kernel, cpu))
"""


def test_in_triton_s_interpreter_the_kernel_draws_the_reference_s_bits():
    pytest.importorskip("triton")
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    found = subprocess.run([sys.executable, "-c", INTERPRETED], capture_output=True, text=True, env=environment)
    assert found.stdout.split() == ["True", "True", "False"], found.stderr


def instructions(kind: str, capability: int, integer: str = "i64", **options: Any) -> set[str]:
    """Return the kernel's rounding floating-point instructions; `integer` is the type of its integer arguments."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from dpnotes.random import gpu_kernel

    out = "*i64" if kind == "words" else "*fp64"
    given = dict.fromkeys(("num_calls", "low", "high", "start", "count"), integer)
    given |= {"keys": "*i64", "calls": "*i64", "table": "*fp64", "out": out, "KIND": "constexpr", "BLOCK": "constexpr"}
    signature = {name: given[name] for name in gpu_kernel._kernel.arg_names}
    source = ASTSource(gpu_kernel._kernel, signature, {"KIND": kind, "BLOCK": gpu_kernel._BLOCK})
    compiled = compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    code = re.sub(r"//.*", "", compiled.asm["ptx"])
    found = re.findall(r"\b[a-z]\w*(?:\.\w+)*\.f(?:16|32|64)\b", code)
    return {name for name in found if name.split(".")[0] not in EXACT}


@pytest.mark.parametrize("integer", ["i32", "i64"])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_compiled_for_a_gpu_each_operation_is_rounded_by_itself(capability: int, integer: str):
    pytest.importorskip("triton")
    assert instructions("words", capability, integer, enable_fp_fusion=False) == set()
    assert instructions("uniforms", capability, integer, enable_fp_fusion=False) == {"add.rn.f64", "mul.rn.f64"}
    assert instructions("normals", capability, integer, enable_fp_fusion=False) == ROUNDED


def test_control_fused_products_are_seen():
    pytest.importorskip("triton")
    assert "fma.rn.f64" in instructions("normals", 90, enable_fp_fusion=True)
