"""The playground: a page that trains models in the browser, in JavaScript that the compiler generates from them.

This JavaScript and worker.js are part of the data in the page, and page.js makes a Web Worker of them.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, product
from typing import Any

from micrograd.compiler import compile
from micrograd.core.errors import shown
from micrograd.draw import shell
from micrograd.draw.graph.fold import Folded, all_names
from micrograd.draw.network import CARDS, described, layers_of, units_and_outputs
from micrograd.draw.playground.lesson import DATA_SETS, checked
from micrograd.draw.text import finite_rows, real
from micrograd.engine import Value
from micrograd.nn import Embedding, Layer, Module, Neuron, document, walk, weight_limit
from micrograd.optim import Adam, Optimizer
from micrograd.support.trees import as_lists, flat, leaves, shape_of, unflatten
from micrograd.support.validation import examples, pair, require_attributes

NUMBERS = 1_000_000  # in all examples: some megabytes of the page
WEIGHTS = 20_000  # of a model: tracing one as large takes some seconds
NORMAL = -1  # stands for a parameter drawn from a normal distribution; others are drawn uniformly, up to a limit
PARTS = ("maps", "random", "data", "chart", "network", "plane", "choices", "lesson", "scalpel", "console", "page")
source = partial(shell.read, __package__)


def page(
    model: Any, loss: Any, xs: Any, ys: Any, optimizer: Any = None, validation: Any = None, choices: Any = None,
    lesson: Any = (),
) -> str:  # fmt: skip
    """The page as HTML. Parameters and errors are as for `viz.save_playground`."""
    if isinstance(model, Mapping):  # one choice, of a model by its name
        for name, each in model.items():
            require_attributes(f"model {name!r}", each, ["__call__", "parameters"], "a Module")
        model, choices = (lambda model: model), {"model": model}
    offered = _offered(choices)
    if offered and not isinstance(model, type) and hasattr(model, "parameters"):
        raise TypeError(f"model is {model!r:.80}: with choices, expected a class or a function that makes a model")
    chosen = [dict(zip(offered, values, strict=True)) for values in product(*map(dict.values, offered.values()))]
    rules = [each.pop("optimizer", optimizer) for each in chosen]
    models = [model(**each) for each in chosen] if offered else [model]
    table, rows = _table(loss, xs, ys)
    held = [] if validation is None else _table(loss, *pair(validation), size=len(rows[0]), kind="validation ")[1]
    trained = [_trained(*each, loss, table, is_only=not offered) for each in zip(models, rules, strict=True)]
    parts, codes = zip(*trained, strict=True)
    inputs = len(flat(table[0][0]))
    kinds = kinds_of([row[inputs:] for row in rows], parts[0]["outputs"])
    content = {
        "models": [part | {"twin": codes.index(code)} for part, code in trained],  # the first that is the same
        "choices": [[name, [*values], sizes_of(values)] for name, values in offered.items()],
        "lesson": checked(lesson, offered, is_plane=inputs == 2 and kinds is not None),
        "inputs": inputs,
        "rows": rows,
        "validation": held,
        "sets": DATA_SETS,
        "kinds": kinds,
        "loss": [getattr(loss, "__name__", ""), boundary(loss, kinds) if kinds else 0],
        "worker": f"{source('random.js')}\n{source('worker.js')}\nserve([\n{', '.join(codes)}]);\n",
    }
    packed = base64.b64encode(zlib.compress(json.dumps(content).encode(), 9))
    return shell.page(
        __package__,
        title="Playground" if len(models) > 1 else f"Playground: {parts[0]['title']}",
        summary="Press Train: in each step, the weights move a little so that the output fits the examples better. "
        "You can change anything here." * (not lesson),
        data=f'<script type="text/plain" id="document">{packed.decode()}</script>\n',
        style=shell.CHART_STYLE,
        scripts=PARTS,
    )


# Choices


def _offered(choices: Any) -> dict[str, dict[str, Any]]:
    """The values of each keyword to choose from, by their labels. Raises ValueError for any other kind of choices."""
    offered = {}
    for name, values in (choices or {}).items():
        if not isinstance(values, (Mapping, list, tuple)) or not values:
            expected = "a dict of labels and values, or a list of strings"
            raise ValueError(f"choices[{name!r}] is {shown(values)}: expected {expected}")
        labelled = values.items() if isinstance(values, Mapping) else ((value, value) for value in values)
        offered[name] = {str(label): value for label, value in labelled}
    return offered


def sizes_of(values: dict[str, Any]) -> list[list[int]] | None:
    """The sizes of layers, if all values are lists of them."""
    lists = [[*value] for value in values.values() if isinstance(value, (list, tuple))]
    are_sizes = len(lists) == len(values) and all(type(size) is int for size in chain(*lists))
    return lists if are_sizes else None


# Examples


def _table(loss: Any, xs: Any, ys: Any, *, size: int = 0, kind: str = "") -> tuple[list[Any], list[list[float]]]:
    """The examples as lists, and the numbers of each. Raises ValueError if a page cannot hold them."""
    xs, ys = ([as_lists(item) for item in items] for items in examples(xs, ys))
    if check_targets := getattr(loss, "check_targets", None):
        check_targets(ys, "ys")
    table = list(zip(xs, ys, strict=True))
    expected = "a playground needs finite numbers, equally many in each example; classes are 0, 1, ..."
    rows = finite_rows(table, expected, size=size, kind=kind)
    if (n := len(rows) * len(rows[0])) > NUMBERS:
        remedy = f"a playground holds {NUMBERS:,}, so give {NUMBERS // len(rows[0]):,} examples or fewer"
        raise ValueError(f"the {kind}examples hold {n:,} numbers: {remedy}")
    return table, rows


def kinds_of(targets: list[list[float]], outputs: int) -> list[float] | None:
    """The classes among targets: [] if any number is a target; None if a target is several numbers or no output."""
    numbers = sorted({target[0] for target in targets})
    if len(targets[0]) != 1 or (outputs > 1 and not set(numbers) <= set(range(outputs))):
        return None
    return [*range(outputs)] if outputs > 1 else numbers if len(numbers) == 2 else []


def boundary(loss: Any, kinds: list[float]) -> float:
    """The output of a model of two classes that costs the same in both."""
    for at in (0.5, 0.0):  # of probabilities; of logits and margins
        with suppress(ArithmeticError, ValueError, TypeError, AttributeError):
            one, other = (real(loss(Value(at), kind)) for kind in kinds[:2])
            if abs(one - other) < 1e-9:
                return at
    return sum(kinds) / 2


# Models


def _trained(model: Any, optimizer: Any, loss: Any, table: Any, *, is_only: bool) -> tuple[dict[str, Any], str]:
    """What the page has to know about a model, and its JavaScript."""
    expected = "a Module with __call__ or, together with choices=..., a function that makes one"
    require_attributes("model", model, ["__call__", "parameters"], expected)
    parameters = list(model.parameters())
    if not 0 < len(parameters) <= WEIGHTS:
        raise ValueError(f"{model!r:.80} has {len(parameters):,} parameters: a playground trains from 1 to {WEIGHTS:,}")
    rule = Adam(parameters, learning_rate=0.01) if optimizer is None else optimizer
    rule = rule(parameters) if callable(rule) else rule
    if not isinstance(rule, Optimizer) or (rule is optimizer and not is_only):
        kinds = "an Optimizer, or a function that makes one" if is_only else "a function that makes one for each model"
        remedy = "such as functools.partial(optim.SGD, learning_rate=0.1)"
        raise TypeError(f"optimizer is {shown(optimizer)}: expected {kinds}, {remedy}")
    x, y = table[0]
    fast = compile(lambda x, y: loss(model(x), y), (x, y), parameters=parameters, backend="python")
    layers = layers_of(model)
    units = compile(partial(units_and_outputs, model, layers), (x,), parameters=parameters, backend="python")
    inputs = _inputs(model, layers, x)  # before a model that keeps x is called with numbers and keeps them
    part = {
        "title": type(model).__name__ if repr(model) == object.__repr__(model) else f"{model!r:.200}",
        "outputs": len(flat(model(x))),
        **described(model, inputs),
        "starts": _starts(model, parameters),
        "file": _file(model),
        "optimizer": type(rule).__name__,
        "rate": rule.learning_rate,
        "decay": getattr(rule, "weight_decay", 0.0),
    }
    return part, f"{{ loss: {_module(fast.js_source(optimizer=rule))},\nunits: {_module(units.js_source())} }}"


def _inputs(model: Any, layers: Any, x: Any) -> list[str]:
    """The names of the inputs of a model's first layer that have cards: if one is computed, its formula."""
    n = min(len(layers[0][0].w), CARDS) if layers else 0
    labelled = (Value(float(number), label=re.sub(r"\W", "", path)) for path, number in leaves("x", x))  # x01: x[0][1]
    values = units_and_outputs(model, layers, unflatten(labelled, shape_of(x)))[:n]
    return [all_names(Folded(value), f"x{i}")[-1] for i, value in enumerate(values)]


def _module(source: str) -> str:
    """A module as an expression: an object with what it exports, other than gradients with respect to inputs."""
    source = re.sub(r"^/\*.*?\*/|(export )?function valueAndGrad.*?\n}\n", "", source, flags=re.DOTALL)
    names = re.findall(r"^export \w+ (\w+)", source, re.MULTILINE)
    return f"(() => {{\n{source.replace('export ', '')}return {{ {', '.join(names)} }};\n}})()"


def _starts(model: Any, parameters: list[Value]) -> list[float | None]:
    """How each parameter was drawn: uniformly up to a limit, or NORMAL; None if unknown: it then stays as it is."""
    starts: dict[int, float] = {}
    parts = walk(model if isinstance(model, Module) else getattr(model, "__dict__", {}))
    fan_out = {id(neuron): len(part.neurons) for part in parts if isinstance(part, Layer) for neuron in part.neurons}
    for part in parts:
        if isinstance(part, Neuron):
            limit = weight_limit(len(part.w), fan_out.get(id(part), 1), part.activation)
            starts |= {id(w): limit for w in part.w} | {id(part.b): 0.0}
        elif isinstance(part, Embedding):
            starts |= {id(parameter): NORMAL for row in part.w for parameter in row}
    return [starts.get(id(parameter)) for parameter in parameters]


def _file(model: Any) -> Any:
    """What `nn.save` would write, else the state dict or a list, with None in place of each parameter."""
    try:
        return json.loads(json.dumps(document(model)), parse_float=lambda _: None)
    except (ValueError, OverflowError, RecursionError):
        names = dict(model.named_parameters()) if isinstance(model, Module) else {}
        return dict.fromkeys(names) or [None for _ in model.parameters()]
