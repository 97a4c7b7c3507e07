"""Values within 2 units in the last place, derivatives within 8, over the whole domain of every operation."""

import pytest

from tests.operations import row
from tests.precision import OPERATIONS, VALUE, allowed, errors


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_are_within_2_ulp_and_derivatives_within_8_or_what_the_table_allows(name):
    for error in errors(OPERATIONS[name], 500):
        value, derivative = allowed(name, error.point)
        assert error.value <= value, error
        assert error.derivative <= derivative, error


def test_a_value_and_a_derivative_that_are_off_by_a_few_ulp_are_found():
    operation = row("shifted", lambda x: x * (1 + 2.0**-49), lambda x: x, lambda x: 1, (1.0,), torch=None)
    for error in errors(operation, 10):
        if 1e-300 < abs(error.point[0]) < 1e308:
            assert error.value > VALUE
            assert error.derivative == 8.0
