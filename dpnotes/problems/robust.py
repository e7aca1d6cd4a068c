"""Regression with absolute errors: Lipschitz losses from `|x|` over robust phase retrieval to a ReLU network."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from dpnotes.core import Constant
from dpnotes.problems.examples import SharedExamples, check_data, check_points, rows
from dpnotes.problems.sensing import SensingGradients
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.precision import full_precision, row_norms
from dpnotes.util.validate import AtLeastOne, NonNegative, Seed, checked

Link = Literal["identity", "relu", "absolute"]

# The link functions, each 1-Lipschitz: they map linear forms to values and slopes.
_LINKS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "identity": lambda forms: (forms, torch.ones_like(forms)),
    "relu": lambda forms: (forms.relu(), (forms > 0).to(forms.dtype)),
    "absolute": lambda forms: (forms.abs(), forms.sign()),
}


@dataclass(frozen=True, eq=False)
class RobustRegression(SharedExamples):
    """The mean of `f_i(W) = |sum_j s_j link(w_j' a_i) - y_i|`: from `|x|` to a ReLU network of one hidden layer.

    One unit with weight 1 gives robust linear regression ("identity"; `|x|` if there is one coordinate), ReLU
    regression ("relu") and robust phase retrieval `||a_i'x| - y_i|` ("absolute"). Several units with link "relu" are a
    network whose output layer is fixed; a column of ones in the inputs is its bias.

    A point `(runs, dim)` holds W, `(m, units)`, flat and by rows; its columns are the `w_j`. A gradient is the outer
    product of `a_i` and `sign(...) s link'(W' a_i)`, and is stored as these two factors.

    Args:
      inputs: `(examples, m)`, the `a_i`; floating point, finite, shared by all runs.
      targets: `(examples,)`, the `y_i`.
      link: "identity", "relu" or "absolute".
      output_weights: `(units,)`, the `s_j`; None: one unit of weight 1.

    Raises:
      ValueError: for shapes or types that disagree, NaN or infinite entries, no such link.

    Example:
      >>> phase = RobustRegression(torch.eye(3), torch.ones(3), "absolute")
      >>> gradients = phase.gradients(torch.tensor([[0.5, -0.5, 2.0]]))
      >>> gradients.losses, gradients.weighted_sum(torch.ones(1, 3))
      (tensor([[0.5000, 0.5000, 1.0000]]), tensor([[-1.,  1.,  1.]]))
      >>> phase.losses(torch.zeros(1, 2, 3), torch.tensor([[2]])), phase.constants["lipschitz"].value
      (tensor([[[1., 1.]]]), 1.0)
    """

    inputs: Tensor
    targets: Tensor
    link: Link = "identity"
    output_weights: Tensor | None = None
    _norms: Tensor = field(init=False, repr=False)  # of the inputs, (examples,)
    _weights: Tensor = field(init=False, repr=False)  # (units,)

    def __post_init__(self) -> None:
        validate.one_of(_LINKS, link=self.link)
        weights = self.inputs.new_ones(1) if self.output_weights is None else self.output_weights
        check_data(self.inputs, ("examples", "m"), inputs=self.inputs)
        check_data(self.inputs, ("examples",), targets=self.targets)
        check_data(self.inputs, ("units",), output_weights=weights)
        validate.same_length(inputs=self.inputs, targets=self.targets)
        object.__setattr__(self, "_norms", row_norms(self.inputs))
        object.__setattr__(self, "_weights", weights)

    @staticmethod
    @checked
    def sample(
        signal: Tensor,
        num_examples: AtLeastOne,
        seed: Seed,
        link: Link = "identity",
        output_weights: Tensor | None = None,
        noise_std: NonNegative = 0.0,
    ) -> "RobustRegression":
        """A problem with inputs uniform on the unit sphere and targets `y_i = sum_j s_j link(...) + noise` of a signal.

        So the Lipschitz constant is the norm of the output weights, 1 for one unit. The draws are float64 ones, rounded
        to the type of the signal.

        Args:
          signal: `(m, units)`, the W behind the targets.
          num_examples: at least 1.
          seed: the seed of the draw.
          link: see the class.
          output_weights: see the class.
          noise_std: standard deviation of the Gaussian noise of the targets, >= 0.
        """
        check_data(signal, ("m", "units"), signal=signal)
        streams = Streams.of("robust regression", [seed], signal.device)
        normal = streams.normal("inputs", 0, num_examples * len(signal)).view(num_examples, -1)
        inputs = (normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True)).to(signal)
        noise = noise_std * streams.normal("targets", 0, num_examples)[0].to(signal)
        clean = RobustRegression(inputs, torch.zeros_like(noise), link, output_weights)
        return RobustRegression(inputs, clean._residuals(signal.flatten()[None])[0][0] + noise, link, output_weights)

    @property
    def dim(self) -> int:
        """The number of entries of W."""
        return self.inputs.shape[1] * len(self._weights)

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return len(self.targets)

    @property
    def constants(self) -> dict[str, Constant]:
        """A Lipschitz constant of every example, attained where all units have slope 1 or -1 at the longest input."""
        value = float(self._norms.max() * torch.linalg.vector_norm(self._weights))
        why = "the longest input times the norm of the output weights, as no link is steeper than 1"
        return {
            "lipschitz": Constant(value, "proved", why),
            "lower_bound": Constant(0.0, "proved", "an absolute error is not negative"),
        }

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> SensingGradients:
        """The losses and the factored per-example gradients at the points `x`, `(runs, dim)`.

        Args:
          x: `(runs, dim)`.
          examples: indices `(runs, batch)`; all examples if None.
        """
        check_points(x, self.dim, self.inputs.dtype)
        inputs, norms = (rows(t[None], examples, len(x)) for t in (self.inputs, self._norms))
        residuals, slopes = self._residuals(x, examples)
        return SensingGradients(residuals.abs(), residuals.sign(), slopes * self._weights, inputs, norms)

    def losses(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        """The losses of examples at many points, `(runs, batch, points)`.

        Args:
          x: `(runs, points, dim)`.
          examples: indices `(runs, batch)`; all examples if None.
        """
        check_points(x, self.dim, self.inputs.dtype, many=True)
        inputs, targets = (rows(t[None], examples, len(x)) for t in (self.inputs, self.targets))
        # The matrices of all points, side by side.
        matrices = x.unflatten(2, (self.inputs.shape[1], -1)).transpose(1, 2).flatten(2)
        values = _LINKS[self.link](torch.bmm(inputs, matrices))[0].unflatten(2, (x.shape[1], -1))
        return (values @ self._weights - targets[..., None]).abs()

    @full_precision()
    def _residuals(self, x: Tensor, examples: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The predictions minus the targets, `(runs, batch)`, and the slopes of the links, `(runs, batch, units)`."""
        inputs, targets = (rows(t[None], examples, len(x)) for t in (self.inputs, self.targets))
        values, slopes = _LINKS[self.link](torch.bmm(inputs, x.unflatten(1, (self.inputs.shape[1], -1))))
        return values @ self._weights - targets, slopes
