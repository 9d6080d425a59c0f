"""Operations on the columns of a stream: select, where, with_columns, drop, rename, decode, encode, and changelogs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from flinkray.connectors.formats.message_format import MessageFormat
from flinkray.errors import InvalidProgramError
from flinkray.expressions.tree import Expression, as_expression, col
from flinkray.functions.type_hints import scalar_type
from flinkray.streams.checks.known_types import KnownType
from flinkray.transformations.operator_factories import (
    AsChangelogFactory,
    DecodeFactory,
    DropFactory,
    EncodeFactory,
    KindsAsColumnFactory,
    OperatorFactory,
    ProjectFactory,
    RenameFactory,
    RowtimeFactory,
    WhereFactory,
)
from flinkray.transformations.transformation import Transformation, own_parallelism
from flinkray.types.records import OutputTag

if TYPE_CHECKING:
    from flinkray.streams.data_stream import DataStream
    from flinkray.streams.results import Program


class ColumnOperations(ABC):
    """Evaluated on whole batches, with no Python per row. A scalar stream has the column `value`, a tuple stream has
    `f0`, `f1`, ...; all but `where` give rows. Columns that are known not to exist are an UnknownColumnError at once,
    others when the first batch comes."""

    _environment: Program
    _known: KnownType
    _transformation: Transformation

    @abstractmethod
    def _one_input(self, name: str, factory: OperatorFactory, known: KnownType) -> DataStream:
        """The stream of a new operator on this one."""

    def select(self, *columns: str | Expression, **expressions: Any) -> DataStream:
        """Rows of these columns only: present ones by name, new ones as `name=expression` (or a constant).

        `stream.select("origin", delay_h=col("delay_min") / 60)`
        """
        new = _named("select", columns, expressions)
        if not new:
            raise InvalidProgramError("select needs at least one column")
        self._require_columns("select", new.values())
        known = self._known.projected(tuple(new.items()), keep_all=False)
        return self._one_input("Select", ProjectFactory(columns=tuple(new.items())), known)

    def with_columns(self, *columns: Expression, **expressions: Any) -> DataStream:
        """All present columns and new ones; a new one of the same name takes the old one's place."""
        new = _named("with_columns", columns, expressions)
        if not new:
            raise InvalidProgramError("with_columns needs at least one column, as name=expression")
        self._require_columns("with_columns", new.values())
        known = self._known.projected(tuple(new.items()), keep_all=True)
        return self._one_input("With Columns", ProjectFactory(columns=tuple(new.items()), keep=None), known)

    def where(self, predicate: Expression) -> DataStream:
        """The rows for which a boolean expression is true (null counts as false): `where(col("price") > 10)`."""
        _check_predicate(predicate)
        self._require_columns("where", [predicate])
        return self._one_input("Where", WhereFactory(predicate), self._known)

    def drop(self, *columns: str) -> DataStream:
        """All columns but these."""
        if not columns:
            raise InvalidProgramError("drop needs at least one column")
        self._known.require(columns, "drop")
        known = self._known.dropped(columns)
        if known.columns == ():
            raise InvalidProgramError("drop would leave no column")
        return self._one_input("Drop", DropFactory(tuple(columns)), known)

    def rename(self, columns: Mapping[str, str] | None = None, **renames: str) -> DataStream:
        """The same columns with new names: `rename(old="new")`, or `rename({"old name": "new"})`."""
        mapping = {**(columns or {}), **renames}
        if not mapping:
            raise InvalidProgramError("rename needs at least one column, as old='new'")
        if len(set(mapping.values())) < len(mapping):
            raise InvalidProgramError(f"rename would give two columns the same name: {mapping}")
        self._known.require(mapping, "rename")
        return self._one_input("Rename", RenameFactory(tuple(mapping.items())), self._known.renamed(mapping))

    def with_rowtime(self, column: str) -> DataStream:
        """The same rows, of which a column is the rowtime attribute in SQL: windows are over it.

        Event times of rows become those of the column, a timestamp; one that the stream does not have is added, and has
        the event times, as a timestamp of milliseconds in UTC. Watermarks stay as they are.

        Raises:
            InvalidProgramError: the stream's columns are not known, or the column is no timestamp.
        """
        if self._known.columns is None or column not in self._known.columns:
            return self._with_event_times(column)
        if self._known.record_type is not None:
            arrow_type = self._known.record_type.schema.field(column).type
            if not pa.types.is_timestamp(arrow_type):
                raise InvalidProgramError(
                    f"with_rowtime: column {column!r} is {arrow_type}, and a rowtime attribute is a timestamp; a name "
                    "that no column has makes one of the rows' event times"
                )
        return self._in_place("Rowtime", RowtimeFactory(column), self._known)

    def _with_event_times_where_read(self, column: str, zone: str | None = "UTC") -> DataStream:
        """The stream with its event times as a column, for tables: no operator of the program unless one reads it."""
        with self._environment._only(()):
            return self._with_event_times(column, zone)

    def _with_event_times(self, column: str, zone: str | None = "UTC") -> DataStream:
        if self._known.columns is None:
            raise InvalidProgramError(
                "with_rowtime: the columns of the stream are not known before it runs; give the output_type= of the "
                "function before"
            )
        kind = self._known.with_column(column, pa.timestamp("ms", zone))
        return self._in_place("Rowtime", RowtimeFactory(column, is_added=True, zone=zone), kind)

    def as_changelog(self, column: str = "op") -> DataStream:
        """These rows as a changelog, of which a column says what each row does; the others are the rows' own. The
        parallelism is that of the operator before, so that rows stay in order.

        Args:
            column: text, "+I", "-U", "+U" or "-D", or what change data capture calls them, "c" and "r" (both +I),
                "u" (+U) and "d"; or the values of `RowKind`, 0 to 3. Anything else fails the job.
        Raises:
            InvalidProgramError: when the program is compiled, if these rows are a changelog already.
        """
        self._known.require([column], "as_changelog")
        known = self._known.dropped([column])
        if known.columns == ():
            raise InvalidProgramError(f"as_changelog: the rows have no column but {column!r}")
        return self._in_place("As Changelog", AsChangelogFactory(column), known)

    def kinds_as_column(self, column: str = "op") -> DataStream:
        """The rows of a changelog as a stream of inserts, with a further column that says what each row does: "+I",
        "-U", "+U" or "-D". `as_changelog` is the other way. The parallelism is that of the operator before, so that
        rows stay in order."""
        if self._known.columns is not None and column in self._known.columns:
            raise InvalidProgramError(f"kinds_as_column would make two columns named {column!r}; name another")
        known = self._known.with_column(column, pa.string())
        return self._in_place("Kinds As Column", KindsAsColumnFactory(column), known)

    def _in_place(self, name: str, factory: OperatorFactory, known: KnownType) -> DataStream:
        """The stream of a new operator of the parallelism that was set for the one before."""
        stream = self._one_input(name, factory, known)
        stream._transformation.parallelism = own_parallelism(self._transformation)
        return stream

    def decode(
        self,
        message_format: MessageFormat,
        column: str = "value",
        keep: Iterable[str] = (),
        bad_messages: Literal["fail", "skip"] | OutputTag = "fail",
    ) -> DataStream:
        """Reads the messages in a column of bytes or text as rows; a message that is null gives none.

        `stream.decode(JsonFormat({"user": str, "cents": int}), keep=["offset"], bad_messages=OutputTag("bad"))`

        A ChangelogFormat begins a changelog; the parallelism is then that of the operator before, so that changes stay
        in order.

        Args:
            message_format: JsonFormat, CsvFormat, AvroFormat, RawFormat, DebeziumJsonFormat, or one of your own.
            column: the messages; the bare value by custom.
            keep: columns that each row is to have in front, of the row that its message was in.
            bad_messages: what becomes of messages that cannot be read: "fail" ends the job with the first of them,
                "skip" leaves them out, and a tag gives them to that side output, as rows with a column `reason` more.
                The last two count them in the metric `undecodable_messages`.
        """
        _check_format("decode", message_format)
        if bad_messages not in ("fail", "skip") and not isinstance(bad_messages, OutputTag):
            raise InvalidProgramError(f"bad_messages is 'fail', 'skip' or an OutputTag, not {bad_messages!r}")
        kept = tuple(keep)
        self._known.require([column, *kept], "decode")
        decoded = message_format.record_type
        known = KnownType.of(decoded)
        if kept:
            both = sorted(set(kept) & set(decoded.schema.names))
            if both:
                raise InvalidProgramError(
                    f"decode would make two columns named {both[0]!r}; rename the kept one before"
                )
            known = KnownType.of_columns([*kept, *decoded.schema.names])
        add = self._in_place if message_format.is_changelog else self._one_input
        return add("Decode", DecodeFactory(message_format, column, kept, bad_messages), known)

    def encode(self, message_format: MessageFormat) -> DataStream:
        """Each row as a message: bare bytes. Errors name the column and the value that the format has no form for.

        Messages of a ChangelogFormat say what rows do, so that a changelog ends here; the parallelism is then that of
        the operator before, so that changes stay in order.
        """
        _check_format("encode", message_format)
        add = self._in_place if message_format.is_changelog else self._one_input
        return add("Encode", EncodeFactory(message_format), KnownType.of(scalar_type(pa.binary())))

    def _require_columns(self, where: str, expressions: Iterable[Expression]) -> None:
        for expression in expressions:
            self._known.require(sorted(expression.columns()), where)


def _check_format(where: str, message_format: object) -> None:
    if not isinstance(message_format, MessageFormat):
        raise InvalidProgramError(f"{where} takes a MessageFormat such as JsonFormat(...), not {message_format!r}")


def _check_predicate(predicate: object) -> None:
    if not isinstance(predicate, Expression):
        hint = "; filter() takes functions" if callable(predicate) else ""
        raise InvalidProgramError(f"where takes an expression such as col('price') > 10, not {predicate!r}{hint}")


def _named(where: str, columns: Iterable[str | Expression], expressions: Mapping[str, Any]) -> dict[str, Expression]:
    """Name -> expression, in the order given."""
    named: dict[str, Expression] = {}
    positional = [col(column) if isinstance(column, str) else column for column in columns]
    for expression in positional:
        if not isinstance(expression, Expression):
            raise InvalidProgramError(f"{where} takes column names and expressions, not {expression!r}")
        name = expression.output_name
        if name is None:
            raise InvalidProgramError(
                f"{where}: {expression!r} needs a name; write it as name=expression, or use .alias('name')"
            )
        _add(named, name, expression, where)
    for name, value in expressions.items():
        _add(named, name, as_expression(value), where)
    return named


def _add(named: dict[str, Expression], name: str, expression: Expression, where: str) -> None:
    if name in named:
        raise InvalidProgramError(f"{where} would make two columns named {name!r}")
    named[name] = expression
