"""Random changes of examples, whose draws do not depend on the batch that an example is in."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dpnotes.random.streams import Streams
from dpnotes.util import validate

Transform = Callable[[Tensor, Tensor], Tensor]  # maps one example and its uniform numbers to the changed example
UNIFORMS = 16  # numbers that a transform receives
_PADDING = 4  # pixels added on each side before the random crop


@dataclass(frozen=True, eq=False)
class Draws:
    """The streams and step numbers of the random changes in a pass; each draw is named by run, call and example.

    Args:
      streams: replayable streams, one for each run.
      calls: the number of the step, one for all runs or `(runs,)`; on the CPU, since it is part of the draw's name.
    """

    streams: Streams
    calls: int | Tensor

    @staticmethod
    def of(streams: Streams, calls: int | Tensor) -> "Draws":
        """Draws on these streams, secret ones with keys of their own that allow a repeat.

        Raises:
          TypeError: for calls that are no whole numbers.
          ValueError: for negative calls.
        """
        if isinstance(calls, Tensor):
            if calls.is_floating_point():
                raise TypeError(f"Expected calls, {calls.dtype}, to be whole numbers.")
            calls = calls.cpu()  # they name the purpose of a draw: one wait for the device, not one a run
        else:
            validate.at_least(0, calls=calls)
        return Draws(streams.replayable("augmentation"), calls)

    def call(self, run: int) -> int:
        """The number of the step of a run."""
        return int(self.calls[run]) if isinstance(self.calls, Tensor) else self.calls

    def take(self, index: Tensor | slice) -> "Draws":
        """The draws of some of the runs."""
        calls = self.calls
        if isinstance(calls, Tensor):
            calls = calls[index.to(calls.device) if isinstance(index, Tensor) else index]
        return replace(self, streams=self.streams.take(index), calls=calls)

    def of_examples(self, run: int, examples: Tensor) -> Streams:
        """A stream for each example: the run's key, and the example's number as the call."""
        return self.streams.take(torch.full_like(examples, run))


def cropped(draws: Draws, run: int, examples: Tensor, images: Tensor) -> Tensor:
    """Images of one run, `(batch, channels, height, width)`, randomly cropped after padding by 4, and flipped."""
    words = draws.of_examples(run, examples).words(f"augmentation {draws.call(run)}", examples, 1)
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


def transformed(draws: Draws, run: int, examples: Tensor, inputs: Tensor, transform: Transform) -> Tensor:
    """Examples of one run after a transform, each with `UNIFORMS` uniform numbers of its own.

    Raises:
      ValueError: if the transform draws random numbers elsewhere, branches on values, or returns another shape or type.
    """
    own = draws.of_examples(run, examples).uniform(f"transform {draws.call(run)}", examples, UNIFORMS).float()
    try:
        found = torch.func.vmap(transform, randomness="error")(inputs, own)
    except (RuntimeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise ValueError(
            f"Expected transform to apply torch's operations to one example and its uniforms: {said}"
        ) from None
    if found.shape != inputs.shape or found.dtype != inputs.dtype:
        kind = f"{found.dtype} of {tuple(found.shape[1:])}"
        raise ValueError(f"Expected transform to return {inputs.dtype} of {tuple(inputs.shape[1:])}, got {kind}.")
    return found
