"""The logs of several processes as one, in the order of time."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator

_TIME = re.compile(r'(?:\{"time": ")?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)')

_NOTES_OF_RAY = (":job_id:", ":actor_name:", ":task_name:")


def merged(texts: Iterable[str]) -> str:
    """The lines of all texts by their times. What has none, such as a traceback or what was printed, stays behind the
    line that it followed; what Ray notes there for itself is left out.

    Args:
        texts: each as a process has written it, perhaps only its end.
    """
    entries = heapq.merge(*map(_entries, texts), key=lambda entry: entry[0])
    return "".join(text for _, text in entries)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """(time, lines): a line with a time, and those that follow without one."""
    at, lines = "", list[str]()
    for line in text.splitlines(keepends=True):
        if line.startswith(_NOTES_OF_RAY):
            continue
        if found := _TIME.match(line):
            # What is older than the line before it was late, and moves no line that is in order.
            if lines:
                yield at, "".join(lines)
            at, lines = max(at, found[1]), []
        lines.append(line if line.endswith("\n") else f"{line}\n")
    if lines:
        yield at, "".join(lines)
