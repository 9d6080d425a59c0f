"""Small files that are read as one split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from flinkray.batch import FEW_ROWS
from flinkray.connectors.file_formats import FileSplit

_GROUP_BYTES = 1 << 20
_MOST_FILES = 64
_SPLITS_PER_SUBTASK = 16
"""At least so many are left of files, which each subtask asks for as it comes to them, so that all end together."""
_LONGEST_MS = 20
"""Rows that were read are not kept for those of further files when so much time has passed."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that are read one after another. Asking for a split takes many times as long as reading a small one."""

    split_id: str
    files: tuple[FileSplit, ...]
    """The first may have been read in part, or to its end."""

    def after(self, position: int, file: FileSplit) -> FileGroup:
        """When of the file at `position` only `file` is left to be read."""
        return replace(self, files=(file, *self.files[position + 1 :]))


def grouped(splits: Sequence[tuple[FileSplit, int | None]], parallelism: int) -> list[FileSplit | FileGroup]:
    """The splits, in their order; small files that follow each other together, where there are many.

    Args:
        splits: each with its bytes; None: it is a part of a file, or nobody knows.
    """
    most = min(_MOST_FILES, len(splits) // (_SPLITS_PER_SUBTASK * parallelism))
    found: list[FileSplit | FileGroup] = []
    group: list[FileSplit] = []
    room = _GROUP_BYTES
    for split, nbytes in splits:
        size = _GROUP_BYTES if nbytes is None else nbytes
        if group and (len(group) >= most or size > room):
            found.append(_as_one(group))
            group, room = [], _GROUP_BYTES
        group.append(split)
        room -= size
    return [*found, _as_one(group)] if group else found


def _as_one(group: list[FileSplit]) -> FileSplit | FileGroup:
    return group[0] if len(group) == 1 else FileGroup(f"{group[0].split_id} and {len(group) - 1} more", tuple(group))


def together(
    batches: Iterable[tuple[pa.RecordBatch, FileGroup]], batch_rows: int, now_ms: Callable[[], int]
) -> Iterator[tuple[pa.RecordBatch, FileGroup]]:
    """The same rows, those of small batches in fewer ones, each with what is left after its last row. What reading
    raises comes behind the rows that were read before."""
    enough = min(FEW_ROWS, batch_rows)
    few: list[pa.RecordBatch] = []
    rows = nbytes = began = 0
    left: FileGroup | None = None

    def taken() -> Iterator[tuple[pa.RecordBatch, FileGroup]]:
        nonlocal rows, nbytes
        if left is not None and few:
            yield pa.concat_batches(few), left
            few.clear()
            rows = nbytes = 0

    try:
        for data, after in batches:
            size = data.nbytes
            if rows + data.num_rows > enough or nbytes + size > _GROUP_BYTES:
                yield from taken()
            if not few:
                began = now_ms()
            few.append(data)
            rows, nbytes = rows + data.num_rows, nbytes + size
            left = after
            if rows >= enough or nbytes >= _GROUP_BYTES or now_ms() - began >= _LONGEST_MS:
                yield from taken()
    except Exception:
        yield from taken()
        raise
    yield from taken()
