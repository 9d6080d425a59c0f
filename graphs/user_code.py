"""Pickles user code, and says of what cannot be pickled which captured variable is to blame."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping

from msgspec import Struct

from flinkray.batches.pickling import dumps
from flinkray.errors import NotSerializableError, operator_label
from flinkray.functions.closures import captured_variables, pickling_error

_DEEPEST = 8
"""How far below a function its captured values are searched; deeper ones are named by what holds them."""


def pickle_user_code(code: object, operator_name: str) -> bytes:
    """cloudpickle of an operator's code.

    Raises:
        NotSerializableError: names the operator, and the captured variable that cannot be pickled.
    """
    try:
        return dumps(code, may_have_paths=True)
    except Exception as error:  # an object's own __reduce__ may raise anything
        raise NotSerializableError(
            f"{operator_label(operator_name)} cannot be sent to a worker: {_blame(code)} cannot be pickled "
            f"({type(error).__name__}: {error}). Create it in open() of a function class, or inside the function"
        ) from error


def _blame(code: object) -> str:
    """The deepest thing inside `code` that does not pickle, in words."""
    words, value = "its code", code
    for _ in range(_DEEPEST):
        culprit = next(((name, each) for name, each in _parts(value) if pickling_error(each)), None)
        if culprit is None:
            break
        words, value = culprit
    kind = "" if isinstance(value, types.FunctionType) else f" (a {type(value).__module__}.{type(value).__qualname__})"
    return f"{words}{kind}"


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What pickling `value` pickles as well, with words that say where it is."""
    if isinstance(value, types.FunctionType):
        nonlocals, used_globals = captured_variables(value)
        yield from ((f"variable {name!r} captured by {value.__qualname__!r}", v) for name, v in nonlocals.items())
        yield from ((f"global {name!r} used by {value.__qualname__!r}", v) for name, v in used_globals.items())
        yield from ((f"a default of {value.__qualname__!r}", each) for each in value.__defaults__ or ())
    elif isinstance(value, types.MethodType):
        yield f"the object of method {value.__qualname__!r}", value.__self__
        yield f"method {value.__qualname__!r}", value.__func__
    elif isinstance(value, functools.partial):
        yield "the function of a partial", value.func
        yield from (("an argument of a partial", each) for each in (*value.args, *value.keywords.values()))
    elif isinstance(value, Mapping):
        yield from ((f"item {key!r}", each) for key, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (("an item", each) for each in value)
    elif not isinstance(value, type):
        yield from _attributes(value)


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    owner = type(value).__name__
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield f"field {each.name!r} of {owner}", getattr(value, each.name)
    elif isinstance(value, Struct):
        yield from ((f"field {name!r} of {owner}", getattr(value, name)) for name in value.__struct_fields__)
    else:
        yield from ((f"attribute {name!r} of {owner}", each) for name, each in getattr(value, "__dict__", {}).items())
