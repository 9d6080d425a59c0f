"""AsyncDataStream: applies functions that wait for other systems, with many calls under way at once (PyFlink's)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.asynchronous import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy, NoRetryStrategy
from flinkray.functions.checks import check_function
from flinkray.functions.type_hints import callable_name, from_annotation, record_type, returns_list
from flinkray.streams.data_stream import DataStream
from flinkray.streams.settings.known_types import KnownType
from flinkray.time.durations import Duration, to_millis
from flinkray.transformations.operator_factories import AsyncFactory
from flinkray.types.records import RecordType

NAME = "async wait operator"


class AsyncDataStream:
    """How a stream is sent through an AsyncFunction.

    With `ordered_wait` results come in the order of the rows that they belong to; with `unordered_wait` as soon as they
    are there, but never across a watermark. Results have their row's event time.

    Rows whose results have not been emitted are part of a checkpoint; a job that goes on from it calls the function
    with them again.
    """

    @classmethod
    def unordered_wait(
        cls,
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results as they come; see `unordered_wait_with_retry`."""
        return cls.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results as they come.

        Args:
            timeout: how long a row may take, with all its attempts, before `async_function.timeout` is called instead;
                0: for ever.
            capacity: how many rows may be under way at most, in each subtask.
        """
        _require_async_function(async_function)
        return async_wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, NAME, is_ordered=False
        )

    @classmethod
    def ordered_wait(
        cls,
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results in the order of their rows; see `ordered_wait_with_retry`."""
        return cls.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream:
        """Results in the order of their rows. Arguments are those of `unordered_wait_with_retry`; a row counts towards
        the capacity until its results have been emitted."""
        _require_async_function(async_function)
        return async_wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, NAME, is_ordered=True
        )


def async_wait(
    stream: DataStream,
    function: AsyncFunction | Callable[[Any], Any],
    timeout: Duration,
    retry_strategy: AsyncRetryStrategy,
    capacity: int,
    output_type: Any,
    name: str,
    *,
    is_ordered: bool,
) -> DataStream:
    """What all operations on asynchronous functions come down to.

    Raises:
        InvalidProgramError: an argument cannot be meant.
    """
    if not isinstance(stream, DataStream):
        raise InvalidProgramError(f"{name} takes a DataStream, not {stream!r}")
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
    declared = _declared_type(function, output_type)
    factory = AsyncFactory(function, timeout_ms, capacity, is_ordered, retry_strategy, declared)
    return stream._one_input(name, factory, KnownType.of(declared))


def _require_async_function(function: object) -> None:
    if not isinstance(function, AsyncFunction):
        raise InvalidProgramError(
            f"an AsyncFunction is needed, not {function!r}; stream.async_map takes plain functions and coroutines"
        )


def _check_async_function(function: AsyncFunction) -> None:
    name = type(function).__name__
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise InvalidProgramError(f"{name}.async_invoke must be declared with 'async def'")
    if inspect.iscoroutinefunction(function.timeout):
        raise InvalidProgramError(f"{name}.timeout must be a plain method: it is called when there is no time left")


def _declared_type(function: AsyncFunction | Callable[[Any], Any], output_type: Any) -> RecordType | None:
    if output_type is not None:
        return record_type(output_type)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidProgramError(f"{callable_name(function)} is a generator; return a list of results instead")
    return from_annotation(function, of_items=isinstance(function, AsyncFunction) or returns_list(function))
