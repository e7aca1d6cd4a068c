"""Random crops and flips of images, whose draws do not depend on the batch that an example is in."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpnotes.random.streams import Streams

_PADDING = 4  # pixels added on each side before the random crop


@dataclass(frozen=True, eq=False)
class Augmentation:
    """A random crop (after padding by 4) and flip of each image, determined by its run, call and example.

    Args:
      streams: random streams, one for each run.
      calls: the number of the step, one for all runs or `(runs,)`; on the CPU, since it is part of the draw's name.
    """

    streams: Streams
    calls: int | Tensor

    def __call__(self, run: int, examples: Tensor, images: Tensor) -> Tensor:
        """Return the augmented images of some examples of one run, `(batch, channels, height, width)`."""
        call = int(self.calls[run]) if isinstance(self.calls, Tensor) else self.calls  # on the host
        # One key for each example, and the example's index as the call number: only this batch's examples are drawn.
        streams = self.streams.take(torch.full_like(examples, run))
        words = streams.words(f"augmentation {call}", examples, 1)
        shifts = 2 * _PADDING + 1  # a word modulo 9 deviates from uniform by 2e-9
        down, right, flip = words[0] % shifts, words[1] % shifts, words[2] % 2 == 1
        height, width = images.shape[2:]
        device = images.device
        across = torch.arange(width, device=device)
        rows = torch.arange(height, device=device) + down
        columns = torch.where(flip, width - 1 - across, across) + right
        padded = nn.functional.pad(images, [_PADDING] * 4)
        batch = torch.arange(len(images), device=device)[:, None, None]
        return padded[batch, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
