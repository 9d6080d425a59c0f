"""Python objects as bytes for another process."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle
import pyarrow as pa

from flinkray.batches.sizes import data_bytes
from flinkray.persistence import PROTOCOL, reduced

ARROW_DATA = (pa.Array, pa.ChunkedArray, pa.RecordBatch, pa.Table)
"""Arrow's data: immutable, and perhaps small slices of large buffers."""


def dumps(value: Any, may_have_paths: bool = False) -> bytes:
    """The value pickled by cloudpickle: a class of the user's main script is in it, as no other process finds it by
    name.

    Of the buffers that Arrow's data are slices of, only their own rows are in it. Classes of ours are named as
    `flinkray.persistence` says.

    Args:
        may_have_paths: as `flinkray.persistence.reduced` takes it.
    """
    stream = io.BytesIO()
    _Pickler(stream, may_have_paths).dump(value)
    return stream.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler, which leaves out the unused rest of Arrow's buffers, and keeps the files of code."""

    def __init__(self, stream: io.BytesIO, may_have_paths: bool) -> None:
        super().__init__(stream, PROTOCOL)
        self._may_have_paths = may_have_paths

    def reducer_override(self, obj: Any) -> Any:
        named = reduced(obj, self._may_have_paths)
        if named is not NotImplemented:
            return named
        # Arrow's tables and batches are pickled as arrays, and these with all of the buffers that they lie in.
        if isinstance(obj, pa.Array) and 2 * data_bytes(obj) < obj.get_total_buffer_size():
            return pa.concat_arrays([obj]).__reduce__()  # which copies
        if isinstance(obj, CodeType):
            # cloudpickle 3.1.3 leaves the file out (its #560), and with it the user's own lines out of tracebacks.
            make, parts = self.dispatch_table[CodeType](obj)
            return _code_of_file, (obj.co_filename, make, parts)
        return super().reducer_override(obj)


def _code_of_file(name: str, make: Callable[..., CodeType], parts: tuple[Any, ...]) -> CodeType:
    return make(*parts).replace(co_filename=name)
