"""Norms of the examples' gradients of a network in training: is a bound C that nothing enforces kept?

They are exact statistics of private data, and no guarantee covers them: nothing that a run does depends on them.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpnotes.problems.modules import ModuleProblem
from dpnotes.util.validate import AtLeastOne, Positive, checked

NORMS = ("gradient_median", "gradient_99", "gradient_largest", "gradient_above", "batch_gradient")


@checked
@dataclass(frozen=True, eq=False)
class ExampleNorms:
    """Quantiles of the norms of examples' gradients, the share of them that is above a bound, and that of a batch.

    With batch normalisation an example has no gradient of its own. What is measured there is the gradient of its loss
    with the statistics of its batch held fixed, which is the nearest thing to one. The mean gradient of a batch, of
    which the largest norm over batches is kept, is the one that training takes.

    Args:
      module: the network, as `ModuleProblem` takes it.
      inputs: of the training examples, on the device of the points.
      labels: of the training examples.
      batches: which examples, `(batches, batch)`; with batch normalisation a row shares its statistics.
      bound: C, above 0 and finite.
      examples_at_once: as `ModuleProblem`'s `max_examples_at_once`.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> from dpnotes.random.streams import Streams
      >>> inputs, labels = torch.eye(6), torch.arange(6) % 2
      >>> module = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
      >>> x = ModuleProblem(module, inputs, labels).initial(Streams.of("example", ["run 0"]))
      >>> ExampleNorms(module, inputs, labels, torch.arange(6).view(1, 6), bound=1e-3).measure(x)[0, 3]
      tensor(1.)
    """

    module: nn.Module
    inputs: Tensor
    labels: Tensor
    batches: Tensor
    bound: Positive
    examples_at_once: AtLeastOne | None = None

    def measure(self, x: Tensor) -> Tensor:
        """The `NORMS` at the points `x` `(runs, dim)`, `(runs, 5)`; what is not finite is above the bound."""
        rows = []
        for run in range(len(x)):
            parts = [self._norms(x[run : run + 1], examples) for examples in self.batches]
            norms = torch.cat([own for own, _ in parts])
            quantiles = torch.quantile(norms, norms.new_tensor([0.5, 0.99, 1.0]))
            above = (~(norms <= self.bound)).to(norms).mean()
            rows.append(torch.cat([quantiles, torch.stack([above, max(mean for _, mean in parts)])]))
        return torch.stack(rows)

    def _norms(self, x: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
        """Of the examples of one batch at one point, `(batch,)`, and of their mean, as training has it."""
        inputs, labels = self.inputs[examples], self.labels[examples]
        problem = ModuleProblem(self.module, inputs, labels, max_examples_at_once=self.examples_at_once)
        mean = problem.gradients(x).weighted_sum(x.new_full((1, len(labels)), 1 / len(labels))).norm()
        if problem.mixes_examples:
            module = self._held({name: value[0] for name, value in problem.parameters(x).items()}, inputs)
            problem = ModuleProblem(module, inputs, labels, max_examples_at_once=self.examples_at_once)
        return problem.gradients(x).norms()[0], mean

    def _held(self, values: dict[str, Tensor], inputs: Tensor) -> nn.Module:
        """The module with the statistics that its batch normalisations have on these inputs, at these parameters."""
        module = copy.deepcopy(self.module).to(inputs.device)
        layers = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training]
        for layer in layers:
            # With this momentum the running statistics are the last batch's.
            layer.track_running_stats, layer.momentum = True, 1.0
            layer.running_mean = torch.zeros_like(layer.bias)
            layer.running_var = torch.ones_like(layer.bias)
        with torch.no_grad():
            torch.func.functional_call(module, values, (inputs,))
        for layer in layers:
            layer.eval()
        return module
