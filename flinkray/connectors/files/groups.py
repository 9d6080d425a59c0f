"""Small files that are read as one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinkray.connectors.files.formats import FileSplit

_GROUP_BYTES = 1 << 20
_MOST_FILES = 64
_SPLITS_PER_SUBTASK = 16
"""At least so many are left of files, which each subtask asks for as it comes to them, so that all end together."""


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
