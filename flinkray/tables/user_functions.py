"""Functions of the user's in tables: what they are written as, and how they are called with columns.

A function of kind "general" is called once for each row, with values of Python. One of kind "pandas" gets a Series for
each argument, and one of kind "arrow" an array, which is the column itself; both give as many values back.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from msgspec import Struct

from flinkray.batches.conversions import converted
from flinkray.batches.numpy_arrays import check_exact_as_floats
from flinkray.batches.row_codec import short_repr
from flinkray.errors import InvalidProgramError, TypeMismatchError
from flinkray.extras import import_package
from flinkray.types.records import Millis
from flinkray.types.rows import Row, row_class

GENERAL, PANDAS, ARROW = "general", "pandas", "arrow"
FUNCTION_KINDS = (GENERAL, PANDAS, ARROW)


class FunctionContext:
    """What `open` of a function of tables gets."""

    def __init__(self, runtime_context: Any) -> None:
        self._runtime_context = runtime_context

    def get_task_name(self) -> str:
        name: str = self._runtime_context.get_task_name()
        return name

    def get_task_name_with_subtasks(self) -> str:
        name: str = self._runtime_context.get_task_name_with_subtasks()
        return name

    def get_number_of_parallel_subtasks(self) -> int:
        count: int = self._runtime_context.get_number_of_parallel_subtasks()
        return count

    def get_max_number_of_parallel_subtasks(self) -> int:
        count: int = self._runtime_context.get_max_number_of_parallel_subtasks()
        return count

    def get_index_of_this_subtask(self) -> int:
        index: int = self._runtime_context.get_index_of_this_subtask()
        return index

    def get_attempt_number(self) -> int:
        number: int = self._runtime_context.get_attempt_number()
        return number

    def get_metric_group(self) -> Any:
        """A group for figures of the function's own."""
        return self._runtime_context.get_metrics_group()

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """The value that `pipeline.global-job-parameters` has for the key, else `default_value`."""
        value: str = self._runtime_context.get_job_parameter(key, default_value)
        return value


class UserDefinedFunction:
    """Base of functions with a life cycle."""

    def open(self, function_context: FunctionContext) -> None:
        """Called once in each subtask, before the first row."""

    def close(self) -> None:
        """Called once in each subtask, after the last row."""

    def is_deterministic(self) -> bool:
        """Whether the same arguments always give the same result."""
        return True


class ScalarFunction(UserDefinedFunction):
    """Gives a value for each row: override `eval`."""

    eval: Callable[..., Any]


class AsyncScalarFunction(UserDefinedFunction):
    """Gives a value for each row: override `eval`, a coroutine function. It is awaited for several rows at a time."""

    eval: Callable[..., Any]


class TableFunction(UserDefinedFunction):
    """Gives rows for each row: override `eval`, a generator, or a function that returns several."""

    eval: Callable[..., Any]


class ImperativeAggregateFunction(UserDefinedFunction):
    """Base of functions of groups: an accumulator takes their rows, one after the other."""

    def get_result_type(self) -> Any:
        """The type of the result, where `result_type=` does not say it."""
        return None

    def get_accumulator_type(self) -> Any:
        """The type of the accumulator, which nobody asks for: it is any object that can be pickled."""
        return None

    def create_accumulator(self) -> Any:
        """The accumulator of a group without rows."""
        raise NotImplementedError

    def accumulate(self, accumulator: Any, /, *args: Any, **kwargs: Any) -> None:
        """Take a row in."""
        raise NotImplementedError

    def retract(self, accumulator: Any, /, *args: Any, **kwargs: Any) -> None:
        """Take a row back."""
        raise NotImplementedError

    def merge(self, accumulator: Any, accumulators: Iterable[Any], /) -> None:
        """Take in what other accumulators have."""
        raise NotImplementedError


class AggregateFunction(ImperativeAggregateFunction):
    """Gives a value for each group."""

    def get_value(self, accumulator: Any, /) -> Any:
        """The result of a group."""
        raise NotImplementedError


class TableAggregateFunction(ImperativeAggregateFunction):
    """Gives rows for each group."""

    def emit_value(self, accumulator: Any, /) -> Iterable[Any]:
        """The rows of a group."""
        raise NotImplementedError


class EmittedRows(AggregateFunction):
    """A table aggregate as an aggregate, whose value is all rows of a group."""

    def __init__(self, function: TableAggregateFunction) -> None:
        self.function = function

    def open(self, function_context: FunctionContext) -> None:
        self.function.open(function_context)

    def close(self) -> None:
        self.function.close()

    def create_accumulator(self) -> Any:
        return self.function.create_accumulator()

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        self.function.accumulate(accumulator, *args)

    def retract(self, accumulator: Any, *args: Any) -> None:
        self.function.retract(accumulator, *args)

    def get_value(self, accumulator: Any) -> list[Any]:
        return [row if isinstance(row, tuple) else (row,) for row in self.function.emit_value(accumulator) or ()]


def takes_back(function: ImperativeAggregateFunction) -> bool:
    """Whether an aggregate can take rows back that are updated or deleted."""
    own = function.function if isinstance(function, EmittedRows) else function
    return type(own).retract is not ImperativeAggregateFunction.retract


class Implementation(Struct, frozen=True):
    """How a function is called.

    Args:
        name: what users call it.
        function: a callable, or an object with `eval`, `open` and `close`.
        kind: one of `FUNCTION_KINDS`.
        row_names: the arguments are the columns of the row with these names, and the function gets the row.
    """

    name: str
    function: Any
    kind: str = GENERAL
    row_names: tuple[str, ...] | None = None

    @property
    def callable(self) -> Callable[..., Any]:
        """What is called with the arguments."""
        found: Callable[..., Any] = getattr(self.function, "eval", self.function)
        return found


class ScalarCall(Struct, frozen=True):
    """A call in a batch: which columns are its arguments, and what its result is."""

    implementation: Implementation
    arguments: tuple[int, ...]
    result: pa.Field


class _Called:
    """Calls functions in one subtask; opens and closes them."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self._functions = list({id(each): each for each in functions}.values())

    def open(self, runtime_context: Any) -> None:
        context = FunctionContext(runtime_context)
        for function in self._functions:
            if hasattr(function, "eval") and hasattr(function, "open"):
                function.open(context)

    def close(self) -> None:
        for function in self._functions:
            if hasattr(function, "eval") and hasattr(function, "close"):
                function.close()


class Awaiting(Struct, frozen=True):
    """How coroutine functions are awaited; the defaults are Flink's.

    Args:
        at_once: for so many rows at a time.
        timeout_ms: so long for a row, with all attempts.
        attempts: how often a row is tried whose function raises.
        delay_ms: how long after one that failed the next attempt begins.
    """

    at_once: int = 10
    timeout_ms: Millis = Millis(180_000)
    attempts: int = 3
    delay_ms: Millis = Millis(100)


class ScalarCalls(_Called):
    """A batch with the results of calls in the place of their arguments.

    Args:
        kept: how many columns in front are kept as they are.
    """

    def __init__(self, calls: Sequence[ScalarCall], kept: int, awaiting: Awaiting) -> None:
        super().__init__([call.implementation.function for call in calls])
        self._calls = tuple(calls)
        self._kept = kept
        self._awaiting = awaiting
        self._loop: asyncio.Runner | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns, fields = list(batch.columns[: self._kept]), list(batch.schema)[: self._kept]
        for call in self._calls:
            is_async = inspect.iscoroutinefunction(call.implementation.callable)
            results = self._awaited(call, batch) if is_async else _evaluated(call, batch)
            if len(results) != batch.num_rows:
                raise TypeMismatchError(
                    f"the function gave {len(results)} values for {batch.num_rows} rows: one of kind "
                    f"{call.implementation.kind!r} gives a value for each"
                )
            columns.append(results)
            fields.append(call.result)
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def close(self) -> None:
        super().close()
        if self._loop is not None:
            self._loop.close()

    def _awaited(self, call: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
        """The results of a coroutine function, which all are there before the batch goes on."""
        self._loop = self._loop or asyncio.Runner()
        columns = [batch.column(place) for place in call.arguments]
        rows = argument_rows(call.implementation, columns, batch.num_rows)
        results = self._loop.run(_together(call.implementation.callable, rows, self._awaiting))
        return column_of(results, call.result.type)


async def _together(function: Callable[..., Any], rows: Iterable[tuple[Any, ...]], awaiting: Awaiting) -> list[Any]:
    room = asyncio.Semaphore(awaiting.at_once)

    async def attempts(arguments: tuple[Any, ...]) -> Any:
        for _ in range(awaiting.attempts - 1):
            try:
                return await function(*arguments)
            except Exception:
                await asyncio.sleep(awaiting.delay_ms / 1000)
        return await function(*arguments)

    async def one(arguments: tuple[Any, ...]) -> Any:
        async with room:
            try:
                async with asyncio.timeout(awaiting.timeout_ms / 1000) as limit:
                    return await attempts(arguments)
            except TimeoutError as timeout:
                if not limit.expired():
                    raise
                raise TimeoutError(
                    f"no result within {awaiting.timeout_ms} ms for {short_repr(arguments)}: "
                    "table.exec.async-scalar.timeout gives more time"
                ) from timeout

    return await asyncio.gather(*map(one, rows))


def _evaluated(call: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
    implementation, kind = call.implementation, call.result.type
    columns = [batch.column(place) for place in call.arguments]
    if implementation.kind == ARROW:
        return _as_array(implementation.callable(*_whole(implementation, columns, pa.RecordBatch.from_arrays)), kind)
    if implementation.kind == PANDAS:
        return _of_pandas(implementation, columns, kind, batch.num_rows)
    function = implementation.callable
    results = [function(*arguments) for arguments in argument_rows(implementation, columns, batch.num_rows)]
    return column_of(results, kind)


def _whole(implementation: Implementation, columns: list[pa.Array], make: Callable[..., Any]) -> list[Any]:
    """The arguments in columns; those of a row as one table."""
    if implementation.row_names is None:
        return columns
    return [make(columns, names=list(implementation.row_names))]


def _as_array(result: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if isinstance(result, pa.RecordBatch | pa.Table):
        result = result.rename_columns(_names_of_result(result.schema.names, kind))
        # In the ROW's order, into which Arrow casts the fields of rows since version 20 only.
        result = result.select([field.name for field in kind]).to_struct_array()
        result = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
    if not isinstance(result, pa.Array):
        result = pa.array(result, kind)
    return result if result.type == kind else result.cast(kind)


def _names_of_result(found: list[Any], kind: pa.DataType) -> list[str]:
    """The names of the columns of a result: its own where they are those of the ROW, which has them in any order, else
    those of the ROW in its order."""
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    if sorted(map(str, found)) == sorted(names):
        return list(map(str, found))
    if len(found) != len(names):
        raise TypeMismatchError(
            f"a function gave {len(found)} columns ({', '.join(map(str, found))}), and its result_type is {kind}: give "
            "a column for each field of the ROW"
        )
    return names


def pandas_arguments(implementation: Implementation, columns: Sequence[pa.Array], whose: str) -> list[Any]:
    """What a function of pandas is called with: a Series for each argument, and for one that is a ROW a DataFrame of
    its fields; or a DataFrame of the whole row, in which a ROW is its fields, too.

    Args:
        whose: names the function in errors.
    Raises:
        TypeMismatchError: pandas would change a value.
    """
    for place, column in enumerate(columns, 1):
        for part in _fields_of(column, "")[1]:
            check_exact_as_floats(part, f"argument {place} of {whose}", "use func_type='arrow'")
    if implementation.row_names is None:
        return [
            _frame([_fields_of(each, "")]) if pa.types.is_struct(each.type) else each.to_pandas() for each in columns
        ]
    return [_frame([_fields_of(each, name) for each, name in zip(columns, implementation.row_names, strict=True)])]


def _fields_of(column: pa.Array, name: str) -> tuple[list[str], list[pa.Array]]:
    if pa.types.is_struct(column.type):
        return [field.name for field in column.type], column.flatten()
    return [name], [column]


def _frame(parts: list[tuple[list[str], list[pa.Array]]]) -> Any:
    columns = [column for _, found in parts for column in found]
    return pa.RecordBatch.from_arrays(columns, names=[name for names, _ in parts for name in names]).to_pandas()


def _of_pandas(implementation: Implementation, columns: list[pa.Array], kind: pa.DataType, count: int) -> pa.Array:
    pandas = import_package("pandas", "a function with func_type='pandas'")
    result = implementation.callable(*pandas_arguments(implementation, columns, "a function of pandas"))
    if isinstance(result, pandas.DataFrame):
        named = result.set_axis(_names_of_result(list(result.columns), kind), axis=1)
        return _as_array(pa.Table.from_pandas(named, preserve_index=False), kind)
    if not isinstance(result, pandas.Series):
        result = pandas.Series([result] * count)
    return _as_array(pa.Array.from_pandas(result, type=kind), kind)


def argument_rows(implementation: Implementation, columns: list[pa.Array], count: int) -> Iterator[tuple[Any, ...]]:
    """The arguments of each call."""
    if not columns:
        return iter([()] * count)
    values = zip(*(_values(column) for column in columns), strict=True)
    if implementation.row_names is None:
        return values
    made = row_class(implementation.row_names)._maker()
    return ((made(each),) for each in values)


def _values(column: pa.Array) -> list[Any]:
    found = column.to_pylist()
    return [_shown(each) for each in found] if pa.types.is_nested(column.type) else found


def _shown(value: Any) -> Any:
    """A nested value as functions get it: rows as Row, maps as dict."""
    if isinstance(value, dict):
        return Row(**{name: _shown(each) for name, each in value.items()})
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):
            return {_shown(key): _shown(each) for key, each in value}
        return [_shown(each) for each in value]
    return value


def column_of(results: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """What a function gave, as a column. Where a value does not fit, numbers and booleans become each other, as with
    PyFlink's workers, and decimals get the digits of their type, the even one of two that are as near.

    Raises:
        TypeMismatchError: a value does not fit for another reason.
    """
    try:
        return pa.array([_stored(each, kind) for each in results], kind)
    except _MISFITS:
        pass
    try:
        return _fitting_column(results, kind)
    except _MISFITS as error:
        raise TypeMismatchError(_misfit(results, kind)) from error


_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _fitting_column(results: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([_fitting(_stored(each, kind), kind) for each in results], kind)


def _misfit(results: Sequence[Any], kind: pa.DataType) -> str:
    """What is wrong with the first value that does not fit, all of which make no column."""
    for value in results:
        try:
            _fitting_column([value], kind)
        except _MISFITS:
            return (
                f"a function gave {short_repr(value)} ({type(value).__name__}), which its result type {kind} does not "
                "hold: give another value, or result_type= another type"
            )
    return f"what a function gave makes no column of its result type {kind}"


def _fitting(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _fitting(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(_fitting(key, kind.key_type), _fitting(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind):
        return [_fitting(each, kind.value_type) for each in value]
    if pa.types.is_decimal(kind) and isinstance(value, Decimal):
        try:
            return value.quantize(Decimal(1).scaleb(-kind.scale), context=Context(kind.precision))
        except InvalidOperation:
            return value  # too large, or no number at all
    return converted(value, kind)


def _stored(value: Any, kind: pa.DataType) -> Any:
    """What a function gave as Arrow takes it: of a ROW, dicts and rows that have the names of its fields by these, in
    whatever order, and others by the places of their values."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        own = value if isinstance(value, dict) else value._fields if isinstance(value, Row) and value._is_named else ()
        items = value.values() if isinstance(value, dict) else value
        if set(own) == set(names):
            items = [value[name] for name in names]
        return {field.name: _stored(each, field.type) for field, each in zip(kind, items, strict=True)}
    if pa.types.is_map(kind) and isinstance(value, dict):
        return [(key, _stored(each, kind.item_type)) for key, each in value.items()]
    if pa.types.is_list(kind):
        return [_stored(each, kind.value_type) for each in value]
    return value


class TableCalls(_Called):
    """For each row of a batch the rows that a table function gives, behind the columns that are kept.

    Args:
        is_outer: whether a row for which it gives none is there once, with nulls.
    """

    def __init__(
        self, implementation: Implementation, arguments: tuple[int, ...], kept: int, added: pa.Schema, is_outer: bool
    ) -> None:
        super().__init__([implementation.function])
        self._implementation = implementation
        self._arguments = arguments
        self._kept = kept
        self._added = added
        self._is_outer = is_outer

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        columns = [batch.column(place) for place in self._arguments]
        function = self._implementation.callable
        places: list[int] = []
        rows: list[Sequence[Any]] = []
        width = len(self._added)
        for place, arguments in enumerate(argument_rows(self._implementation, columns, batch.num_rows)):
            before = len(rows)
            rows.extend(_given_rows(function(*arguments), width))
            if len(rows) == before and self._is_outer:
                rows.append((None,) * width)
            places.extend([place] * (len(rows) - before))
        if not rows:
            return None
        taken = batch.select(list(range(self._kept))).take(pa.array(places, pa.int32()))
        added = [column_of([row[at] for row in rows], field.type) for at, field in enumerate(self._added)]
        return pa.RecordBatch.from_arrays([*taken.columns, *added], schema=pa.schema([*taken.schema, *self._added]))


def _given_rows(given: Any, width: int) -> Iterator[Sequence[Any]]:
    """The rows of what a table function returned: nothing, one, or several."""
    if given is None:
        return
    is_one = isinstance(given, tuple | str | bytes | bytearray | dict) or not isinstance(given, Iterable)
    several = [given] if is_one else given
    for row in several:
        found = row if isinstance(row, tuple) else (row,)
        if len(found) != width:
            raise InvalidProgramError(f"a table function of {width} columns gave a row of {len(found)}: {row!r}")
        yield found
