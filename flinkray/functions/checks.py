"""Checks of the functions and tags that a program hands over, made where it is written and not when it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Expression
from flinkray.functions.interfaces import Function, as_callable
from flinkray.types.records import OutputTag

_PARAMETERS = {
    "map": ("value",),
    "flat_map": ("value",),
    "filter": ("value",),
    "get_key": ("value",),
    "reduce": ("value1", "value2"),
    "process_element": ("value", "ctx"),
    "join": ("first", "second"),
    "co_group": ("first_rows", "second_rows"),
    "async_invoke": ("value",),
}
_OF_ONE_RESULT = frozenset({"map", "filter", "get_key", "reduce"})


def check_function(function: object, method: str, parameters: tuple[str, ...] | None = None) -> None:
    """Checks that it is a callable, or a Function object with that method, and can be called as it will be.

    Args:
        parameters: the names of its arguments, where they do not follow from the method.
    Raises:
        InvalidProgramError: it is not; says what is expected.
    """
    if isinstance(function, Function):
        if not hasattr(function, method):
            raise InvalidProgramError(f"{type(function).__name__} has no method {method}, which is needed here")
    elif not callable(function) or _is_function_class(function):
        hint = "; it is a class, so write it with ()" if isinstance(function, type) else ""
        if isinstance(function, Expression):
            way = "where(...)" if method == "filter" else "with_columns(name=...) or select(...)"
            hint = f", which is an expression over columns: write {way}"
        if isinstance(function, partial):
            hint = f"; it makes one, so call it: {function.func.__name__}(...)"
        raise InvalidProgramError(f"expected a function, or an object with a {method} method, not {function!r}{hint}")
    if method != "async_invoke":
        check_returns(function, method)
    _check_parameters(as_callable(function, method), parameters or _PARAMETERS[method])


def check_returns(function: Any, method: str) -> None:
    """Checks that calls of the function give results, and no coroutine or generator in their place, which a filter
    would take for true.

    Args:
        function: a callable, or a Function object.
    Raises:
        InvalidProgramError: it is declared with `async def`, or is a generator where one result is wanted.
    """
    for called in _called(function, method):
        name = getattr(called, "__qualname__", repr(called))
        if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
            raise InvalidProgramError(
                f"{name} is declared with 'async def', and nothing awaits it here: async_map(...) and AsyncDataStream "
                "call such functions, of which plain ones can then take the results"
            )
    if method in _OF_ONE_RESULT and inspect.isgeneratorfunction(as_callable(function, method)):
        way = "flat_map(...) takes what it yields" if method == "map" else "return the result instead"
        raise InvalidProgramError(f"{name} is a generator, and one result is wanted here: {way}")


def _called(function: Any, method: str) -> list[Any]:
    """What is called of a function: of a Function object all methods that its interface knows, `method` the last."""
    if not isinstance(function, Function):
        if inspect.isroutine(function) or isinstance(function, partial):
            return [function]
        return [(function if isinstance(function, type) else type(function)).__call__]
    interfaces = (each for each in type(function).__mro__ if each.__module__.startswith("flinkray."))
    known = {name for each in interfaces for name in vars(each) if not name.startswith("_")}
    return [getattr(function, name, None) for name in (*sorted(known - {method}), method)]


def _is_function_class(function: object) -> bool:
    made = function.func if isinstance(function, partial) else function
    return isinstance(made, type) and issubclass(made, Function)


def _check_parameters(function: Callable[..., Any], parameters: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a built-in one, which does not tell
    try:
        signature.bind(*parameters)
    except TypeError:
        name = getattr(function, "__qualname__", repr(function))
        raise InvalidProgramError(
            f"{name} takes {_parameters_of(signature)}, and is called with ({', '.join(parameters)}) here"
        ) from None


def _parameters_of(signature: inspect.Signature) -> str:
    return f"({', '.join(str(each.replace(annotation=each.empty)) for each in signature.parameters.values())})"


def checked_tag(tag: object, where: str) -> OutputTag:
    """The same tag; `where` is the method that takes it.

    Raises:
        InvalidProgramError: it is no OutputTag.
    """
    if not isinstance(tag, OutputTag):
        raise InvalidProgramError(f"{where} takes an OutputTag, such as OutputTag('late'), not {tag!r}")
    return tag
