"""Tables and queries of PostgreSQL as a source that ends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, Self, TypeVar

from flinkray.connectors.postgres.columns import INTEGERS, Column, chosen, columns_of, schema_of
from flinkray.connectors.postgres.connections import adbc, checked_uri, control, refuse, shown
from flinkray.connectors.postgres.reader import PostgresReader
from flinkray.connectors.postgres.settings import PostgresSourceSettings
from flinkray.connectors.postgres.splits import PostgresSplit, bounds_of, splits_by_key, splits_by_page, tables_of
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator
from flinkray.errors import InvalidProgramError, UnknownColumnError
from flinkray.types.records import Kind, RecordType

_NAME = "PostgresSource"


class Described(Protocol):
    """What the server has said of a source."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of its rows."""


D = TypeVar("D", bound=Described)


class DescribedSource(Source, Generic[D]):
    """A source that a server describes, when it is asked for the first time."""

    def __init__(self, uri: str) -> None:
        self._uri = checked_uri(uri, type(self).__name__)
        self._settings: D | None = None

    @property
    @abstractmethod
    def _subject(self) -> str:
        """What is read of the server, for errors."""

    @abstractmethod
    def _describe(self, connection: Any) -> D:
        """Asks the server."""

    def _described(self) -> D:
        if self._settings is None:
            name = type(self).__name__
            with control(self._uri, name, delays_s=()) as connection:
                try:
                    self._settings = self._describe(connection)
                except Exception as error:
                    refuse(error, name, f"cannot read {self._subject} of {shown(self._uri)}")
        return self._settings

    @property
    def output_type(self) -> RecordType:
        """The type of the rows, for which the server is asked."""
        return RecordType(Kind.ROW, schema_of(self._described().columns))

    def prepare(self) -> Self:
        adbc()  # an error names the extra before anything is started
        self._described()
        return self


class PostgresSource(DescribedSource[PostgresSourceSettings]):
    """The rows of a table or query, in parallel, exactly once: a restored source goes on with the row after the last
    one. Comes with `flinkray[postgres]`.

    A table is read by ranges of its pages, partitions included, with a query for each; with `key=`, and where a query
    or view has no pages, by ranges of a column of integers. Each query sees the rows as they are when it begins: what
    is changed meanwhile is read as it was or as it is then, and a row that is updated perhaps twice or not at all.

    Args:
        uri: "postgresql://host:5432/database", or "host=... dbname=...", with options of libpq; shown nowhere.
        table: its name as SQL has it, such as "orders" or 'sales."Orders"'.
        query: a SELECT instead of a table; it needs `key`.
        columns: read only these of a table.
        where: read only rows for which this condition in SQL is true.
        key: the column of integers to split by, best with an index on it. Rows with one key are read at once.
    """

    def __init__(
        self,
        uri: str,
        table: str | None = None,
        query: str | None = None,
        columns: Iterable[str] | None = None,
        where: str | None = None,
        key: str | None = None,
    ) -> None:
        if (table is None) == (query is None):
            raise InvalidProgramError(f"{_NAME} takes either table= or query=")
        if query is not None and key is None:
            raise InvalidProgramError(
                f"{_NAME}(query=...) needs key=, a column of integers in its result that it is split by; without an "
                "order, a position in it would mean nothing after a failure"
            )
        if query is not None and (columns is not None or where is not None):
            raise InvalidProgramError(f"{_NAME}(query=...) itself says which columns and rows, not columns= and where=")
        super().__init__(uri)
        self._table = table
        self._query = None if query is None else query.strip().rstrip(";")
        self._columns = None if columns is None else tuple(columns)
        self._where = where
        self._key = key

    def __repr__(self) -> str:
        return f"{_NAME}({self._table or self._query!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        if restored is not None:
            return SplitListEnumerator(context, restored)
        return SplitListEnumerator(context, self._splits(context.parallelism))

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return PostgresReader(context, self._described())

    # -- asking the server

    @property
    def _subject(self) -> str:
        return f"table {self._table!r}" if self._query is None else "the query"

    def _describe(self, connection: Any) -> PostgresSourceSettings:
        relation = f"({self._query}\n) AS flinkray_query"
        if self._table is not None:
            # What the name means is the server's to say; then there is no doubt, whatever is in it.
            ((relation,),) = connection.execute("SELECT %s::regclass::text", (self._table,)).fetchall()
        everything = columns_of(connection, relation)
        self._check_key(everything)
        columns = chosen(everything, self._columns, _NAME)
        settings = PostgresSourceSettings(self._uri, self._table, relation, columns, self._where, self._key)
        if self._where is not None:  # an error in it is one of the program
            connection.execute(f"SELECT FROM {relation} WHERE ({self._where}\n) LIMIT 0")
        if self._key is None:
            tables_of(connection, relation)
        return settings

    def _check_key(self, columns: tuple[Column, ...]) -> None:
        if self._key is None:
            return
        found = {column.name: column for column in columns}
        if self._key not in found:
            raise UnknownColumnError(self._key, list(found), f"{_NAME}(key=...)")
        if found[self._key].type_id not in INTEGERS:
            raise InvalidProgramError(
                f"{_NAME}(key={self._key!r}): the column is {found[self._key].arrow_type}, not of integers; leave key= "
                "out to split a table by its pages, or add such a column to the query"
            )

    def _splits(self, parallelism: int) -> list[PostgresSplit]:
        settings = self._described()
        with control(self._uri, _NAME) as connection:
            try:
                if settings.key is None:
                    return list(splits_by_page(tables_of(connection, settings.relation), parallelism))
                bounds, has_nulls = bounds_of(connection, settings.relation, settings.key, settings.condition)
                return list(splits_by_key(settings.relation, bounds, has_nulls, parallelism))
            except Exception as error:
                refuse(error, _NAME, f"cannot split {settings.relation} of {shown(self._uri)}")
