"""Tables of the connector "datagen", which become streams: how PyFlink's examples make their rows up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import pyarrow as pa

from flinkray.connectors.datagen.source import DataGenSource, RandomField, SequenceField
from flinkray.connectors.datagen.source import Field as GeneratedField
from flinkray.errors import InvalidProgramError
from flinkray.pyflink.common.typeinfo import TypeInformation
from flinkray.pyflink.datastream.data_stream import DataStream
from flinkray.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkray.time.watermarks import WatermarkStrategy

__all__ = ["Schema", "StreamTableEnvironment", "Table", "TableDescriptor"]

_ROWS_PER_SECOND = 10_000
"""Flink's default."""
_TEXT_LENGTH = 100
_NO_TABLES = (
    "there is no Table API and no SQL here; write it with column expressions, "
    "stream.where(...).select(...), or in Spark, env.from_spark(spark.sql(...))"
)


@dataclass(frozen=True)
class Schema:
    """Columns of a table. Made with `Schema.new_builder()`."""

    columns: tuple[tuple[str, TypeInformation], ...] = ()

    @staticmethod
    def new_builder() -> Schema.Builder:
        return Schema.Builder()

    @dataclass
    class Builder:
        _columns: list[tuple[str, TypeInformation]] = field(default_factory=list)

        def column(self, column_name: str, data_type: TypeInformation) -> Schema.Builder:
            self._columns.append((column_name, data_type))
            return self

        def build(self) -> Schema:
            return Schema(tuple(self._columns))


@dataclass(frozen=True)
class TableDescriptor:
    """A table of made-up rows. Made with `TableDescriptor.for_connector("datagen")`."""

    table_schema: Schema = Schema()
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        if connector != "datagen":
            raise InvalidProgramError(f"connector {connector!r} of tables: there is 'datagen' only; {_NO_TABLES}")
        return TableDescriptor.Builder()

    class Builder:
        def __init__(self) -> None:
            self._descriptor = TableDescriptor()

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            self._descriptor = replace(self._descriptor, table_schema=schema)
            return self

        def option(self, key: str, value: object) -> TableDescriptor.Builder:
            options = (*self._descriptor.options, (key, str(value)))
            self._descriptor = replace(self._descriptor, options=options)
            return self

        def build(self) -> TableDescriptor:
            return self._descriptor

    def source(self) -> DataGenSource:
        """The rows, in batches of columns.

        Raises:
            InvalidProgramError: an option that the connector does not have, or a column of a type that it cannot make.
        """
        options = dict(self.options)
        rows = options.pop("number-of-rows", None)
        rate = options.pop("rows-per-second", None)
        fields = {name: _column(name, type_.arrow_type, options) for name, type_ in self.table_schema.columns}
        if options:
            raise InvalidProgramError(f"datagen has no option {min(options)!r}")
        return DataGenSource(fields, None if rows is None else int(rows), float(rate or _ROWS_PER_SECOND))


@dataclass(frozen=True)
class Table:
    """A table of the environment; `to_data_stream` makes a stream of it."""

    name: str
    descriptor: TableDescriptor

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidProgramError(f"Table.{name}: {_NO_TABLES}")


class StreamTableEnvironment:
    """Made with `StreamTableEnvironment.create(env)`."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self._env = env
        self._tables: dict[str, Table] = {}

    @staticmethod
    def create(
        stream_execution_environment: StreamExecutionEnvironment,
        environment_settings: object = None,  # noqa: ARG004
    ) -> StreamTableEnvironment:
        return StreamTableEnvironment(stream_execution_environment)

    def create_temporary_table(self, path: str, descriptor: TableDescriptor) -> None:
        self._tables[path] = Table(path, descriptor)

    def from_path(self, path: str) -> Table:
        if path not in self._tables:
            raise InvalidProgramError(f"there is no table {path!r}; create_temporary_table({path!r}, ...) makes it")
        return self._tables[path]

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        return Table("unnamed", descriptor)

    def to_data_stream(self, table: Table) -> DataStream:
        """Rows with the table's columns."""
        return self._env.from_source(table.descriptor.source(), WatermarkStrategy.no_watermarks(), table.name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidProgramError(f"StreamTableEnvironment.{name}: {_NO_TABLES}")


def _column(name: str, type_: pa.DataType, options: dict[str, str]) -> Callable[[Any], pa.Array]:
    """A function from row numbers to values of the column; takes its own options out of `options`."""
    prefix = f"fields.{name}."
    own = {key.removeprefix(prefix): options.pop(key) for key in list(options) if key.startswith(prefix)}
    number = int if pa.types.is_integer(type_) else float
    if own.pop("kind", "random") == "sequence":
        made: GeneratedField = SequenceField(int(own.pop("start")), int(own.pop("end")))
    elif pa.types.is_string(type_):
        made = RandomField(length=int(own.pop("length", _TEXT_LENGTH)))
    elif pa.types.is_boolean(type_):
        made = RandomField(choices=(False, True))
    elif pa.types.is_integer(type_) or pa.types.is_floating(type_):
        low, high = _range(type_)
        made = RandomField(number(own.pop("min", low)), number(own.pop("max", high)))
    else:
        raise InvalidProgramError(
            f"datagen: column {name!r} of type {type_} cannot be made up; add it in a map function"
        )
    if own:
        raise InvalidProgramError(f"datagen has no option {prefix + min(own)!r} for a column of type {type_}")
    seed = sum(map(ord, name))  # columns of the same range differ
    return lambda rows: made.values(rows, seed).cast(type_)


def _range(type_: pa.DataType) -> tuple[int | float, int | float]:
    if pa.types.is_integer(type_):
        bits = type_.bit_width - 1
        return -(1 << bits), (1 << bits) - 1
    return 0.0, 1.0
