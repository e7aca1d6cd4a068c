"""The option `--paper`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def collected(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *options, "tests/papers/test_breaches.py"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.slow
def test_the_option_leaves_out_the_claims_of_other_papers_and_names_the_papers():
    some, others = collected("--paper", "noisy_sgd").stdout, collected().stdout
    assert "[noisy_sgd.sec3.4.laplace]" in some and "[adaptive_batch.alg2.reset]" in others
    assert "[adaptive_batch." not in some and "test_control_what_breaks_for_one_base_only_is_no_accusation" in some
    refused = collected("--paper", "nothing")
    assert refused.returncode == 4 and "Expected --paper=nothing to be one of: adaptive_batch, " in refused.stderr
