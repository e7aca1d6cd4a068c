"""The paper's preprocessing: its properties, its running time, and its refusals."""

import math

import pytest
import torch

from dpnotes.problems import preprocessing
from dpnotes.random.streams import Streams


def inputs(num_examples: int = 200, features: int = 12) -> torch.Tensor:
    draws = Streams.of("preprocessing", [0]).normal("x", 0, num_examples * features).view(num_examples, features)
    return draws * torch.linspace(3, 0.5, features, dtype=torch.float64) + 7


def test_coordinates_are_standardised_and_scaled() -> None:
    train = inputs()
    projected = preprocessing.fit(train, 5, max_norm=10.0).apply(train)
    assert float(projected.norm(dim=1).max()) == pytest.approx(10.0, rel=1e-12)
    torch.testing.assert_close(projected.mean(0), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-12)
    covariance = projected.T @ projected / len(train)
    scale = covariance[0, 0]
    torch.testing.assert_close(covariance, scale * torch.eye(5, dtype=torch.float64), rtol=1e-10, atol=1e-10)


def test_components_are_those_of_the_singular_value_decomposition() -> None:
    train = inputs()
    projection = preprocessing.fit(train, 5)
    expected = torch.linalg.svd(train - train.mean(0), full_matrices=False)[2][:5].T
    found = projection.directions / projection.directions.norm(dim=0)
    torch.testing.assert_close((found * expected).sum(0).abs(), torch.ones(5, dtype=torch.float64))
    # The leading directions come first: the data vary most along the features with the largest scale.
    assert int(found[:, 0].abs().argmax()) < int(found[:, 4].abs().argmax())


def test_frozen_statistics_apply_to_others_and_signs_are_fixed() -> None:
    train, other = inputs()[:150], inputs()[150:]
    projection = preprocessing.fit(train, 5)
    torch.testing.assert_close(projection.apply(other)[:1], projection.apply(other[:1]))
    largest = projection.directions.gather(0, projection.directions.abs().argmax(0, keepdim=True))
    assert (largest > 0).all()
    shuffled = preprocessing.fit(train.flip(0), 5)
    torch.testing.assert_close(shuffled.directions, projection.directions)
    assert projection.apply(other.float()).dtype == torch.float32
    batched = projection.apply(other.view(2, 25, 12))
    torch.testing.assert_close(batched, projection.apply(other).view(2, 25, 5))


def test_bad_input_is_named() -> None:
    train = inputs()
    broken = train.clone()
    broken[3, 4] = math.nan
    flat = torch.cat([train[:, :2], train[:, :2]], dim=1)
    assert preprocessing.fit(flat, 2).directions.shape == (4, 2)
    for call, message in (
        (lambda: preprocessing.fit(broken, 2), "without NaN"),
        (lambda: preprocessing.fit(train, 2).apply(train[:, :3]), "12 features"),
        (lambda: preprocessing.fit(flat, 3), "num_components=3 <= 2, the rank"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
