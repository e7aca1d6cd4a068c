"""Each validator accepts its domain, and its error names the argument, the value and the domain."""

import functools
from fractions import Fraction

import numpy as np
import pytest

from dpnotes.util import validate


@pytest.mark.parametrize("value", [1, 0.5, np.float64(0.5), np.int64(3), Fraction(1, 3)])
def test_numbers_of_every_library_pass(value: object):
    validate.real(x=value)
    validate.positive(x=value)
    validate.non_negative(x=value)
    validate.between(0, 4, x=value)


NARROW = [np.float16(1), np.float32(1), np.longdouble(1), np.int8(1), np.int32(1), np.uint8(1), np.uint64(1)]


@pytest.mark.parametrize("value", NARROW, ids=lambda value: str(value.dtype))
def test_numbers_that_round_or_wrap_where_pythons_do_not_are_refused(value: object):
    for check in (validate.real, *([functools.partial(validate.at_least, 1)] if isinstance(value, np.integer) else [])):
        for asked in (check, functools.partial(validate.every, check)):
            with pytest.raises(TypeError, match="^Expected x=.* to be a number of Python's, or a float64 or int64"):
                asked(x=value)


@pytest.mark.parametrize("check", [validate.real, validate.positive, validate.non_negative])
@pytest.mark.parametrize("value", ["1", None, True, 1j, [1.0], np.float64("nan"), -float("inf")])
def test_what_is_no_real_number_is_refused(check, value: object):
    with pytest.raises((TypeError, ValueError), match="^Expected epsilon=.* to be (a real number|finite)"):
        check(epsilon=value)


def test_what_lies_at_an_end_or_has_a_meaning_of_its_own_passes():
    validate.non_negative(rho=0)
    validate.at_least(1, num_steps=np.int64(1))
    validate.one_of(("cpu", "cuda"), device="cpu")
    validate.same_length(inputs=[1, 2], labels=(3, 4))
    validate.or_infinite(validate.positive, epsilon=float("inf"))
    validate.or_none(validate.at_least, 1, longest=None)
    validate.every(validate.positive, step_size=np.array([0.5, 2.0]))
    validate.index(2, run=1)
    validate.flag(clipped=False)
    validate.text_or_whole(seed="a")


@pytest.mark.parametrize(
    ("refuse", "message"),
    [
        (lambda: validate.positive(epsilon=1, delta=0, rho=-2), "Expected delta=0 > 0"),
        (lambda: validate.between(0, 1, delta=0), "0 < delta=0 < 1"),
        (lambda: validate.between(0, 1, delta=1), "0 < delta=1 < 1"),
        (lambda: validate.at_least(1, num_steps=1.0), "num_steps=1.0 to be an integer"),
        (lambda: validate.at_least(1, num_steps=True), "num_steps=True to be an integer"),
        (lambda: validate.at_least(1, x=10**400), r"x=1000.*0 < 2\^1024"),
        (lambda: validate.real(x=10**400), "x=1000.*0 to be finite"),
        (lambda: validate.one_of(("cpu", "cuda"), device="tpu"), "device='tpu' to be one of: cpu, cuda"),
        (lambda: validate.same_length(inputs=[1, 2], labels=[1]), "inputs: 2, labels: 1"),
        (lambda: validate.or_infinite(validate.positive, epsilon=-float("inf")), "epsilon=-inf to be finite"),
        (lambda: validate.or_none(validate.at_least, 1, longest=0), "longest=0 >= 1"),
        (lambda: validate.every(validate.positive, step_size=np.array([0.5, -2.0])), "step_size=-2.0 > 0"),
        (lambda: validate.index(2, run=2), "0 <= run=2 < 2"),
        (lambda: validate.flag(clipped=1), "clipped=1 to be True or False"),
        (lambda: validate.text_or_whole(seed=True), "seed=True to be a text"),
    ],
)
def test_what_lies_outside_is_refused_by_name(refuse, message: str):
    with pytest.raises((ValueError, TypeError), match=message):
        refuse()
