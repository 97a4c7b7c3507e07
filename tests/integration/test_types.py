"""What an editor knows: the types that mypy finds for what users write."""

import re
from pathlib import Path

import pytest

PROGRAM = """\
from micrograd import losses, mean, nn
model, classifier, x = nn.MLP(2, [4, 1]), nn.MLP(2, [4, 3]), [1.0, 2.0]
reveal_type(mean((model(x) - 1.0) ** 2 for _ in range(3)))
reveal_type(losses.mse_loss(model(x), 1.0))
reveal_type(losses.hinge_loss(model(x), 1.0, reduction="sum"))
reveal_type(losses.binary_cross_entropy_with_logits(model(x), 1.0))
reveal_type(losses.cross_entropy(classifier(x), 1))
reveal_type(losses.nll_loss(losses.log_softmax(classifier(x)), 1))
reveal_type(classifier(x)[0].tanh())
[reveal_type(output) for output in classifier(x)]
reveal_type(nn.Neuron(2)(x).exp())
model(x).backward()
losses.mse_loss(model(x), 1.0).backward()
losses.mse_loss([model(x)], [1.0], reduction="none")[0].backward()
losses.hinge_loss(model(x), 1.0).bakcward()
model(x).bakcward()
"""


def test_the_type_of_a_loss_is_known_and_a_slip_in_its_use_is_found(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api", reason="pip install mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parents[2]))
    found, _, _ = api.run([str(tmp_path / "program.py"), "--cache-dir", str(tmp_path), "--follow-imports=silent"])
    types = re.findall(r'Revealed type is "(.*)"', found)
    value, loss = "micrograd.engine.Value", "micrograd.losses.Output"
    assert types == [value, *[loss] * 5, *[value] * 3]
    assert found.count("error: ") == found.count('error: "Output" has no attribute "bakcward"') == 2
