"""A source whose rows, watermarks and failures a test writes down."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flinkray.batches.batch import Batch
from flinkray.batches.row_codec import RowEncoder
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceProgress,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.connectors.split_list import SplitListEnumerator, SplitListReader
from flinkray.errors import InvalidProgramError
from flinkray.functions.type_hints import record_type
from flinkray.testing.elements import Crash, Idle, Marker, Watermark
from flinkray.types.records import RecordType, Timestamp

_crashed: set[tuple[str, int]] = set()
"""(source, position) of the crashes that have been in this process: a job that starts again must get past them."""


class ScriptedCrash(RuntimeError):
    """What a `Crash` in a script raises."""


@dataclass(frozen=True, slots=True)
class Script:
    """The split: goes on with the item at `position`."""

    position: int
    split_id: str = "script"


class ScriptedSource(Source):
    """Gives the items in order, in one subtask: values as rows, `Watermark`, `Idle` and `Active` as what they say.

    ```python
    source = ScriptedSource([("a", 1), Watermark(5), Crash, ("b", 7), Idle])
    event_time = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value[1])
    stream = env.from_source(source, event_time, "script")
    ```

    Each value is a batch of its own, so that a barrier may come between any two. At a `Crash` the source raises
    ScriptedCrash, once per process: a job with a restart strategy goes on from its last checkpoint, and gets past it.

    Args:
        type_info: the type of the values, as in `from_collection`; taken from the values else.
    """

    def __init__(self, items: Sequence[Any], type_info: Any = None) -> None:
        declared = None if type_info is None else record_type(type_info)
        values = [item for item in items if not isinstance(item, Watermark | Marker)]
        if not values and declared is None:
            raise InvalidProgramError("a script without values says nothing about their type; set type_info=")
        encoder = RowEncoder("scripted source", "1 of 1", declared, "type_info")
        rows = encoder.encode(values, None) if values else None
        self._output_type = declared if rows is None else rows.record_type
        self._items: list[Batch | Watermark | Marker] = []
        row = 0
        for item in items:
            if isinstance(item, Watermark | Marker):
                self._items.append(item)
            else:
                assert rows is not None
                self._items.append(rows.slice(row, 1))
                row += 1
        self._id = uuid.uuid4().hex

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def output_type(self) -> RecordType | None:
        return self._output_type

    @property
    def is_parallel(self) -> bool:
        return False

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        return SplitListEnumerator(context, [Script(0)] if restored is None else restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _ScriptReader(context, self._items, self._id)


class _ScriptReader(SplitListReader[Script]):
    """Gives the items of the script, each as a batch of its own."""

    def __init__(self, context: SourceReaderContext, items: Sequence[Batch | Watermark | Marker], source: str) -> None:
        super().__init__(context)
        self._items = items
        self._source = source

    def read_split(self, split: Script) -> Iterator[tuple[Batch | SourceProgress | None, Script]]:
        for position in range(split.position, len(self._items)):
            item = self._items[position]
            if item is Crash:
                self._crash(position)
            else:
                yield _emitted(item), Script(position + 1)

    def _crash(self, position: int) -> None:
        if (self._source, position) not in _crashed:
            _crashed.add((self._source, position))
            raise ScriptedCrash(f"the script has a crash at item {position}")


def _emitted(item: Batch | Watermark | Marker) -> Batch | SourceProgress:
    if isinstance(item, Batch):
        return item
    if isinstance(item, Watermark):
        return SourceProgress("script", watermark=Timestamp(item.timestamp))
    return SourceProgress("script", is_idle=item is Idle)
