"""The base of sinks that add rows to tables."""

from __future__ import annotations

import copy
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import pyarrow as pa

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.lake.columns import storable
from flinkray.connectors.lake.writer import LakeWriter, WrittenTable
from flinkray.connectors.sink import Sink, SinkWriter, SinkWriterContext
from flinkray.connectors.subtask import subtask_label
from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import record_type


class LakeSink(Sink):
    """Rows into a table, exactly once. A subclass says what each argument is, and has the committer.

    Args:
        place: shown as where the table is.
    """

    def __init__(self, place: Any, schema: Any, partition_by: Sequence[str], add_columns: bool, part_size: int) -> None:
        name = type(self).__name__
        if partition_by and schema is None:
            raise InvalidProgramError(
                f"{name}(partition_by=...) is for a table that it creates; give schema= as well, or leave it out"
            )
        if part_size < 1:
            raise InvalidProgramError(f"{name}(part_size=...) is at least 1 byte, got {part_size!r}")
        self._place = place
        self._schema = None if schema is None else storable(record_type(schema).schema)
        self._partition_by = tuple(partition_by)
        self._adds_columns = add_columns
        self._part_size = part_size
        self._sink_id = ""

    @abstractmethod
    def _check_table(self) -> None:
        """Refuses a table that is not there, or cannot be written."""

    @abstractmethod
    def _create_table(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Creates the table, unless it is there."""

    @abstractmethod
    def _written_table(self, context: SinkWriterContext, where: str) -> WrittenTable:
        """The table as a subtask writes it; `where` is operator, subtask and table, for errors."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._place)!r})"

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.EXACTLY_ONCE

    @property
    def commits_globally(self) -> bool:
        return True

    def prepare(self) -> Self:
        """The sink of one submission, by whose name the table will know it; the table is there then."""
        if self._schema is None:
            self._check_table()
        else:
            self._create_table(self._schema, self._partition_by)
        prepared = copy.copy(self)
        prepared._sink_id = f"flinkray-{uuid.uuid4().hex}"
        return prepared

    def create_writer(self, context: SinkWriterContext, restored: Any = None) -> SinkWriter:
        where = f"{subtask_label(context)}: {self._place}"
        table = self._written_table(context, where)
        return LakeWriter(table, self._sink_id, self._part_size, self._adds_columns, where)
