"""Checks that functions can be pickled when they are handed in, so that the traceback shows the user's line.

The compiler names the culprit inside whole operators with the same means (`graphs.user_code`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import cloudpickle

from flinkray.errors import NotSerializableError, operator_label
from flinkray.functions.type_hints import callable_name


class _Nowhere:
    """A file that keeps nothing of what a pickler writes, since a function may have captured a large model."""

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes  # of a large array a PickleBuffer comes, which has no length of its own


def check_serializable(function: object, operator: str) -> None:
    """Checks that `function` can be pickled, with all that it captures.

    Raises:
        NotSerializableError: it cannot; names the operator and, where it can be told, the captured variable.
    """
    error = pickling_error(function)
    if error is None:
        return
    culprit = next((f"; it holds {name!r}" for name, value in _captured(function) if pickling_error(value)), "")
    raise NotSerializableError(
        f"{operator_label(operator)}: {callable_name(function)} cannot be sent to a worker{culprit} ({error}). "
        "Make connections, locks, files and the like in open(), not in the constructor or the enclosing scope"
    ) from error


def pickling_error(value: object) -> Exception | None:
    """What pickling the value raises; None: it can be pickled."""
    try:
        cloudpickle.Pickler(_Nowhere()).dump(value)
    except Exception as error:  # whatever a __reduce__ raises makes the value unfit for travel
        return error
    return None


def _captured(function: object) -> list[tuple[str, object]]:
    """Names and values of what a function or object brings along."""
    if inspect.ismethod(function):
        return _captured(function.__self__)
    if isinstance(function, FunctionType):
        nonlocals, used_globals = captured_variables(function)
        return [*nonlocals.items(), *used_globals.items()]
    return list(getattr(function, "__dict__", {}).items())


def captured_variables(function: FunctionType) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """The variables of enclosing functions, and the globals, that the function uses, by name; both empty where a
    variable has no value yet."""
    try:
        captured = inspect.getclosurevars(function)
    except ValueError:
        return {}, {}
    return captured.nonlocals, captured.globals
