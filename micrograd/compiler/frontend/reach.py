"""What a function can read besides its arguments: attributes, closures, the globals that it names, and their contents.

Generated code has baked in what its function read while it was traced. A `Reach` remembers that, tells whether it has
changed since, and can set it back. It goes from object to object: `_places` says where objects of each kind keep what
can be read from them, and `_unfollowed` which objects keep something that cannot be seen from outside.
"""

import dis
import logging
import math
import random
import sys
import types
import weakref
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import resolve_name
from itertools import chain
from types import BuiltinMethodType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from micrograd.compiler.frontend.redirect import is_in_training
from micrograd.compiler.frontend.tracer import Symbol
from micrograd.engine import Value

ATTRIBUTE, ITEM, NAME = "{}.{}", "{}[{!r}]", "{}{}"
LIBRARIES = sys.stdlib_module_names | {"micrograd"}  # whose classes and globals do not change
OPAQUE = {bool, int, float, complex, str, bytes, type(None), type(...), CodeType}  # of which nothing is read
CONTAINERS = (list, tuple, deque, set, frozenset)
ATTRIBUTES: dict[type, tuple[str, ...]] = {
    Value: ("data", "__class__"),
    FunctionType: ("__code__", "__defaults__", "__kwdefaults__"),
    MethodType: ("__self__", "__func__"),
    BuiltinMethodType: ("__self__",),
    types.MethodWrapperType: ("__self__",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    partial: ("func", "args", "keywords"),
    defaultdict: ("default_factory", "__class__"),
    object: ("__class__",),
}
"""What can be read from objects of these types, besides their `__dict__` and the slots of subclasses."""
FOLLOWED = {
    *(object, type, dict, OrderedDict, defaultdict, *CONTAINERS, array, memoryview, range, slice, MappingProxyType),
    *(*ATTRIBUTES, *OPAQUE),
    *(x for name, x in vars(types).items() if name.endswith(("DescriptorType", "WrapperType"))),
}
"""The types in C whose objects keep only what is followed here."""
CONSTANT = {"numpy", "types", "typing", "abc", "_abc", "_thread", "_random", "datetime", "decimal", "re", "operator"}
"""Modules whose types keep nothing else either, or never change."""
BY_NAME = {"getattr", "vars", "__dict__", "__getattribute__", "attrgetter"}
"""What may read something that the code does not name: in a module, that is not followed."""
DYNAMIC = {
    *("globals", "locals", "eval", "exec", "__import__", "import_module", "currentframe", "getenv", "geterr"),
    *("getcontext", "label"),
}
"""What reads from where no change can be seen; the label of a parameter, too."""
READING = ("__call__", "__getattr__", "__getattribute__", "__getitem__")
"""The special methods that may be called to read a number."""
IMPORT_NAME = dis.opmap["IMPORT_NAME"]
MANY, OF_FUNCTION = 100_000, 50
"""How many objects are followed where not all have to be, in a second; and how many take as long as a function."""
HEAP = 1 << 9  # the flag of classes that are made while Python runs
KEPT = "_micrograd_compiled"
"""The attribute of a model in which `fit` keeps what it has compiled: all but a Reach can read it."""


class Place:
    """A namespace, a list or an array called `path`, and its contents when this is made.

    `read` returns the contents: a dict or a list of objects, which are named by `form`, or anything that is compared by
    `==`. In a dict, `assign` sets an item and `delete` deletes one; otherwise, `assign` sets all of the contents.
    Without `assign`, they cannot change.
    """

    def __init__(self, path: str, form: str, read: Callable[[], Any], assign: Any = None, delete: Any = None) -> None:
        self.form, self._path, self.is_assignable = form, path, assign is not None
        self.read, self._assign, self._delete = read, assign, delete
        self.before = read()
        self._identities = _identities(self.before)

    def objects(self) -> Iterable[tuple[Any, Any]]:
        """The objects in it, by keys; and these."""
        before = self.before
        if isinstance(before, dict):
            return chain(before.items(), zip(before, before, strict=True) if self.form == ITEM else ())
        return enumerate(before if isinstance(before, list) else ())

    def name(self, key: Any) -> str:
        """The name of what is in it at this key."""
        return self.form.format(self._path, key)

    def changed(self) -> str:
        """The name of what has changed in it; "" if nothing has."""
        try:
            return self.difference(self.read())
        except Exception:  # whatever a user's class raises where it is read
            return self._path

    def difference(self, now: Any) -> str:
        """The name of something that is different in these contents; "" if they are the same."""
        if _identities(now) == self._identities:
            return ""
        return next(map(self.name, self.changes(now)), self._path)  # of a dict, it may be the order alone

    def changes(self, now: Any) -> Iterator[Any]:
        """The keys in a dict at which these contents are different."""
        if isinstance(before := self.before, dict):
            yield from (key for key in {**before, **now} if before.get(key, self) is not now.get(key, self))

    def restore(self, keys: Iterable[Any] | None = None) -> None:
        """Set it back, or if keys are given and it is a dict, only what is at these."""
        before = self.before
        if not isinstance(before, dict):
            self._assign(before)
            return
        for key in self.changes(self.read()) if keys is None else keys:
            if key in before:
                self._assign(key, before[key])
            else:
                self._delete(key)
        if keys is None and [*map(id, self.read())] != [*map(id, before)]:
            for key, x in before.items():
                self._delete(key)
                self._assign(key, x)


def _identities(contents: Any) -> Any:
    """What contents are compared by: the identities of the objects in a dict or a list, or else the contents."""
    if type(contents) is dict:
        return [*map(id, contents), *map(id, contents.values())]
    return [*map(id, contents)] if type(contents) is list else contents


class Reach:
    """All that can be read from some objects, the roots, which are given by name.

    Attributes `besides` of the roots themselves do not count, and objects in `ignoring` are left out. Without
    `numbers`, those in leaf Values and arrays do not count; those of Values in training never do. If it is `thorough`,
    everything is followed, and what functions import is imported for that; if not, objects above MANY are unfollowed,
    and what is imported later has changed. The search ends at the first unfollowed object, since the rest may be all of
    a library, unless a part of it is useful (`partly`).

    `found` has all objects that were found or left out, by identity; `values`, the leaf Values among what was found;
    `unfollowed`, the kind and the name of each whose contents cannot be seen, such as an iterator.
    """

    def __init__(
        self,
        roots: Mapping[str, Any],
        besides: Collection[str] = (),
        *,
        numbers: bool = True,
        ignoring: Iterable[Any] = (),
        thorough: bool = True,
        partly: bool = False,
    ) -> None:
        self.values: list[Value] = []
        self.unfollowed: list[str] = []
        self.found: dict[int, Any] = {id(x): x for x in ignoring}  # holding them keeps their identities
        self._places: list[Place] = []
        left: float = math.inf if thorough else MANY
        waiting = deque(roots.items())
        while waiting and (partly or not self.unfollowed):
            path, thing = waiting.popleft()
            if id(thing) in self.found:
                continue
            left -= OF_FUNCTION if type(thing) is FunctionType else 1
            if left < 0:
                self.unfollowed.append(f"too many objects, as {path}")
                break
            self.found[id(thing)] = thing
            try:
                for module, names in _imports(thing) if thorough and isinstance(thing, FunctionType) else ():
                    with suppress(ImportError):
                        __import__(module, None, None, names)
                waiting += self._next(path, thing, besides if roots.get(path) is thing else (), numbers)
            except Exception:  # whatever an object raises where it is read
                self.unfollowed.append(f"the {type(thing).__name__} {path}")

    def _next(self, path: str, thing: Any, besides: Collection[str], numbers: bool) -> list[tuple[str, Any]]:
        """Remember an object; returns those that can be read from it, by name."""
        if isinstance(thing, Value) and not thing._prev:
            self.values.append(thing)
            if not numbers or is_in_training(thing):
                return []
        if not numbers and hasattr(type(thing), "tolist") and not _has_objects(thing):
            return []
        if why := _unfollowed(thing):
            self.unfollowed.append(f"{why} {path}")
        kinds = [*thing.__mro__[1:], type(thing)] if isinstance(thing, type) else [type(thing)]
        found = [(kind.__name__, kind) for kind in kinds if not _is_of_library(kind)]
        for place in _places(path, thing, besides):
            if place.is_assignable:
                self._places.append(place)
            for key, x in place.objects():
                if id(x) in self.found or key == "__annotations__":  # annotations have no effect
                    continue
                if not _is_opaque(type(x)):
                    found.append((place.name(key), x))
                elif _is_module(x) and place.form != NAME:  # only those are followed that a function names
                    self.unfollowed.append(f"the module {place.name(key)}")
        return found

    def changed(self) -> str:
        """The name of something that is not as it was when this was made; "" if there is nothing."""
        return next(filter(None, map(Place.changed, self._places)), "")

    def traced(self) -> list[tuple[Place, list[Any]]]:
        """The places in which traces have left traced numbers, and at which keys; any key stands for all of a list."""
        found: list[tuple[Place, list[Any]]] = []
        for place in filter(Place.changed, self._places):
            with suppress(Exception):  # whatever a user's class raises where it is read
                now, known = place.read(), set(map(id, place.before))
                if isinstance(now, dict):
                    keys = [key for key in place.changes(now) if _holds_symbols(now.get(key))]
                else:
                    keys = [0] * (isinstance(now, list) and _holds_symbols([x for x in now if id(x) not in known]))
                found += [(place, keys)] * bool(keys)
        return found

    def restore(self, *, traced_only: bool = False) -> None:
        """Set back what has changed, or only what holds traced numbers."""
        for place, keys in self.traced() if traced_only else [(place, None) for place in self._places]:
            if place.changed():
                with suppress(Exception):  # of what cannot be set
                    place.restore(keys)


def _holds_symbols(thing: Any) -> bool:
    """Whether a traced number can be read from something."""
    reach = Reach({"": [thing]}, thorough=False, partly=True)
    return any(type(x) is Symbol for place in reach._places for _, x in place.objects())


def alike(one: Any, other: Any) -> bool:
    """Whether two things are the same, or functions of the same code that can read the same, as a lambda made again."""
    if one is other:
        return True
    if type(one) is not type(other) or not isinstance(one, (FunctionType, MethodType)):
        return False
    places, others = (list(_places("", function, ())) for function in (one, other))
    return len(places) == len(others) and not any(a.difference(b.before) for a, b in zip(places, others, strict=True))


def _places(path: str, thing: Any, besides: Collection[str]) -> Iterator[Place]:
    """Where an object keeps what can be read from it."""
    if isinstance(thing, type):
        if not _is_of_library(thing):
            yield _attributes(path, thing, lambda: {**dict(sorted(vars(thing).items())), "__bases__": thing.__bases__})
        return
    if isinstance(thing, FunctionType) and _is_of_library(thing):  # only what is in its closure can change
        yield from _closures(thing)
        return
    space = getattr(thing, "__dict__", None)
    if isinstance(space, dict) and (space or not isinstance(thing, Value)):  # there may be many Values
        left_out = {*besides, KEPT}
        yield _items(path, ATTRIBUTE, space, lambda: {name: space[name] for name in space if name not in left_out})
    if names := _attribute_names(thing):
        read = lambda: {name: getattr(thing, name) for name in names if hasattr(thing, name)}  # noqa: E731
        yield _attributes(path, thing, read)
    if isinstance(thing, FunctionType):
        yield from _variables(thing)
    elif isinstance(thing, MappingProxyType):
        yield Place(path, ITEM, lambda: dict(thing), lambda before: None)
    elif isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom):
        yield Place(path, ATTRIBUTE, thing.getstate, thing.setstate)
    elif isinstance(thing, dict):
        yield _items(path, ITEM, thing, lambda: dict(thing))
    elif isinstance(thing, CONTAINERS):
        yield Place(path, ITEM, lambda: list(thing), partial(_refill, thing) if hasattr(thing, "clear") else None)
    elif hasattr(type(thing), "tolist"):
        yield Place(path, ITEM, lambda: _numbers(thing), partial(_write_numbers, thing))
        yield Place(f"{path}.shape", ITEM, lambda: getattr(thing, "shape", None), partial(setattr, thing, "shape"))


def _attribute_names(thing: Any) -> list[str]:
    """The names of an object's attributes outside its `__dict__`."""
    kinds = type(thing).__mro__
    known = next(kind for kind in kinds if kind in ATTRIBUTES)
    if known is object and _is_in_c(type(thing)):
        return []  # what is read there may be a new object each time
    spaces = map(vars, kinds[: kinds.index(known)])
    slots = [name for space in spaces for name, x in space.items() if type(x) is types.MemberDescriptorType]
    names = [name for name in ATTRIBUTES[known] if not isinstance(getattr(thing, name, None), ModuleType)]
    return names + [name for name in slots if not name.startswith("__")]


def _attributes(path: str, thing: Any, read: Callable[[], dict[str, Any]]) -> Place:
    """Attributes of an object that are set by `setattr`."""
    return Place(path, ATTRIBUTE, read, partial(setattr, thing), partial(delattr, thing))


def _items(path: str, form: str, space: dict[Any, Any], read: Callable[[], dict[Any, Any]]) -> Place:
    """Items of a dict."""
    return Place(path, form, read, space.__setitem__, space.__delitem__)


def _variables(function: FunctionType) -> Iterator[Place]:
    """The closure of a user's function, what it imports, the globals that it names, and what it names in modules."""
    if any(_imports(function)):
        path = f"the imports of {function.__name__}"
        yield Place(path, NAME, lambda: [*_imported(function).values()], lambda before: None)
    yield from _closures(function)
    names = sorted(_names(function.__code__))
    yield _items("", NAME, function.__globals__, lambda: _named(function.__globals__, names))
    for path, module in _modules(function, names).items():
        yield _items(f"{path}.", NAME, vars(module), partial(_named, vars(module), names))


def _closures(function: FunctionType) -> Iterator[Place]:
    """The closure of a function, if it has one."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    assign = None if _is_of_library(function) else lambda name, x: setattr(cells[name], "cell_contents", x)
    if cells:
        yield Place("", NAME, lambda: _closure(function), assign, lambda name: delattr(cells[name], "cell_contents"))


def _closure(function: FunctionType) -> dict[str, Any]:
    """The variables of a closure that have been assigned."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it is empty
            found[name] = cell.cell_contents
    return found


def _named(space: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of the names that are in the namespace."""
    return {name: space[name] for name in names if name in space}


def _names(code: CodeType) -> set[str]:
    """The names of globals and attributes in code and in the functions within; and what getattr may take for one."""
    texts = [x for x in code.co_consts if isinstance(x, str) and x.isidentifier()]
    return {*code.co_names, *texts}.union(*[_names(x) for x in code.co_consts if isinstance(x, CodeType)])


def _modules(function: FunctionType, names: Iterable[str]) -> dict[str, ModuleType]:
    """The modules that a function can name: in its closure, imports and globals, and within these modules."""
    found: dict[str, ModuleType] = {}
    spaces = [("", {**_closure(function), **_named(function.__globals__, names), **_imported(function)})]
    for path, space in spaces:  # which grows
        for name, x in space.items():
            if issubclass(type(x), ModuleType) and x not in found.values():
                found[f"{path}{name}"] = x
                spaces.append((f"{path}{name}.", _named(vars(x), names)))
    return found


def _imports(function: FunctionType) -> Iterator[tuple[str, Sequence[str]]]:
    """The modules that a function imports where it runs, and the names that it imports from each."""
    codes = [function.__code__]
    for code in codes:  # which grows
        codes += [x for x in code.co_consts if isinstance(x, CodeType)]
        if IMPORT_NAME not in code.co_code[::2]:
            continue
        steps = [x for x in dis.get_instructions(code) if x.opname != "EXTENDED_ARG"]
        for level, names, step in zip(steps, steps[1:], steps[2:], strict=False):
            if step.opcode == IMPORT_NAME:
                package = function.__globals__.get("__package__") or ""
                with suppress(ImportError):  # which the function may expect
                    yield resolve_name("." * level.argval + step.argval, package), names.argval or ()


def _imported(function: FunctionType) -> dict[str, Any]:
    """What a function imports of what has been imported already, by the names of modules."""
    found = [(module, *(f"{module}.{name}" for name in names)) for module, names in _imports(function)]
    return _named(sys.modules, [*(module.partition(".")[0] for module, *_ in found), *chain.from_iterable(found)])


def _unfollowed(thing: Any) -> str:
    """The kind of an object that keeps what cannot be seen; "" for others."""
    kind = type(thing)
    if hasattr(kind, "__next__") and kind not in weakref.ProxyTypes:
        return "the iterator"
    if isinstance(thing, FunctionType):
        if _is_of_library(thing) or (thing.__name__.startswith("__") and thing.__name__ not in READING):
            return ""
        names = _names(thing.__code__)
        found = names & DYNAMIC
        if names & BY_NAME and any(map(_is_module, _modules(thing, names).values())):
            found |= names & BY_NAME
        return f"{min(found)} in" if found else ""
    base = _kind_in_c(thing)
    is_constant = base.__module__ in CONSTANT and not isinstance(thing, random.SystemRandom)
    return "" if base in FOLLOWED or is_constant else f"the {kind.__name__}"


def _is_opaque(kind: type) -> bool:
    """Whether nothing is read from objects of this class: numbers and texts, unless they can have attributes."""
    is_plain = kind in OPAQUE or (not kind.__flags__ & HEAP and issubclass(kind, (float, complex, str, bytes)))
    return is_plain or issubclass(kind, (ModuleType, Symbol, logging.Logger))


def _is_in_c(kind: type) -> bool:
    """Whether a class is written in C, as those are that a copy calls for a new object."""
    return not kind.__flags__ & HEAP or isinstance(vars(kind).get("__new__"), BuiltinMethodType)


def _kind_in_c(thing: Any) -> Any:
    """The first class in C that the class of an object comes from."""
    return next(base for base in type(thing).__mro__ if _is_in_c(base))


def _is_module(thing: Any) -> bool:
    """Whether this is a module whose contents may change."""
    return issubclass(type(thing), ModuleType) and thing.__name__.partition(".")[0] not in LIBRARIES


def _is_of_library(thing: Any) -> bool:
    """Whether a function or a class never changes, as those of libraries and in C; users patch micrograd's classes."""
    if isinstance(thing, type) and (_is_in_c(thing) or thing.__module__.startswith("micrograd.")):
        return _is_in_c(thing)
    # what functools.wraps makes of a user's function has the __module__ of what it wraps
    module = thing.__globals__.get("__name__") if isinstance(thing, FunctionType) else thing.__module__
    return str(module).partition(".")[0] in LIBRARIES


def _refill(container: Any, contents: list[Any]) -> None:
    """Set back a list, a set or a deque."""
    container.clear()
    (container.update if isinstance(container, set) else container.extend)(contents)


def _numbers(array: Any) -> Any:
    """The numbers in an array, in a form that tells whether they are the same; or the objects in it."""
    if _has_objects(array):
        return list(array.flat)
    kind = _kind_in_c(array)  # whose method reads even a masked array, and changes nothing
    return kind.tobytes(array) if hasattr(kind, "tobytes") else repr(array.tolist())


def _write_numbers(array: Any, numbers: Any) -> None:
    """Set back the numbers in an array, or the objects."""
    if _has_objects(array):
        for i, x in enumerate(numbers):
            array.flat[i] = x
    else:
        memoryview(array).cast("B")[:] = numbers


def _has_objects(array: Any) -> bool:
    """Whether this is an array of objects."""
    return getattr(getattr(array, "dtype", None), "kind", "") == "O"
