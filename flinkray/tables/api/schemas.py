"""Schema and TableDescriptor: what CREATE TABLE says, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flinkray.errors import InvalidProgramError
from flinkray.tables.api.data_types import logical_type, type_name
from flinkray.tables.api.queries import read_expression
from flinkray.tables.syntax import statements as syntax
from flinkray.tables.syntax.names import Name, Path
from flinkray.tables.syntax.unparsing.expressions import names_text, string_text
from flinkray.tables.syntax.unparsing.tables import schema_text
from flinkray.tables.types.logical import LogicalType, RowField, RowType


class Schema(Struct, frozen=True):
    """Columns, watermark and key of a table. Made with `Schema.new_builder()`."""

    columns: tuple[syntax.Column, ...] = ()
    watermarks: tuple[syntax.Watermark, ...] = ()
    keys: tuple[syntax.PrimaryKey, ...] = ()

    @staticmethod
    def new_builder() -> SchemaBuilder:
        return SchemaBuilder(Schema())

    @staticmethod
    def of(rows: RowType) -> Schema:
        """A schema of columns alone."""
        return SchemaBuilder(Schema()).from_row_data_type(rows).build()

    def __str__(self) -> str:
        """What CREATE TABLE has in parentheses, a line for each."""
        return schema_text(self.columns, self.watermarks, self.keys)


class SchemaBuilder:
    """Adds to a schema; each method gives the builder."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def column(self, column_name: str, data_type: Any) -> SchemaBuilder:
        """A column that the table stores."""
        return self._add(syntax.PhysicalColumn(Name(column_name), type_name(data_type)))

    def column_by_expression(self, column_name: str, expr: Any) -> SchemaBuilder:
        """A column that is computed of others."""
        return self._add(syntax.ComputedColumn(Name(column_name), read_expression(expr)._node))

    def column_by_metadata(
        self, column_name: str, data_type: Any, metadata_key: str | None = None, is_virtual: bool = False
    ) -> SchemaBuilder:
        """A column that connector or format know."""
        kind = type_name(data_type)
        return self._add(syntax.MetadataColumn(Name(column_name), kind, metadata_key, is_virtual))

    def watermark(self, column_name: str, watermark_expr: Any) -> SchemaBuilder:
        """Makes a column the time attribute, with watermarks from an expression."""
        expression = read_expression(watermark_expr)._node
        added = syntax.Watermark(Path((Name(column_name),)), expression)
        self._schema = replace(self._schema, watermarks=(*self._schema.watermarks, added))
        return self

    def primary_key(self, *column_names: str) -> SchemaBuilder:
        """The columns by which one row replaces another."""
        return self._with_key(syntax.PrimaryKey(tuple(map(Name, column_names))))

    def primary_key_named(self, constraint_name: str, *column_names: str) -> SchemaBuilder:
        """The same, with a name."""
        return self._with_key(syntax.PrimaryKey(tuple(map(Name, column_names)), Name(constraint_name)))

    def _with_key(self, key: syntax.PrimaryKey) -> SchemaBuilder:
        self._schema = replace(self._schema, keys=(*self._schema.keys, key))
        return self

    def from_schema(self, unresolved_schema: Schema) -> SchemaBuilder:
        """All that another schema has."""
        other, own = unresolved_schema, self._schema
        self._schema = Schema(own.columns + other.columns, own.watermarks + other.watermarks, own.keys + other.keys)
        return self

    def from_resolved_schema(self, resolved_schema: ResolvedSchema) -> SchemaBuilder:
        """The columns of a table."""
        return self.from_row_data_type(resolved_schema.row_type)

    def from_row_data_type(self, data_type: Any) -> SchemaBuilder:
        """A column for each field of a ROW."""
        rows = logical_type(data_type)
        if not isinstance(rows, RowType):
            raise InvalidProgramError(f"from_row_data_type takes a ROW, not {rows}")
        return self.from_fields(rows.names, rows.types)

    def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[Any]) -> SchemaBuilder:
        """Columns by names and types."""
        for name, kind in zip(field_names, field_data_types, strict=True):
            self.column(name, kind)
        return self

    def build(self) -> Schema:
        return self._schema

    def _add(self, column: syntax.Column) -> SchemaBuilder:
        self._schema = replace(self._schema, columns=(*self._schema.columns, column))
        return self


Schema.Builder = SchemaBuilder  # type: ignore[attr-defined]


@dataclass(frozen=True)
class ResolvedSchema:
    """Names and types of columns that are known."""

    row_type: RowType

    @staticmethod
    def physical(column_names: Sequence[str], column_data_types: Sequence[Any]) -> ResolvedSchema:
        """Columns by names and types."""
        kinds = map(logical_type, column_data_types)
        return ResolvedSchema(RowType(tuple(map(RowField, column_names, kinds))))

    def to_physical_row_data_type(self) -> RowType:
        """The columns as a ROW."""
        return self.row_type

    to_row_data_type = to_physical_row_data_type
    to_source_row_data_type = to_physical_row_data_type
    to_sink_row_data_type = to_physical_row_data_type

    def get_column_names(self) -> list[str]:
        return list(self.row_type.names)

    def get_column_data_types(self) -> list[LogicalType]:
        return list(self.row_type.types)

    def get_column_count(self) -> int:
        return len(self.row_type.fields)

    get_field_names = get_column_names
    get_field_data_types = get_column_data_types
    get_field_count = get_column_count

    def get_field_name(self, field_index: int) -> str | None:
        """The name of the column at a place from 0; None: there are not so many."""
        return self.row_type.names[field_index] if 0 <= field_index < self.get_column_count() else None

    def get_field_data_type(self, field: int | str) -> LogicalType | None:
        """The type of a column by its name, or its place from 0; None: there is none.

        Raises:
            TypeError: `field` is neither.
        """
        if not isinstance(field, int | str):
            raise TypeError(f"a column is found by its name, or its place from 0, not by {field!r}")
        name = self.get_field_name(field) if isinstance(field, int) else field
        names = self.row_type.names
        return self.row_type.types[names.index(name)] if name in names else None

    def __str__(self) -> str:
        inside = ",\n".join(f"  {field}" for field in self.row_type.fields)
        return f"(\n{inside}\n)"


class TableDescriptor(Struct, frozen=True):
    """A table without its name. Made with `TableDescriptor.for_connector(...)`."""

    table_schema: Schema | None = None
    options: tuple[tuple[str, str], ...] = ()
    partitioned_by: tuple[str, ...] = ()
    comment: str | None = None

    @staticmethod
    def for_connector(connector: str) -> TableDescriptorBuilder:
        return TableDescriptorBuilder(TableDescriptor()).option("connector", connector)

    def get_schema(self) -> Schema | None:
        return self.table_schema

    def get_options(self) -> dict[str, str]:
        return dict(self.options)

    def get_partition_keys(self) -> list[str]:
        return list(self.partitioned_by)

    def get_comment(self) -> str | None:
        return self.comment

    def __str__(self) -> str:
        """What CREATE TABLE has behind its name."""
        parts = [] if self.table_schema is None else [str(self.table_schema)]
        parts += [] if self.comment is None else [f"COMMENT {string_text(self.comment)}"]
        parts += [f"PARTITIONED BY {names_text(map(Name, self.partitioned_by))}"] if self.partitioned_by else []
        options = [f"  {string_text(key)} = {string_text(value)}" for key, value in self.options]
        return "\n".join([*parts, "WITH (", ",\n".join(options), ")"])

    def statement(self, path: Path, temporary: bool, if_not_exists: bool = False) -> syntax.CreateTable:
        """CREATE TABLE of that name."""
        schema = self.table_schema or Schema()
        return syntax.CreateTable(
            path,
            schema.columns,
            schema.watermarks,
            schema.keys,
            self.comment,
            None,
            tuple(map(Name, self.partitioned_by)),
            self.options,
            temporary=temporary,
            if_not_exists=if_not_exists,
        )


class TableDescriptorBuilder:
    """Adds to a descriptor; each method gives the builder."""

    def __init__(self, descriptor: TableDescriptor) -> None:
        self._descriptor = descriptor

    def schema(self, schema: Schema) -> TableDescriptorBuilder:
        self._descriptor = replace(self._descriptor, table_schema=schema)
        return self

    def option(self, key: Any, value: Any) -> TableDescriptorBuilder:
        """An option of the connector, by its key, or a ConfigOption."""
        name = key if isinstance(key, str) else key.key
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self._descriptor = replace(self._descriptor, options=(*self._descriptor.options, (name, text)))
        return self

    def format(self, format: Any, format_option: Any = None) -> TableDescriptorBuilder:
        """The format by its name, or with its options."""
        prefix = (
            "" if format_option is None else f"{getattr(format_option, 'key', format_option)}".removesuffix("format")
        )
        self.option(f"{prefix}format", getattr(format, "name", format))
        for key, value in getattr(format, "options", ()):
            self.option(f"{prefix}{format.name}.{key}", value)
        return self

    def partitioned_by(self, *partition_keys: str) -> TableDescriptorBuilder:
        self._descriptor = replace(self._descriptor, partitioned_by=partition_keys)
        return self

    def comment(self, comment: str) -> TableDescriptorBuilder:
        self._descriptor = replace(self._descriptor, comment=comment)
        return self

    def build(self) -> TableDescriptor:
        return self._descriptor


TableDescriptor.Builder = TableDescriptorBuilder  # type: ignore[attr-defined]


class FormatDescriptor(Struct, frozen=True):
    """A format with its options. Made with `FormatDescriptor.for_format(...)`."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.options)
        return f"{self.name}[{{{options}}}]"

    def get_format(self) -> str:
        return self.name

    def get_options(self) -> dict[str, str]:
        return dict(self.options)

    @staticmethod
    def for_format(format: str) -> FormatDescriptorBuilder:
        return FormatDescriptorBuilder(FormatDescriptor(format))


class FormatDescriptorBuilder:
    """Adds options to a format; each method gives the builder."""

    def __init__(self, descriptor: FormatDescriptor) -> None:
        self._descriptor = descriptor

    def option(self, key: Any, value: Any) -> FormatDescriptorBuilder:
        name = key if isinstance(key, str) else key.key
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self._descriptor = replace(self._descriptor, options=(*self._descriptor.options, (name, text)))
        return self

    def build(self) -> FormatDescriptor:
        return self._descriptor


FormatDescriptor.Builder = FormatDescriptorBuilder  # type: ignore[attr-defined]
