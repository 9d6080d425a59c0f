"""Checks that user code can be sent to a worker, when it is handed in, so that the traceback shows the user's line."""

from __future__ import annotations

import inspect
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
    error = _pickling_error(function)
    if error is None:
        return
    culprit = next((f"; it holds {name!r}" for name, value in _captured(function) if _pickling_error(value)), "")
    raise NotSerializableError(
        f"{operator_label(operator)}: {callable_name(function)} cannot be sent to a worker{culprit} ({error}). "
        "Make connections, locks, files and the like in open(), not in the constructor or the enclosing scope"
    ) from error


def _pickling_error(value: object) -> Exception | None:
    try:
        cloudpickle.Pickler(_Nowhere()).dump(value)
    except Exception as error:  # whatever a __reduce__ raises makes the value unfit for travel
        return error
    return None


def _captured(function: object) -> list[tuple[str, object]]:
    """Names and values of what a function or object brings along."""
    if inspect.ismethod(function):
        return _captured(function.__self__)
    if inspect.isfunction(function):
        try:
            captured = inspect.getclosurevars(function)
        except ValueError:
            return []  # a cell that is not filled yet
        return [*captured.nonlocals.items(), *captured.globals.items()]
    return list(getattr(function, "__dict__", {}).items())
