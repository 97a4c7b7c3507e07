"""What the tests of karpathy/micrograd check, written anew: programs of a few lines give PyTorch's numbers."""

import pytest

from micrograd import Value

torch = pytest.importorskip("torch")


def shared(x):
    """One leaf in every term, so that gradients add up from many places, some of them through a relu that is 0."""
    inner = 3 * x + 2 + x
    bent = inner.relu() + inner * x
    square = (bent * bent).relu()
    return square + bent + bent * x + (-bent).relu()


def ledger(a, b):
    """Every operator, with plain numbers on either side and variables that are assigned to in place."""
    total = a + b
    product = a * b + b**3
    total += total + 1
    total += 1 + total - a
    product += product * 2 + (b + a).relu()
    product += 3 * product + (b - a).relu()
    gap = total - product
    result = gap**2 / 2.0
    result += 10.0 / (gap + 0.5) - gap / 4
    return 2 - (-result)


@pytest.mark.parametrize(
    ("program", "point"),
    [(shared, (-4.0,)), (shared, (0.75,)), (shared, (-0.25,)), (ledger, (-4.0, 2.0)), (ledger, (1.5, -3.0))],
)
def test_a_program_and_its_gradients_are_pytorchs(program, point):
    ours = [Value(x) for x in point]
    theirs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    result, expected = program(*ours), program(*theirs)
    result.backward()
    expected.backward()
    assert result.data == pytest.approx(expected.item(), rel=1e-14)
    assert [x.grad for x in ours] == pytest.approx([x.grad.item() for x in theirs], rel=1e-14)
