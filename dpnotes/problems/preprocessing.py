"""A projection to standardised principal components, scaled to a largest norm: fitted once, then frozen."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.examples import check_finite
from dpnotes.util.validate import AtLeastOne, Positive, checked

UNACCOUNTED = (
    "The mean, the principal components, the standard deviations and the largest norm of the preprocessing "
    "are computed on the private training data, and their privacy cost is not accounted for."
)


@dataclass(frozen=True, eq=False)
class Projection:
    """The projection `(inputs - mean) @ directions` that `fit` computed.

    Args:
      mean: `(features,)` float64.
      directions: `(features, components)` float64, principal directions over standard deviations, times the scale.
    """

    mean: Tensor
    directions: Tensor

    def apply(self, inputs: Tensor) -> Tensor:
        """Project `(..., features)` to `(..., components)`, in the type of the inputs.

        Raises:
          ValueError: for another number of features, NaN or infinite entries.
        """
        if inputs.shape[-1] != len(self.mean):
            raise ValueError(f"Expected inputs.shape={tuple(inputs.shape)} to have {len(self.mean)} features.")
        check_finite(inputs=inputs)
        mean, directions = self.mean.to(inputs.device), self.directions.to(inputs.device)
        return ((inputs.double() - mean) @ directions).to(inputs.dtype)


@checked
def projected(data: Dataset, num_components: AtLeastOne, max_norm: Positive = 10.0) -> Dataset:
    """The data set in the projection that `fit` computes on its training examples, which is not accounted for."""
    return data.with_inputs(fit(data.train_inputs, num_components, max_norm).apply)


@checked
def fit(inputs: Tensor, num_components: AtLeastOne, max_norm: Positive = 10.0) -> Projection:
    """Fit a projection to principal components with mean 0 and standard deviation 1, scaled to largest norm `max_norm`.

    Hong, Wang and Zhou (FAccT 2022), section 5: 60 components, then mean 0 and standard deviation 1, then the "data
    scale" `max_n ||x_n|| = 10`. These statistics depend on private data and **are not accounted for** (`UNACCOUNTED`):
    a guarantee for what is trained on the result does not cover them. Fitting on public or auxiliary data avoids that.

    Signs are fixed: the entry of largest magnitude of each direction is positive.

    Args:
      inputs: `(examples, features)`, finite; the training examples.
      num_components: at most the rank of the centred inputs.
      max_norm: the largest norm of a projected training example, > 0; other examples may exceed it.

    Raises:
      ValueError: for NaN or infinite inputs, or more components than directions in which the inputs vary.

    Example:
      >>> inputs = torch.randn(50, 8)
      >>> float(fit(inputs, 3).apply(inputs).norm(dim=1).max().round(decimals=4))
      10.0
    """
    if inputs.dim() != 2 or len(inputs) < 2:
        raise ValueError(
            f"Expected inputs.shape={tuple(inputs.shape)} to be (examples, features), two examples or more."
        )
    check_finite(inputs=inputs)
    exact = inputs.double()
    mean = exact.mean(0)
    centred = exact - mean
    variances, directions = torch.linalg.eigh(centred.mT @ centred / len(inputs))
    # Below this an eigenvalue is rounding error of the covariance, and dividing by its root would amplify noise.
    floor = variances[-1].clamp_min(0) * len(variances) * torch.finfo(torch.float64).eps
    rank = int((variances > floor).sum())
    if num_components > rank:
        raise ValueError(f"Expected num_components={num_components} <= {rank}, the rank of the centred inputs.")
    variances, directions = variances.flip(0)[:num_components], directions.flip(1)[:, :num_components]
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    directions = directions * largest.sign() / variances.sqrt()
    return Projection(mean, directions * (max_norm / torch.linalg.vector_norm(centred @ directions, dim=1).max()))
