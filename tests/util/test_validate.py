"""Each validator accepts its domain, and its error names the argument, the value and the domain."""

import functools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.util import validate

NOT_REAL = ["1", None, True, 1j, [1.0]]
NOT_FINITE = [float("nan"), float("inf"), -float("inf"), np.float64("nan")]


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
@pytest.mark.parametrize("value", NOT_REAL)
def test_what_is_no_number_is_a_type_error(check, value: object):
    with pytest.raises(TypeError, match="^Expected epsilon=.* to be a real number"):
        check(epsilon=value)


@pytest.mark.parametrize("check", [validate.real, validate.positive, validate.non_negative])
@pytest.mark.parametrize("value", NOT_FINITE)
def test_nan_and_infinity_are_refused(check, value: float):
    with pytest.raises(ValueError, match="^Expected epsilon=.* to be finite"):
        check(epsilon=value)


@given(st.floats(allow_nan=False, allow_infinity=False))
@pytest.mark.slow
def test_the_sign_decides(value: float):
    for check, legal in ((validate.positive, value > 0), (validate.non_negative, value >= 0)):
        if legal:
            check(x=value)
        else:
            with pytest.raises(ValueError, match="Expected x="):
                check(x=value)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5])
def test_an_open_interval_excludes_its_ends(delta: float):
    with pytest.raises(ValueError, match=f"Expected 0 < delta={delta} < 1"):
        validate.between(0, 1, delta=delta)


def test_integers():
    validate.at_least(1, num_steps=1)
    validate.at_least(1, num_steps=np.int64(7))
    with pytest.raises(ValueError, match="Expected num_steps=0 >= 1"):
        validate.at_least(1, num_steps=0)
    for value in (1.0, "1", True):
        with pytest.raises(TypeError, match="to be an integer"):
            validate.at_least(1, num_steps=value)


def test_options_and_lengths():
    validate.one_of(("cpu", "cuda"), device="cpu")
    with pytest.raises(ValueError, match="Expected device='tpu' to be one of: cpu, cuda"):
        validate.one_of(("cpu", "cuda"), device="tpu")
    validate.same_length(inputs=[1, 2], labels=(3, 4))
    with pytest.raises(ValueError, match="inputs: 2, labels: 1"):
        validate.same_length(inputs=[1, 2], labels=[1])


def test_the_first_bad_argument_is_named():
    with pytest.raises(ValueError, match="Expected delta=-1 > 0"):
        validate.positive(epsilon=1, delta=-1, rho=-2)


def test_what_has_a_meaning_of_its_own_passes_and_nothing_else():
    validate.or_infinite(validate.positive, epsilon=float("inf"))
    validate.or_none(validate.at_least, 1, longest=None)
    validate.every(validate.positive, step_size=np.array([0.5, 2.0]))
    validate.index(2, run=1)
    validate.flag(clipped=False)
    validate.text_or_whole(seed="a")
    for refuse, message in (
        (lambda: validate.or_infinite(validate.positive, epsilon=-float("inf")), "epsilon=-inf to be finite"),
        (lambda: validate.or_none(validate.at_least, 1, longest=0), "longest=0 >= 1"),
        (lambda: validate.every(validate.positive, step_size=np.array([0.5, -2.0])), "step_size=-2.0 > 0"),
        (lambda: validate.index(2, run=2), "0 <= run=2 < 2"),
        (lambda: validate.flag(clipped=1), "clipped=1 to be True or False"),
        (lambda: validate.text_or_whole(seed=True), "seed=True to be a text"),
        (lambda: validate.real(x=10**400), "x=1000.*0 to be finite"),
        (lambda: validate.at_least(1, x=10**400), r"x=1000.*0 < 2\^1024"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            refuse()
