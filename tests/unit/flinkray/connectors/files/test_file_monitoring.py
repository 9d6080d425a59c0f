"""Files that appear while they are read: each once, the oldest first, and only when it is whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from flinkray import FileSource, InvalidProgramError
from flinkray.connectors.source import Boundedness
from flinkray.connectors.split_list import SplitListEnumerator
from flinkray.pyflink.common import Duration
from flinkray.pyflink.datastream.connectors.file_system import FileSource as PyFlinkSource
from flinkray.pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
from flinkray.pyflink.table import DataTypes
from flinkray.tables.connectors import filesystem
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table, TableColumn
from flinkray.tables.types.logical import BIGINT
from tests.support.api import Assignments

COLUMNS = pa.schema({"n": pa.int64()})


class Listings(Assignments):
    """Readers that take each split at once, and the timer of the next listing."""

    def __init__(self, source: FileSource, restored: Any = None) -> None:
        super().__init__()
        shipped = cloudpickle.loads(cloudpickle.dumps(source.prepare()))
        self.enumerator = shipped.create_enumerator(self, restored)
        self.enumerator.start()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        assert delay_ms == 10_000
        self.next_listing = callback

    def taken(self) -> list[str]:
        """The names of the files whose splits were given since the last call, and can be now, in order."""
        count = -1
        while len(self.assigned.get(0, ())) > count:
            count = len(self.assigned.get(0, ()))
            self.enumerator.handle_split_request(0)
        return [Path(split.path).name for split in self.assigned.pop(0, ())]

    def listed(self) -> list[str]:
        self.next_listing()
        return self.taken()

    def restored(self, source: FileSource) -> Listings:
        return Listings(source, cloudpickle.loads(cloudpickle.dumps(self.enumerator.snapshot_state(1))))


def watched(directory: Path) -> FileSource:
    return FileSource(directory, "csv", COLUMNS, monitor="10 s")


def put(path: Path, mtime: int, text: str = "n\n1\n") -> None:
    path.write_text(text)
    os.utime(path, (mtime, mtime))


def test_each_file_is_read_once_the_oldest_first_and_again_only_after_it_was_gone(tmp_path: Path) -> None:
    source = watched(tmp_path)
    assert source.boundedness is Boundedness.UNBOUNDED
    put(tmp_path / "b", 1)
    put(tmp_path / "a", 2)
    listings = Listings(source)
    assert listings.taken() == ["b", "a"]
    put(tmp_path / "d", 3)
    put(tmp_path / "c", 3)
    assert listings.listed() == ["c", "d"]
    listings = listings.restored(source)
    assert listings.taken() == listings.listed() == []
    (tmp_path / "a").unlink()
    assert listings.listed() == []
    put(tmp_path / "a", 5)
    assert listings.restored(source).taken() == ["a"]


def test_what_was_found_and_not_read_is_in_the_state(tmp_path: Path) -> None:
    put(tmp_path / "a", 1)
    listings = Listings(watched(tmp_path))
    assert listings.restored(watched(tmp_path)).taken() == ["a"]
    state = listings.enumerator.snapshot_state(1)
    once = FileSource(tmp_path, "csv", COLUMNS)
    assert isinstance(once.create_enumerator(Assignments(), state), SplitListEnumerator)
    before = once.prepare().create_enumerator(Assignments()).snapshot_state(1)
    with pytest.raises(InvalidProgramError, match="another uid"):
        Listings(watched(tmp_path), before)


def test_what_is_being_written_waits_and_what_changes_is_not_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listings = Listings(watched(tmp_path))
    for name in (".a", "_a", "a.tmp", "a.inprogress", "a._COPYING_"):
        put(tmp_path / name, 1)
    put(tmp_path / "empty", 1, text="")
    assert listings.listed() == []
    (tmp_path / "a.tmp").rename(tmp_path / "a")
    put(tmp_path / "empty", 2)
    assert listings.listed() == ["a", "empty"]
    put(tmp_path / "a", 3)
    assert [listings.listed(), listings.listed()] == [[], []]
    assert caplog.text.count("is not read again: what is new comes as a file of a new name") == 1


def test_a_place_that_is_away_for_a_while_is_not_read_again(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    put(place / "a", 1)
    listings = Listings(watched(place))
    assert listings.taken() == ["a"]
    place.rename(tmp_path / "other")
    assert listings.listed() == []
    (tmp_path / "other").rename(place)
    assert listings.listed() == []


def test_a_listing_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    listings = Listings(watched(tmp_path))
    put(tmp_path / "a", 1)
    places = listings.enumerator._places

    def failing() -> Any:
        raise OSError("no network")

    listings.enumerator._places = [failing]
    assert listings.listed() == []
    assert "no network" in caplog.text
    listings.enumerator._places = places
    assert listings.listed() == ["a"]


def test_pyflink_and_sql_watch_directories_too(tmp_path: Path) -> None:
    columns = CsvReaderFormat.for_schema(CsvSchema.builder().add_number_column("n", DataTypes.BIGINT()).build())
    builder = PyFlinkSource.for_record_stream_format(columns, str(tmp_path))
    assert builder.build().boundedness is Boundedness.BOUNDED
    source = builder.monitor_continuously(Duration.of_seconds(10)).build()
    table = Table(("c", "d", "t"), (TableColumn("n", BIGINT),))
    of_table = filesystem.CONNECTOR.source
    assert of_table is not None
    options = {"path": str(tmp_path), "format": "csv", "source.monitor-interval": "10 s"}
    for watching in (source, of_table(table, ConnectorOptions("t", options)).source):
        assert isinstance(watching, FileSource)
        (tmp_path / "a").unlink(missing_ok=True)
        listings = Listings(watching)
        put(tmp_path / "a", 1)
        assert listings.listed() == ["a"]


@pytest.mark.parametrize("monitor", [0, -1, "soon"])
def test_an_interval_is_a_duration_of_a_millisecond_at_least(tmp_path: Path, monitor: Any) -> None:
    with pytest.raises(ValueError, match=r"monitor"):
        FileSource(tmp_path, monitor=monitor)
