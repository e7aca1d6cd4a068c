"""How often a Lanczos iteration looks whether it may stop, and what a look costs."""

import pytest
import torch

from dpnotes.measure import curvature
from dpnotes.random.streams import Streams


def test_a_look_tries_one_gap_and_only_the_end_searches(monkeypatch: pytest.MonkeyPatch):
    spectrum = torch.linspace(-1, 1, 2000, dtype=torch.float64)
    tried, once = [], curvature._Polynomials.rules_out

    def rules_out(self: curvature._Polynomials, run: int, gap: float) -> bool:
        tried.append(len(self.steps[run]))
        return once(self, run, gap)

    monkeypatch.setattr(curvature._Polynomials, "rules_out", rules_out)
    options = {"num_products": 400, "failure_probability": 1e-3, "tolerance": 3e-3}
    found = curvature.smallest_eigenvalue(lambda v: spectrum * v, 2000, Streams.of("looks", [0]), **options)
    assert found.num_products is not None
    products = int(found.num_products)
    assert tried == [*range(4, products + 1, 4)] + [products] * 24
    assert products > 80, "control: there were many looks"
