"""The row codec, as the runtime uses it: `flinkray.row_codec`, which the API's own sources and sinks share."""

from __future__ import annotations

from flinkray.row_codec import PLAIN_TYPES, RowEncoder, as_row, decode, snapshot

__all__ = ["PLAIN_TYPES", "RowEncoder", "as_row", "decode", "snapshot"]
