"""`pyflink.common.serialization`, as far as files of lines go."""

from __future__ import annotations

import pyarrow as pa

from flinkray.batch import Batch
from flinkray.row_codec import decode
from flinkray.types import SCALAR_COLUMN, Kind

__all__ = ["Encoder"]


class Encoder:
    """How a value becomes a line: as `print()` shows it."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Lines of UTF-8 text."""
        if charset_name.upper().replace("_", "-") not in ("UTF-8", "UTF8"):
            raise ValueError(f"text is written as UTF-8, not {charset_name}")
        return Encoder()

    def encode(self, batch: Batch, _operator: str) -> Batch:
        """A batch of text without nulls, a value per row."""
        column = batch.data.column(0)
        is_text = batch.kind is Kind.SCALAR and pa.types.is_string(column.type) and not column.null_count
        if is_text:
            return batch
        texts = pa.array([str(value) for value in decode(batch)], pa.string())
        return Batch(pa.RecordBatch.from_arrays([texts], names=[SCALAR_COLUMN]), Kind.SCALAR)
