"""What is asked of the functions and strategies that users hand to operations: that they can be called and shipped, and
which type their results are declared to have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Expression
from flinkray.functions.asynchronous import AsyncFunction, AsyncRetryStrategy, NoRetryStrategy
from flinkray.functions.checks import check_function
from flinkray.functions.closures import check_serializable
from flinkray.functions.type_hints import callable_name, from_annotation, record_type, returns_list
from flinkray.streams.checks.known_types import KnownType
from flinkray.time.durations import Duration, to_millis
from flinkray.time.watermarks import WatermarkStrategy
from flinkray.transformations.operator_factories import AsyncFactory
from flinkray.types.records import RecordType


def check_watermark_strategy(strategy: object, known: KnownType) -> None:
    """Checks that it is a strategy, that it can be shipped, and that its timestamp column exists.

    Raises:
        InvalidProgramError: it is no WatermarkStrategy.
        NotSerializableError: its generator or timestamp assigner cannot be shipped.
        UnknownColumnError: the timestamp column is known not to exist.
    """
    if not isinstance(strategy, WatermarkStrategy):
        raise InvalidProgramError(
            f"a watermark strategy is needed, such as WatermarkStrategy.for_monotonous_timestamps(), not {strategy!r}"
        )
    check_serializable(strategy.generator, "watermark generator")
    check_serializable(strategy.assigner, "timestamp assigner")
    if isinstance(strategy.assigner, str):
        known.require([strategy.assigner], "timestamp assigner")
    elif isinstance(strategy.assigner, Expression):
        known.require(sorted(strategy.assigner.columns()), "timestamp assigner")


def declared_type(
    function: object,
    method: str,
    output_type: Any,
    *,
    of_items: bool = False,
    parameters: tuple[str, ...] | None = None,
) -> RecordType | None:
    """What `output_type=` says, else the annotation of the function (or of the `method` of a Function object); None:
    neither says anything.

    Args:
        of_items: the function gives any number of results, and the type is that of one of them.
        parameters: the arguments that the function is called with, by name, for the error (see `check_function`).
    """
    check_function(function, method, parameters)
    if output_type is not None:
        return record_type(output_type)
    return from_annotation(function, of_items=of_items)


def async_factory(
    name: str,
    function: AsyncFunction | Callable[[Any], Any],
    timeout: Duration,
    retry_strategy: AsyncRetryStrategy,
    capacity: int,
    output_type: Any,
    *,
    is_ordered: bool,
) -> AsyncFactory:
    """The operator `name` that calls an asynchronous function, once its arguments have been checked.

    Raises:
        InvalidProgramError: an argument is not what the operation takes.
    """
    check_function(function, "async_invoke")
    if isinstance(function, AsyncFunction):
        _check_async_function(function)
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise InvalidProgramError(f"the capacity is the number of rows that may be under way, not {capacity!r}")
    if not isinstance(retry_strategy, AsyncRetryStrategy):
        raise InvalidProgramError(
            f"a retry strategy is needed, such as AsyncRetryStrategy.fixed_delay(...), not {retry_strategy!r}"
        )
    timeout_ms = to_millis(timeout, "timeout")
    if not timeout_ms and not isinstance(retry_strategy, NoRetryStrategy):
        raise InvalidProgramError(f"{name}: retries need a timeout greater than zero, which ends them")
    declared = _declared_async_type(function, output_type)
    return AsyncFactory(function, timeout_ms, capacity, is_ordered, retry_strategy, declared)


def _check_async_function(function: AsyncFunction) -> None:
    name = type(function).__name__
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise InvalidProgramError(f"{name}.async_invoke must be declared with 'async def'")
    if inspect.iscoroutinefunction(function.timeout):
        raise InvalidProgramError(f"{name}.timeout must be a plain method: it is called when there is no time left")


def _declared_async_type(function: AsyncFunction | Callable[[Any], Any], output_type: Any) -> RecordType | None:
    """What `output_type=` says, else the function's annotation; an AsyncFunction gives a list of results."""
    if output_type is not None:
        return record_type(output_type)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidProgramError(f"{callable_name(function)} is a generator; return a list of results instead")
    return from_annotation(function, of_items=isinstance(function, AsyncFunction) or returns_list(function))


_OF_KEYED_STREAMS = ("aggregate", "count_window", "interval_join", "max", "min", "reduce", "sum", "window")


def missing_operation(class_name: str, name: str) -> str:
    """Says that streams of a class have no such attribute, and which ones have."""
    if name not in _OF_KEYED_STREAMS:
        return f"{class_name!r} object has no attribute {name!r}"
    without_key = "; window_all(...) takes all rows without a key" if "window" in name else ""
    return (
        f"{class_name} has no {name!r}, which is of keyed streams: key_by(...) comes right before it, as the "
        f"results of other operations, such as map and assign_timestamps_and_watermarks, are not keyed{without_key}"
    )
