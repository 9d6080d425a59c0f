"""Kinds of Arrow types, in whichever layout values are."""

from __future__ import annotations

import pyarrow as pa

from flinkray.types.arrow_types import is_bytes, is_text

TEXTS = (pa.string(), pa.large_string(), pa.string_view())
BYTES = (pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view())
OTHERS = (pa.int64(), pa.null(), pa.list_(pa.string()), pa.dictionary(pa.int8(), pa.string()))


def test_each_layout_of_texts_and_of_bytes_is_known_and_nothing_else() -> None:
    assert [(is_text(each), is_bytes(each)) for each in (*TEXTS, *BYTES, *OTHERS)] == [
        *[(True, False)] * len(TEXTS),
        *[(False, True)] * len(BYTES),
        *[(False, False)] * len(OTHERS),
    ]
