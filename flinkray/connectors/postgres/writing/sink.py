"""Tables of PostgreSQL as a sink."""

from __future__ import annotations

import copy
import functools
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from flinkray.connectors.committer import Committer
from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.postgres.connections import PostgresError, adbc, checked_uri, control, refuse, shown
from flinkray.connectors.postgres.writing.commits import RowsCommitter, TransactionCommitter, make_table
from flinkray.connectors.postgres.writing.target import Target, described
from flinkray.connectors.postgres.writing.writers import DirectWriter, RowsWriter, TransactionWriter
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext, SupportsPreCommitTopology
from flinkray.errors import InvalidProgramError
from flinkray.types.changelogs import ChangelogMode

_NAME = "PostgresSink"


class PostgresSink(Sink):
    """Rows as rows of a table, which has columns of the same names; others get their defaults. Comes with
    `flinkray[postgres]`.

    Exactly once by custom: the rows between two checkpoints are kept in the later one, and when it is complete, written
    in one transaction together with a mark in the table of commits, by which a second attempt knows that it need not.
    Without checkpoints that is at the end of the job. At least once, each batch is written as it comes.

    Values are converted as far as none is lost, text by the server to any type. A time without a zone is UTC. A row
    that the table cannot take for itself is an error before a checkpoint has it; the server is asked where needed.

    Args:
        uri: "postgresql://host:5432/database", or "host=... dbname=...", with options of libpq; shown nowhere.
        table: its name as SQL has it, such as "orders" or 'sales."Orders"'.
        key: the columns of a unique index: a row replaces the one that has the same values there, in those columns that
            the rows have, and of a changelog -D deletes it. None: rows are added.
        delivery_guarantee: EXACTLY_ONCE or AT_LEAST_ONCE.
        prepared: exactly once by a prepared transaction for each checkpoint and subtask, which rows go into as they
            come, instead of rows in the checkpoint. Its locks are held until the checkpoint is complete; the server
            needs max_prepared_transactions. With `key`, or where the server has to convert values, the user needs the
            right to create tables in the table's schema; they are gone when the transaction is prepared.
        commit_table: the table of commits, which is made if it is not there.
    """

    def __init__(
        self,
        uri: str,
        table: str,
        key: str | Iterable[str] | None = None,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        prepared: bool = False,
        commit_table: str = "flinkray_commits",
    ) -> None:
        if not table:
            raise InvalidProgramError(f"{_NAME}(table=...) names no table")
        if delivery_guarantee not in (DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE):
            raise InvalidProgramError(
                f"{_NAME}(delivery_guarantee=...) is DeliveryGuarantee.EXACTLY_ONCE or AT_LEAST_ONCE, not "
                f"{delivery_guarantee!r}"
            )
        self._uri = checked_uri(uri, _NAME)
        self._table = table
        self._key = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        self._delivery_guarantee = delivery_guarantee
        self._prepared = prepared
        self._commit_table = commit_table
        self._submission = ""
        """Names one submission of the program, in the names of prepared transactions."""
        if prepared and isinstance(self, SupportsPreCommitTopology):
            raise InvalidProgramError(
                f"{_NAME}(prepared=True) has no operators before its committer: a transaction that waits for them "
                "holds locks that its writer needs"
            )
        if prepared and not self._is_exact:
            raise InvalidProgramError(f"{_NAME}(prepared=True) is exactly once; leave delivery_guarantee= out")

    def __repr__(self) -> str:
        guarantee = self._delivery_guarantee.value
        return f"{_NAME}({self._table!r}, key={self._key!r}, {guarantee}, prepared={self._prepared})"

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return self._delivery_guarantee

    @property
    def accepts(self) -> ChangelogMode:
        return ChangelogMode.UPSERT if self._key else ChangelogMode.INSERT_ONLY

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self._key

    @property
    def _is_exact(self) -> bool:
        return self._delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def prepare(self) -> PostgresSink:
        """The sink, whose table is known to be there; makes the table of commits."""
        adbc()  # an error names the extra before anything is started
        what = f"cannot write to table {self._table!r} of {shown(self._uri)}"
        with control(self._uri, _NAME, delays_s=()) as connection:
            try:
                self._describe(connection)
                ((transactions,),) = connection.execute("SELECT current_setting('max_prepared_transactions')::int")
                what = f"cannot make the table of commits, commit_table={self._commit_table!r}, of {shown(self._uri)}"
                if self._is_exact:
                    make_table(connection, self._commit_table)
            except Exception as error:
                refuse(error, _NAME, what)
        if self._prepared and not transactions:
            raise PostgresError(
                f"{_NAME}(prepared=True): {shown(self._uri)} has no prepared transactions; set "
                "max_prepared_transactions there to at least two for each subtask, or leave prepared= out"
            )
        prepared = copy.copy(self)
        prepared._submission = uuid.uuid4().hex
        return prepared

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        if not self._is_exact:
            return DirectWriter(context, self._uri, self._describe)
        if not self._prepared:
            return RowsWriter(context, self._uri, self._describe)
        lineage = f"{self._submission}-{context.subtask_index}"
        return TransactionWriter(context, self._uri, self._describe, self._commit_table, lineage, restored or [])

    def create_committer(self) -> Committer | None:
        if not self._is_exact:
            return None
        rows = RowsCommitter(self._uri, self._commit_table, self._describe)
        return TransactionCommitter(self._uri, self._commit_table, rows) if self._prepared else rows

    @property
    def _describe(self) -> Callable[[Any], Target]:
        return functools.partial(described, table=self._table, key=self._key)
