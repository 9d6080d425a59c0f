"""Small files that are read as one split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinkray.connectors.files.formats import FileSplit

_GROUP_BYTES = 1 << 20
"""A group has no more bytes."""
_MOST_FILES = 64
"""A group has no more files."""
_SPLITS_PER_SUBTASK = 16
"""At least so many splits per subtask are left after grouping, so that all subtasks end at about the same time."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """A split of several files that are read one after another: asking for a split takes far longer than reading a
    small file."""

    split_id: str
    files: tuple[FileSplit, ...]
    """The files that are left, in order; the first may have been read in part, or to its end."""

    def after(self, position: int, file: FileSplit) -> FileGroup:
        """The group when of the file at `position` only `file` is left to be read, and what comes before is read."""
        return replace(self, files=(file, *self.files[position + 1 :]))


def grouped(splits: Sequence[tuple[FileSplit, int | None]], parallelism: int) -> list[FileSplit | FileGroup]:
    """The splits in their order, with small files that follow each other grouped, where there are many.

    Args:
        splits: each with its bytes; None: it is a part of a file, or its size is not known.
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
