"""The per-example gradient norms of a network in training, to check a bound C that nothing enforces.

These norms are exact statistics of private data and no guarantee covers them: no step of a run depends on them.
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
    """Quantiles of per-example gradient norms, the share above a bound, and the largest norm of a batch's mean.

    With batch normalisation an example has no gradient of its own; the gradient of its loss with the statistics of its
    batch held fixed is measured instead. The mean gradient of a batch is the one that training uses; the largest of its
    norms over the batches is reported.

    Args:
      module: the network, as `ModuleProblem` takes it.
      inputs: of the training examples, on the device of the points.
      labels: of the training examples.
      batches: example indices, `(batches, batch)`; with batch normalisation the examples of a row share statistics.
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
        """The `NORMS` at points `x` `(runs, dim)`, `(runs, 5)`; norms that are not finite count as above the bound."""
        rows = []
        for run in range(len(x)):
            parts = [self._norms(x[run : run + 1], examples) for examples in self.batches]
            norms = torch.cat([own for own, _ in parts])
            quantiles = torch.quantile(norms, norms.new_tensor([0.5, 0.99, 1.0]))
            above = (~(norms <= self.bound)).to(norms).mean()
            rows.append(torch.cat([quantiles, torch.stack([above, max(mean for _, mean in parts)])]))
        return torch.stack(rows)

    def _norms(self, x: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient norms of a batch's examples at one point, `(batch,)`, and that of the mean used in training."""
        inputs, labels = self.inputs[examples], self.labels[examples]
        problem = ModuleProblem(self.module, inputs, labels, max_examples_at_once=self.examples_at_once)
        mean = problem.gradients(x).weighted_sum(x.new_full((1, len(labels)), 1 / len(labels))).norm()
        if problem.mixes_examples:
            module = self._held({name: value[0] for name, value in problem.parameters(x).items()}, inputs)
            problem = ModuleProblem(module, inputs, labels, max_examples_at_once=self.examples_at_once)
        return problem.gradients(x).norms()[0], mean

    def _held(self, values: dict[str, Tensor], inputs: Tensor) -> nn.Module:
        """A copy of the module whose batch normalisations use the statistics of these inputs at these parameters."""
        module = copy.deepcopy(self.module).to(inputs.device)
        layers = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training]
        for layer in layers:
            # With momentum 1 the running statistics are those of the last batch.
            layer.track_running_stats, layer.momentum = True, 1.0
            layer.running_mean = torch.zeros_like(layer.bias)
            layer.running_var = torch.ones_like(layer.bias)
        with torch.no_grad():
            torch.func.functional_call(module, values, (inputs,))
        for layer in layers:
            layer.eval()
        return module
