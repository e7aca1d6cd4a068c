"""The mistakes in a release, by its properties: shape, the part without noise, the noise."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Release:
    """The right release, `clean + scale * draw`, with the mistakes that can be told apart.

    Args:
      clean: the release without noise.
      scale: the right factor of the draw, above 0.
      slips: maps a mistake in the part without noise to the value that it leads to.
      scales: maps a mistake in the noise to the right factor's multiple that it leads to.
    """

    clean: Tensor
    scale: float
    slips: Mapping[str, Tensor] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)

    def mistake(self, released: Callable[[Tensor], Any], draw: Tensor) -> str:
        """The mistake in a release, in words; "" if there is none.

        Args:
          released: maps a draw of the noise to a release; asked with `draw`, and with a draw of zeros.
          draw: standard normal numbers, of the shape of `clean` or broadcast to it.

        >>> right = Release(torch.ones(2), 0.5, scales={"the noise is doubled.": 2.0})
        >>> right.mistake(lambda draw: torch.ones(2) + draw, torch.tensor([0.3, -1.0]))
        'the noise is doubled.'
        """
        noisy, exact = released(draw), released(torch.zeros_like(draw))
        for found in (noisy, exact):
            if getattr(found, "shape", None) != self.clean.shape:
                return f"it should return a tensor of shape {tuple(self.clean.shape)}."
        if torch.equal(noisy, exact):
            return "you added no noise."
        if not torch.allclose(exact, self.clean):
            slipped = [said for said, value in self.slips.items() if torch.allclose(exact, value)]
            return slipped[0] if slipped else "without its noise it is another value: the mistake is in the mean."
        noise = (noisy - exact) / (self.scale * draw)
        ratio = float(noise.mean())
        if not torch.allclose(noise, torch.full_like(noise, ratio)):
            return "the noise is not one multiple of the draw in every coordinate."
        if math.isclose(ratio, 1, rel_tol=1e-4):
            return ""
        slipped = [said for said, factor in self.scales.items() if math.isclose(ratio, factor, rel_tol=1e-4)]
        return slipped[0] if slipped else f"the noise is too {'weak' if abs(ratio) < 1 else 'strong'}."
