"""The arguments of a training that few need, each with its type."""

from collections.abc import Callable
from typing import Literal, TypedDict

import torch
from torch import Tensor, nn

from dpnotes.problems.augmentation import Transform
from dpnotes.problems.modules import Loss
from dpnotes.train.optimiser import MakesSchedule


class TrainingOptions(TypedDict, total=False):
    """The arguments of `TrainingPlan.train` that few trainings need.

    Args:
      loss: "cross-entropy", or a function of outputs and labels to `(batch,)` losses.
      example: inputs and label of a public example, `(1, ...)` each, on which the network is tried out; or None.
      vouched: layer classes that process each example separately, as you vouch for; the guarantee names them.
      start_is_public: whether the weights do not depend on these data although a plan trained them (on public data,
        or on other people's). The guarantee is then that of this training alone.
      report: called with one line after each evaluation.
      not_covered: other quantities that depend on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.
      schedule: of `torch.optim.lr_scheduler`, for an `optimizer`, such as `lambda optimizer: StepLR(optimizer, 30)`.
      transform: a random change of each example of the first input (`ModuleProblem`), by the streams' draws.
      max_examples_at_once: the largest chunk of a batch that is in memory at once.
      autocast: `torch.bfloat16`, or None for passes in the parameters' type.
    """

    loss: Literal["cross-entropy"] | Loss
    example: tuple[Tensor, ...] | None
    vouched: tuple[type[nn.Module], ...]
    start_is_public: bool
    report: Callable[[str], None] | None
    not_covered: tuple[str, ...]
    schedule: MakesSchedule | None
    transform: Transform | None
    max_examples_at_once: int | None
    autocast: torch.dtype | None
