"""Files that appear while a job reads them: a directory is listed again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from flinkray.connectors.fetcher import AWAY_S, Patience
from flinkray.connectors.files.formats import FileSplit
from flinkray.connectors.files.paths import FoundFile
from flinkray.connectors.files.small_files import FileGroup, grouped
from flinkray.connectors.files.storage import explained
from flinkray.connectors.source import SplitEnumeratorContext
from flinkray.connectors.split_list import SplitQueueEnumerator
from flinkray.errors import ConnectorError

log = logging.getLogger(__name__)

_UNFINISHED = (".tmp", ".inprogress", "._COPYING_")
"""What the names of files end with that programs are known to rename once they are written."""


class MonitoredFiles(Struct, frozen=True):
    """The files that were found and are still there, each with the time of its last change in ns, and the splits of
    them that no reader has."""

    found: dict[str, int]
    waiting: tuple[FileSplit | FileGroup, ...]


class FileMonitor(SplitQueueEnumerator[FileSplit | FileGroup]):
    """Finds files over time, and cuts each once, whatever becomes of it later; the oldest come first.

    Flink remembers the path of every file that there ever was. Here one is forgotten when a listing no longer has it,
    so that state is as large as the directory; what comes back under that name is another file. A listing without any
    file of one of the places forgets nothing, since the place may be away for a moment.

    Args:
        places: each lists the files that there are now at one of the source's paths.
        cut: the splits of a file, each with its bytes as in `grouped`; None: it is gone again.
        restored: what the former enumerator knew; None: nothing.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext,
        places: Sequence[Callable[[], list[FoundFile]]],
        cut: Callable[[FoundFile], list[tuple[FileSplit, int | None]] | None],
        interval_ms: int,
        restored: MonitoredFiles | None = None,
    ) -> None:
        super().__init__(context, () if restored is None else restored.waiting, finds_more=True)
        self._places = places
        self._cut = cut
        self._interval_ms = interval_ms
        self._patience = Patience(lambda _: None, lambda: context.now_ms() / 1000)
        self._found = {} if restored is None else dict(restored.found)

    def start(self) -> None:
        self._look()

    def snapshot_state(self, checkpoint_id: int) -> MonitoredFiles:
        return MonitoredFiles(dict(self._found), tuple(self._waiting))

    def _look(self) -> None:
        """Lists the files, now and after each interval."""
        try:
            listed = [place() for place in self._places]
        except OSError as error:  # of a network, say; the next listing finds what this one would have found
            if not self._patience.asks_again():
                raise ConnectorError(
                    f"cannot list files, also {AWAY_S:.0f} s after the first try: {explained(error)}"
                ) from error
            log.warning("cannot list files, which is tried again in %d ms: %s", self._interval_ms, error)
        else:
            self._patience.answered()
            self._take(listed)
        self._context.call_later(self._interval_ms, self._look)

    def _take(self, listed: Sequence[Sequence[FoundFile]]) -> None:
        # What is empty may be written yet.
        files = {
            file.path: file
            for found in listed
            for file in found
            if file.size != 0 and not file.path.endswith(_UNFINISHED)
        }
        if all(listed):
            self._found = {path: mtime_ns for path, mtime_ns in self._found.items() if path in files}
        splits: list[tuple[FileSplit, int | None]] = []
        for file in sorted(files.values(), key=lambda file: (file.mtime_ns, file.path)):
            if file.path in self._found:
                self._look_for_change(file)
            elif (parts := self._cut(file)) is not None:
                splits.extend(parts)
                self._found[file.path] = file.mtime_ns
        self._add(grouped(splits, self._context.parallelism))

    def _look_for_change(self, file: FoundFile) -> None:
        if self._found[file.path] != file.mtime_ns:
            self._found[file.path] = file.mtime_ns
            log.warning(
                "%s has changed since it was found, and is not read again: what is new comes as a file of a new name. "
                "Give each version one of its own; if it was found half written, write files under a name that begins "
                "with a dot and rename them when they are whole",
                file.path,
            )
