"""The private training of your own network: state the privacy budget once, then train."""

import copy
import math
import secrets
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Unpack

import torch
from torch import Tensor, nn

from dpnotes.core import Guarantee, Relation, Sampling
from dpnotes.guarantees import STATISTICS_WITHOUT_NOISE, as_json, from_json, together
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.privacy.events import clipped_sensitivity
from dpnotes.privacy.mechanisms import Exact, Gaussian
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.rows import as_examples
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Checkpoint, Evaluation, Training, train
from dpnotes.train.noise import NoiseChoice, calibrated_noise, no_noise
from dpnotes.train.optimiser import MakesOptimiser, method_of
from dpnotes.train.options import TrainingOptions
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, Positive, PositiveOrInfinite, Probability, checked

_CLAIMS = "dpnotes_claims"  # an attribute of each submodule of a trained network; it travels with the submodule


@dataclass(frozen=True)
class Trained:
    """A trained network and its guarantee.

    Args:
      module: a copy of the network with its new weights, which stores the guarantees of its trainings.
      guarantee: covers these weights and everything released by this training and the earlier ones.
      training: the flat point `x` `(1, dim)`, the curves, the status.
    """

    module: nn.Module
    guarantee: Guarantee
    training: Training


@checked
@dataclass(frozen=True)
class TrainingPlan:
    """The settings of a private training, from which noise, batches, clipping and guarantee follow.

    Algorithm 1 of Avdiukhin et al. (2024), arXiv:2410.06878, which is DP-SGD (Abadi et al. 2016, arXiv:1607.00133):
    batches are drawn at random, the gradients of the examples are clipped, Gaussian noise is added to their mean. The
    noise is the least that the exact accountant allows for (epsilon, delta).

    Args:
      epsilon: above 0; infinite for a training without privacy.
      delta: in (0, 1); well below 1 / num_examples, otherwise a warning says what it allows.
      num_examples: the number of examples, public. Under add-or-remove-one the exact number is private; give a nearby
        round number.
      batch_size: whole, at most `num_examples`; for Poisson batches the expected size.
      num_steps: at least 1.
      norm_bound: C, above 0: the norm to which each example's gradient is clipped, in units of loss over length.
      sampling: "poisson" (each example independently), or "fixed-size", for which the relation is replace-one.
      relation: which data sets are neighbours.

    Raises:
      CombinationError: if no accountant knows this sampling under this relation.
      ValueError: outside these domains.

    Example:
      >>> from dpnotes.problems.datasets import load
      >>> digits = load("digits")
      >>> plan = TrainingPlan(epsilon=4.0, delta=1e-5, num_examples=1400, batch_size=140, num_steps=100, norm_bound=1.0)
      >>> network, streams = nn.Linear(64, 10), Streams.of("example", ["run"])
      >>> trained = plan.train(network, digits.train_inputs, digits.train_labels, step_size=1.0, streams=streams)
      >>> accuracy = (trained.module(digits.test_inputs).argmax(1) == digits.test_labels).float().mean()
      >>> round(plan.noise_multiplier, 2), round(trained.guarantee.epsilon, 2), bool(accuracy > 0.7)
      (1.39, 4.0, True)
    """

    epsilon: PositiveOrInfinite
    delta: Probability
    num_examples: AtLeastOne
    batch_size: AtLeastOne
    num_steps: AtLeastOne
    norm_bound: Positive
    sampling: Literal["poisson", "fixed-size"] = "poisson"
    relation: Relation = Relation.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        if self.batch_size > self.num_examples:
            raise ValueError(f"Expected batch_size={self.batch_size} <= num_examples={self.num_examples}.")
        _ = self.noise
        if self.epsilon < math.inf and self.delta * self.num_examples >= 1:
            warnings.warn(
                f"Expected {validate.shown('delta', self.delta)} to be well below 1 / {self.num_examples}: to publish"
                " one of the examples, drawn at random, is as private as that.",
                stacklevel=4,  # one of them is of `checked`
            )

    @cached_property
    def batches(self) -> Sampling:
        """The sampling of the batches."""
        if self.sampling == "fixed-size":
            return Sampling.fixed_size(self.batch_size, self.num_examples)
        return Sampling.poisson(self.batch_size / self.num_examples)

    @cached_property
    def noise(self) -> NoiseChoice:
        """The noise on each coordinate of the mean gradient."""
        if self.epsilon == math.inf:
            return no_noise()
        return calibrated_noise(
            self.epsilon,
            self.delta,
            norm_bound=self.norm_bound,
            sampling=self.batches,
            relation=self.relation,
            num_steps=self.num_steps,
            divisor=self.batch_size,
        )

    @property
    def noise_multiplier(self) -> float:
        """The standard deviation of the noise over the sensitivity under `relation`."""
        return self.noise.std / clipped_sensitivity(self.norm_bound, self.batch_size, self.relation, self.batches)

    def oracle(self, problem: ModuleProblem) -> MinibatchGradient:
        """The oracle of clipped, noised gradients for one run, on the device of the problem."""
        return MinibatchGradient(
            problem,
            self.batches,
            torch.tensor([self.noise.std], dtype=torch.float64),
            self.norm_bound,
            self.num_steps,
            self.relation,
            clipped=True,
            divisor=self.batch_size,
            mechanism=Gaussian() if self.noise.std else Exact(),
        )

    def _warn_of_other_data(self, count: int) -> None:
        """Warn if the data's size is far from `num_examples`; with an error, a run would depend on a private number."""
        if not self.num_examples / 2 <= count <= 2 * self.num_examples:
            warnings.warn(
                f"Expected num_examples={self.num_examples} to be near that of the data, {count}: batches are far"
                " smaller or larger than batch_size, by which their sums are divided.",
                stacklevel=4,  # one of them is of `checked`
            )

    @checked
    def train(
        self,
        module: nn.Module,
        inputs: Any,
        labels: Any = None,
        *,
        step_size: float | Tensor | None = None,
        momentum: float = 0.0,
        optimizer: MakesOptimiser | None = None,
        streams: Streams | None = None,
        evaluation: Evaluation | None = None,
        checkpoint: Checkpoint | None = None,
        **more: Unpack[TrainingOptions],
    ) -> Trained:
        """Train a network, starting from its current weights.

        The weights must be public or trained by a plan. A network trained by a plan, like its submodules and copies,
        stores the guarantees of its trainings, and training it further costs their sum. Extracts that are no modules
        store nothing: a `state_dict`, single weights, or features that the network computed from the examples.

        Args:
          module: is copied, never changed; frozen parameters keep their values (`ModuleProblem`).
          inputs: `(examples, ...)`, a tensor, an array or a list, or a tuple of these for a module of several
            arguments; or a `torch.utils.data.Dataset` of pairs, whose rows are read when they are needed.
          labels: `(examples,)`, on the device to train on; None with a data set. A warning is given if far from
            `num_examples` of them.
          step_size: above 0; one number, or one per step, at most `(num_steps,)`; after the last entry it stays
            constant. Either this or an optimizer.
          momentum: in [0, 1), of the moving average of the gradients (`Descent`): with 0.9, a step size of 1 is what
            `torch.optim.SGD` calls 0.1.
          optimizer: returns an optimiser of `torch.optim` for the parameters that it is given (`train.optimiser`):
            `lambda parameters: torch.optim.AdamW(parameters, lr=2e-3)`. It sees released gradients only.
          streams: with one key. None: secret streams of the operating system. A run on seeded streams can be repeated;
            its guarantee assumes that the seed stays secret.
          evaluation: data and frequency of the measured losses and accuracies; exact, and covered by no guarantee.
          checkpoint: where and how often the training is stored; if the file exists, the training resumes from it.
          **more: of `TrainingOptions`, such as a loss of your own.

        Raises:
          DamagedFileError: if the checkpoint's content is not what was written.
          OutOfMemory: if a batch does not fit into memory; the message says what to do.
          TypeError: for arguments of another type.
          ValueError: outside these domains; if a fixed-size plan is for another number of examples; for a checkpoint
            with other settings; for a network that was trained under another neighbouring relation.
        """
        device = labels.device if isinstance(labels, Tensor) else next(module.parameters()).device
        inputs, labels = as_examples(inputs, labels, device)
        method = method_of(module, self.num_steps, step_size, momentum, optimizer, more.pop("schedule", None))
        report, not_covered = more.pop("report", None), more.pop("not_covered", ())
        start_is_public = more.pop("start_is_public", False)
        network: Any = more  # what `ModuleProblem` takes, or refuses
        validate.instance(tuple, not_covered=not_covered)  # the letters of a text would be a tuple too
        validate.flag(start_is_public=start_is_public)
        before = () if start_is_public else tuple(map(from_json, _remembered(module)))
        if others := {claim.relation for claim in before} - {self.relation}:
            raise ValueError(
                f"Expected relation={self.relation.value!r} to be that of the trainings before, {min(others).value!r}:"
                " claims for different neighbours do not add up."
            )
        if streams is not None and len(streams) != 1:
            raise ValueError(f"Expected streams of {len(streams)} keys to be of one: a plan trains one network.")
        if checkpoint is not None and before:  # resuming from the file includes these trainings
            settings = {**checkpoint.settings, "trained before": [str(claim) for claim in before]}
            checkpoint = replace(checkpoint, settings=settings)
        self._warn_of_other_data(len(labels))
        problem = ModuleProblem(module, inputs, labels, **network)
        oracle = self.oracle(problem)
        streams = Streams.secure(1, labels.device) if streams is None else streams
        start = problem.initial(streams, only=[])
        training = train(oracle, start, streams, evaluation, method=method, checkpoint=checkpoint, report=report)
        if evaluation is not None and STATISTICS_WITHOUT_NOISE not in not_covered:
            not_covered = (*not_covered, STATISTICS_WITHOUT_NOISE)
        (guarantee,) = oracle.guarantee(training.oracle_state, self.delta, streams, not_covered=not_covered)
        trained = copy.deepcopy(module).to(labels.device)
        weights = {name: view[0] for name, view in problem.parameters(training.x).items()}
        trained.load_state_dict(trained.state_dict() | weights)
        # As text with a random id of the training, so that a network's file can be read without this package.
        remembered = (*_remembered(module), as_json(guarantee, training=secrets.token_hex(8)))
        for part in trained.modules():
            vars(part)[_CLAIMS] = remembered
        return Trained(trained, together((*before, guarantee)), training)


def _remembered(module: nn.Module) -> tuple[str, ...]:
    """The stored guarantees of all trainings of a network and of its submodules, without duplicates."""
    return tuple(dict.fromkeys(text for part in module.modules() for text in vars(part).get(_CLAIMS, ())))
