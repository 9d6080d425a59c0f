"""`print` writes rows to standard output, and `blackhole` nowhere; for trying and measuring."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from flinkray.batches.batch import Batch
from flinkray.connectors.discard.sink import DiscardSink
from flinkray.connectors.print.sink import PrintSink
from flinkray.connectors.sink import Sink
from flinkray.tables.connectors.contract import Connector
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table
from flinkray.tables.types.number_texts import double_text, float_text
from flinkray.types.rows import SHORT_STRINGS


def _print(_table: Table, options: ConnectorOptions) -> Sink:
    identifier, is_error_stream = options.text("print-identifier"), options.truth("standard-error")
    return PrintSink(identifier, is_error_stream, printed_rows)


def _blackhole(_table: Table, _options: ConnectorOptions) -> Sink:
    return DiscardSink()


PRINT = Connector(sink=_print)
BLACKHOLE = Connector(sink=_blackhole)


def printed_rows(batch: Batch) -> Iterable[str]:
    """Rows as Flink's print connector shows them: `+I[1, tea, null]`."""
    columns = [map(_text_of(column.type), column.to_pylist()) for column in batch.data.columns]
    kinds = [0] * batch.data.num_rows if batch.kinds is None else batch.kinds.to_pylist()
    for kind, values in zip(kinds, zip(*columns, strict=True), strict=True):
        yield f"{SHORT_STRINGS[kind]}[{', '.join(values)}]"


def _text_of(kind: pa.DataType) -> Callable[[Any], str]:
    """What makes the text of a column's values."""
    if pa.types.is_floating(kind):
        text = float_text if pa.types.is_float32(kind) else double_text
        return lambda value: "null" if value is None else text(value)
    return _text


def _moment(value: datetime.datetime) -> str:
    """Seconds only where there are some, and fractions of 3 or 6 digits; an instant has seconds and a Z."""
    digits = "milliseconds" if value.microsecond % 1000 == 0 else "microseconds"
    spec = digits if value.microsecond else "seconds"
    if value.tzinfo is not None:
        return f"{value.replace(tzinfo=None).isoformat(timespec=spec)}Z"
    return value.isoformat(timespec="minutes" if not (value.second or value.microsecond) else spec)


def _text(value: Any) -> str:
    """A value as Java's toString shows it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.datetime):
        return _moment(value)
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return f"+I[{', '.join(map(_text, value.values()))}]"
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return "{" + ", ".join(f"{_text(key)}={_text(each)}" for key, each in value) + "}"
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bytes):
        return f"[{', '.join(str(each - 256 if each > 127 else each) for each in value)}]"
    return str(value)
