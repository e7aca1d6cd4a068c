"""The exercises of notebooks/bring_your_own."""

import torch

from dpnotes.core import Guarantee, Relation
from dpnotes.exercises.noisy_sgd import mistake_in_step
from dpnotes.notebook.teaching import exercise, near
from dpnotes.problems.modules import ModuleProblem


@exercise
def release_exercise(function):
    """Write the release of DP-SGD, which the plan makes a hundred times. `gradients` are those of the examples of a
    Poisson batch, `(batch, dim)`; clip each to the length `longest`; the noise on their sum is `noise_multiplier` times
    the sensitivity of the sum; `batch_size` is the expected size, and `normal` `(dim,)` are independent standard normal
    numbers.

    Hints:
      Clip every row: divide it by max(1, its length / longest). A short row stays as it is.

      One example changes the sum by at most longest: this is the sensitivity.

      Divide by batch_size, not by len(gradients).
    """
    longest, noise_multiplier, batch_size = 1.5, 2.0, 10
    asked = lambda rows, normal: function(rows, longest, noise_multiplier, batch_size, normal)
    return mistake_in_step(asked, B=batch_size, C=longest, Delta=noise_multiplier * longest / batch_size)


@exercise
def loss_exercise(function):
    """Your network has one output, `(batch, 1)`, and the targets are numbers, `(batch,)`. Write the absolute error for
    `plan.train(..., loss=absolute_error)`: one loss for each example, `(batch,)`, which depends on this example alone.

    Hints:
      `(batch, 1)` minus `(batch,)` is `(batch, batch)` in torch: every output with every target.

      Take the column of outputs. Do not take the mean: clipping needs the loss of each example.
    """
    outputs, targets = torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([1.5, 0.0, 5.0])
    losses = function(outputs, targets)
    if getattr(losses, "shape", None) != (3,):
        return f"for three examples it returns the shape {tuple(getattr(losses, 'shape', ()))}; one loss each is (3,)."
    if not torch.equal(function(outputs, torch.tensor([1.5, 7.0, 5.0]))[::2], losses[::2]):
        return "the loss of an example changes with the target of another one."
    if not torch.allclose(losses, torch.nn.functional.l1_loss(outputs, targets[:, None], reduction="none")[:, 0]):
        return "each loss belongs to its own example, but it is not the absolute error."
    rows = torch.linspace(-1, 1, 60).view(3, 20)
    ModuleProblem(torch.nn.Linear(20, 1), rows, targets, loss=function).gradients(torch.zeros(1, 21)).norms()
    return ""


@exercise
def best_of_three(number):
    """You train with the step sizes 0.5, 1 and 2 on the same private tensors, each with epsilon = 2 and delta = 1e-5.
    On public examples you see which of the three networks is best, and publish that one alone. Add up: which epsilon
    may you claim, with delta = 3e-5?

    Hints:
      Could a change of one example change which network you publish?

      The choice depends on all three networks, so it releases something about each run.
    """
    claims = [Guarantee(2.0, 1e-5, Relation.ZERO_OUT, "each run") for _ in (0.5, 1, 2)]
    if near(claims[0].epsilon)(number) == "":
        return "that is the claim of one run, chosen before any was seen."
    return near(sum(claim.epsilon for claim in claims))(number)
