"""map_batches: the user's function on whole batches, as Arrow, pandas or numpy (after Ray Data's convention)."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pyarrow as pa

from actors.operators.contract.operator import Operator, label_of
from actors.protocol.elements import CheckpointOptions
from actors.state.snapshots.snapshot import OperatorSnapshot, RestoredState
from actors.user_code.errors import NO_VALUE, attributed, raise_attributed
from actors.user_code.functions import TaskRuntimeContext, UserFunctions
from flinkray.batches.batch import Batch
from flinkray.batches.normalization import LayoutNormalizer
from flinkray.batches.numpy_arrays import check_exact_as_floats, from_numpy
from flinkray.batches.row_codec import decode
from flinkray.batches.value_columns import to_array, to_values
from flinkray.errors import InvalidProgramError, TypeMismatchError
from flinkray.extras import import_package
from flinkray.functions.interfaces import Function
from flinkray.transformations.operator_factories import OBJECTS_IN_ARROW, MapBatchesFactory
from flinkray.types.records import SCALAR_COLUMN, Kind, RecordType, tuple_columns
from flinkray.types.value_types import Misfit, Unholdable, infer_type

if TYPE_CHECKING:
    import pandas as pd

_ACCEPTED = (
    "return a pyarrow.RecordBatch or Table, a pandas or Polars DataFrame, a dict of arrays or lists, None, "
    "or a generator or list of these"
)


class MapBatchesOperator(Operator):
    """Calls the function once per batch. A class, also one with arguments bound by `functools.partial`, is instantiated
    once per subtask, before `open`.

    The result's kind is SCALAR where it has the one column `value` and the input was SCALAR (or OBJECT), TUPLE where
    the input was TUPLE and the columns are again f0, f1, ..., and ROW otherwise. A declared type decides instead.
    """

    def __init__(self, factory: MapBatchesFactory) -> None:
        self._factory = factory
        if factory.batch_format not in _TO_FORMAT:
            raise InvalidProgramError(
                f"batch_format must be 'pyarrow', 'pandas' or 'numpy', not {factory.batch_format!r}"
            )
        self._to_format = _TO_FORMAT[factory.batch_format]

    def initialize_state(self, restored: RestoredState | None) -> None:
        function: Any = self._factory.function
        if _makes_functions(function):
            with attributed(self.context, NO_VALUE):
                function = function()
        self._functions = UserFunctions(self.context, [function])
        self._close = _closer(function)
        self._function: Callable[[Any], Any] = function
        self._functions.initialize_state(restored)

    def snapshot_state(self, checkpoint_id: int, options: CheckpointOptions) -> OperatorSnapshot:
        snapshot = OperatorSnapshot()
        self._functions.snapshot_state(checkpoint_id, snapshot)
        return snapshot

    def open(self) -> None:
        function: Any = self._function
        self._normalizer = LayoutNormalizer(label_of(self.context))
        self._functions.open(TaskRuntimeContext(self.context))
        if not isinstance(function, Function) and callable(getattr(function, "open", None)):
            with attributed(self.context, NO_VALUE):
                function.open(TaskRuntimeContext(self.context))
        if not callable(function):
            raise InvalidProgramError(
                f"{label_of(self.context)}: map_batches needs a callable, but {type(function).__name__} has no "
                "__call__ method"
            )

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        shown = _Shown(batch)
        if batch.kind is Kind.OBJECT and self._factory.batch_format == "pyarrow":
            raise TypeMismatchError(f"{label_of(self.context)}: {OBJECTS_IN_ARROW}")
        argument = self._to_format(batch)
        try:
            returned = self._function(argument)
        except BaseException as error:
            raise_attributed(self.context.operator_name, self.context.subtask, shown, error)
        if type(returned) is dict or isinstance(returned, pa.RecordBatch):
            self._emit(returned, batch)
            return
        for result in self._parts(returned, shown):
            self._emit(result, batch)

    def _emit(self, result: Any, batch: Batch) -> None:
        data = self._as_record_batch(result)
        if data.num_rows:
            if batch.kinds is not None and data.num_rows != batch.num_rows:
                raise TypeMismatchError(
                    f"{label_of(self.context)}: its input is a changelog, so the function of map_batches must give a "
                    f"row for each row; it gave {data.num_rows} for {batch.num_rows}, of which nobody knows what they "
                    "do. Make a column of it before, kinds_as_column('op'), and end with as_changelog('op')"
                )
            times = _times(batch, data.num_rows)
            self.output.emit(Batch(data, self._kind(batch, data), times, None, batch.kinds))
        else:
            self.context.cancellation.check()  # a generator of empty batches may have no end

    def close(self) -> None:
        if not hasattr(self, "_functions"):
            return
        self._functions.close()
        with attributed(self.context, NO_VALUE):
            self._close()

    def _parts(self, returned: Any, shown: _Shown) -> Iterator[Any]:
        """The batches that a call gave, one at a time; a generator runs inside the error handling too."""
        if returned is None:
            return
        if isinstance(returned, Mapping) or hasattr(returned, "__arrow_c_stream__") or _is_frame(returned):
            yield returned
            return
        if not isinstance(returned, Iterator | list | tuple):
            raise self._wrong_type(returned)
        parts = iter(returned)
        while True:
            with attributed(self.context, shown):
                part = next(parts, NO_VALUE)
            if part is NO_VALUE:
                return
            yield part

    def _as_record_batch(self, result: Any) -> pa.RecordBatch:
        declared = self._factory.output_type
        if isinstance(result, pa.RecordBatch):
            data = result
        elif isinstance(result, pa.Table):
            data = _one_batch(result)
        elif _is_frame(result):
            data = self._from_pandas(result)
        elif isinstance(result, Mapping):
            data = self._from_mapping(result)
        elif hasattr(result, "__arrow_c_stream__"):
            data = _one_batch(pa.table(result))
        else:
            raise self._wrong_type(result)
        if not data.num_columns and isinstance(result, Sized) and len(result):
            raise TypeMismatchError(
                f"{label_of(self.context)}: the function of map_batches returned {len(result)} rows without "
                "columns; a stream's rows need at least one. Return None for no rows"
            )
        return self._normalizer.normalize(data if declared is None else self._cast(data, declared))

    def _from_pandas(self, frame: pd.DataFrame) -> pa.RecordBatch:
        try:
            return pa.RecordBatch.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TypeMismatchError(f"{label_of(self.context)}: the returned DataFrame: {error}") from error

    def _from_mapping(self, columns: Mapping[str, Any]) -> pa.RecordBatch:
        arrays = {name: self._column(name, values) for name, values in columns.items()}
        if len({len(array) for array in arrays.values()}) > 1:
            lengths = {name: len(array) for name, array in arrays.items()}
            raise TypeMismatchError(f"{label_of(self.context)}: the returned columns have different lengths: {lengths}")
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _column(self, name: str, values: Any) -> pa.Array:
        if not isinstance(name, str):
            raise TypeMismatchError(f"{label_of(self.context)}: column names must be text, got {name!r}")
        try:
            if isinstance(values, pa.ChunkedArray):
                return values.combine_chunks()
            if isinstance(values, pa.Array):
                return values
            if isinstance(values, np.ndarray) and values.dtype != object:
                return _from_numpy(values)
            if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
                raise TypeMismatchError(
                    f"{label_of(self.context)}: column {name!r} is {type(values).__name__}; it must be an array "
                    "or a list with one value per row"
                )
            rows = list(values)
            return to_array(rows, infer_type(rows))
        except (Misfit, Unholdable, pa.ArrowException) as error:
            raise TypeMismatchError(
                f"{label_of(self.context)}: the returned column {name!r} fits no Arrow type: {error}"
            ) from error

    def _cast(self, data: pa.RecordBatch, declared: RecordType) -> pa.RecordBatch:
        names = declared.schema.names
        if sorted(data.schema.names) != sorted(names):
            raise TypeMismatchError(
                f"{label_of(self.context)}: the function returned columns {', '.join(data.schema.names)}, "
                f"but output_type= has {', '.join(names)}"
            )
        try:
            return data.select(names).cast(declared.schema)
        except (pa.ArrowException, ValueError) as error:
            raise TypeMismatchError(
                f"{label_of(self.context)}: the returned batch does not fit output_type={declared}: {error}"
            ) from error

    def _kind(self, batch: Batch, data: pa.RecordBatch) -> Kind:
        if self._factory.output_type is not None:
            return self._factory.output_type.kind
        names = data.schema.names
        if names == [SCALAR_COLUMN] and batch.kind in (Kind.SCALAR, Kind.OBJECT):
            return Kind.SCALAR
        return Kind.TUPLE if batch.kind is Kind.TUPLE and names == tuple_columns(len(names)) else Kind.ROW

    def _wrong_type(self, result: Any) -> TypeMismatchError:
        return TypeMismatchError(
            f"{label_of(self.context)}: the function of map_batches returned {type(result).__name__}; {_ACCEPTED}"
        )


def _makes_functions(function: Any) -> bool:
    """Whether it is a class, or one with arguments whose objects can be called: other classes with arguments, such as a
    DataFrame, are functions themselves."""
    if not isinstance(function, functools.partial):
        return inspect.isclass(function)
    made = function.func
    return inspect.isclass(made) and any("__call__" in vars(base) for base in made.__mro__)


class _Shown:
    """Stands for a batch in errors, which show its size and columns and not its rows."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __repr__(self) -> str:
        return f"a batch of {self._batch.num_rows} rows with columns {', '.join(self._batch.data.schema.names)}"


# -- batches to what the function gets ---------------------------------------------------------------------------


def _to_pyarrow(batch: Batch) -> pa.RecordBatch:
    return batch.data


def _is_frame(result: object) -> TypeGuard[pd.DataFrame]:
    """Whether it is a pandas DataFrame. Nobody can have made one before pandas is imported, which takes half a second:
    a slot that meets no DataFrame must not pay for it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(result, pandas.DataFrame)


def _to_pandas(batch: Batch) -> pd.DataFrame:
    pandas = import_package("pandas", 'map_batches(..., batch_format="pandas")')
    if batch.kind is Kind.OBJECT:
        objects: pd.DataFrame = pandas.DataFrame({SCALAR_COLUMN: pandas.Series(decode(batch), dtype=object)})
        return objects
    _check_exact(batch.data)
    frame: pd.DataFrame = batch.data.to_pandas()
    return frame


def _check_exact(data: pa.RecordBatch) -> None:
    for name, column in zip(data.schema.names, data.columns, strict=True):
        check_exact_as_floats(column, f"map_batches: column {name!r}", "take batches as 'pyarrow'")


def _to_numpy(batch: Batch) -> dict[str, np.ndarray[Any, Any]]:
    """The columns as writable arrays of their own; lists of one length as a matrix."""
    if batch.kind is Kind.OBJECT:
        return {SCALAR_COLUMN: _object_array(decode(batch))}
    _check_exact(batch.data)
    return {name: _numpy_column(batch.data.column(name)) for name in batch.data.schema.names}


def _numpy_column(column: pa.Array) -> np.ndarray[Any, Any]:
    if pa.types.is_fixed_size_list(column.type) and column.null_count == 0:
        flat = _numpy_column(column.flatten())
        return flat.reshape(len(column), column.type.list_size, *flat.shape[1:])
    if pa.types.is_nested(column.type) or pa.types.is_decimal(column.type):
        return _object_array(to_values(column))
    values: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return values if values.flags.writeable else values.copy()


def _object_array(values: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


_TO_FORMAT: dict[str, Callable[[Batch], Any]] = {"pyarrow": _to_pyarrow, "pandas": _to_pandas, "numpy": _to_numpy}


# -- and back ----------------------------------------------------------------------------------------------------


def _from_numpy(values: np.ndarray[Any, Any]) -> pa.Array:
    if values.ndim == 1:
        return from_numpy(values)
    if values.ndim == 0:
        raise pa.ArrowInvalid("a single value where an array with one value per row is needed")
    inner = _from_numpy(np.ascontiguousarray(values).reshape(-1, *values.shape[2:]))
    return pa.FixedSizeListArray.from_arrays(inner, values.shape[1])


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [_one_array(column) for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema.remove_metadata())


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _times(batch: Batch, rows: int) -> pa.Array | int | None:
    """The event times of the result: those of the batch if it has as many rows, else the batch's highest for all."""
    if batch.times is None or rows == batch.num_rows:
        return batch.times
    return batch.time_bounds[1]


def _closer(function: Any) -> Callable[[], None]:
    """The `close` of a function that is no Function, if it has one; that of a Function is called elsewhere."""
    close = getattr(function, "close", None)
    if isinstance(function, Function) or not callable(close):
        return lambda: None
    return close  # type: ignore[no-any-return]
