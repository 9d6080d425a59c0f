"""Files whose lines are messages: rows that have several lines, none at all, or are comments."""

from __future__ import annotations

import gzip
import itertools
import lzma
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

import flinkray.connectors.files.formats
import flinkray.connectors.files.message_lines
from flinkray import CsvFormat, FileSource, JsonFormat, RawFormat, RecordError
from flinkray.connectors.files.formats import FileSplit
from flinkray.connectors.files.message_lines import MessageLines
from tests.support.api import rows_of
from tests.support.files import read, splits_of

ROWS = CsvFormat({"n": int, "t": str})


def rows(source: FileSource) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in rows_of(read(source))]


@pytest.mark.parametrize("read_bytes", [1, 7, 64])
def test_a_quoted_line_break_is_part_of_a_value_wherever_reading_begins(
    tmp_path: Path, read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", read_bytes)
    monkeypatch.setattr(flinkray.connectors.files.formats, "_RANGE_BYTES", 10)
    texts = ["a", "b\nc", '"\n"', "\n\n\n", "\r\nd", "e" * 50 + "\n", 'f"']
    written = [b'%d,"%s"' % (n, text.replace('"', '""').encode()) for n, text in enumerate(texts)]
    (tmp_path / "a").write_bytes(b"\n".join(written))
    (split,) = splits_of(FileSource(tmp_path / "a", ROWS))
    format, found = MessageLines(ROWS), []
    while read_now := list(itertools.islice(format.read(split, ROWS.record_type.schema, 2), 1)):
        ((data, split),) = read_now
        found += data.column("t").to_pylist()
    assert found == texts


def test_a_value_whose_quote_does_not_end_is_one_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text('1,a\n2,"b\n3,c\n')
    with pytest.raises(RecordError, match="a quoted value does not end"):
        rows(FileSource(tmp_path / "a", ROWS))
    assert rows(FileSource(tmp_path / "a", ROWS, bad_lines="skip")) == [(1, "a")]
    # What is too long is not waited for.
    with (tmp_path / "a").open("a") as file:
        file.write("4,d\n")
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 5)
    monkeypatch.setattr(flinkray.connectors.files.message_lines, "_LONGEST_ROW", 8)
    assert rows(FileSource(tmp_path / "a", ROWS, bad_lines="skip")) == [(1, "a"), (4, "d")]


def test_without_quotes_a_file_has_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_RANGE_BYTES", 4)
    (tmp_path / "a").write_text('1,"a\n2,b\n')
    source = FileSource(tmp_path / "a", CsvFormat({"n": int, "t": str}, quote=None))
    assert len(splits_of(source)) == 3
    assert rows(source) == [(1, '"a'), (2, "b")]


def test_an_empty_line_is_the_row_of_a_column_that_is_null(tmp_path: Path) -> None:
    lines = CsvFormat({"t": str})
    data = {"t": ["a", None, "", "b", None]}
    batch = pa.record_batch(data, schema=lines.record_type.schema)
    (tmp_path / "a").write_bytes(b"".join(line + b"\n" for line in lines.encode(batch).to_pylist()))
    assert rows(FileSource(tmp_path / "a", lines)) == [(text,) for text in data["t"]]
    (tmp_path / "a").write_text("1,a\n\n2,b\n")
    assert rows(FileSource(tmp_path / "a", ROWS)) == [(1, "a"), (2, "b")]


def test_a_comment_may_begin_with_spaces(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("#0,x\n1,#a\n  # 2,b\n")
    assert rows(FileSource(tmp_path / "a", ROWS, comments=True)) == [(1, "#a")]


@pytest.mark.parametrize("read_bytes", [1, 7, 64])
def test_a_quote_in_a_comment_is_none(tmp_path: Path, read_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", read_bytes)
    (tmp_path / "a").write_text('#a,"b\n1,x\n2,y\n3,"z\n# in it\n"\n #"\n4,"w"\n')
    expected = [(1, "x"), (2, "y"), (3, "z\n# in it\n"), (4, "w")]
    assert rows(FileSource(tmp_path / "a", ROWS, comments=True)) == expected


@pytest.mark.parametrize(("format", "text"), [(ROWS, "1,a\n"), ("csv", "n,t\n1,a\n"), ("json", '{"n":1,"t":"a"}\n')])
def test_what_was_compressed_with_xz_or_zlib_is_decompressed(tmp_path: Path, format: Any, text: str) -> None:
    for suffix, compress in (("xz", lzma.compress), ("deflate", zlib.compress)):
        (tmp_path / f"a.{suffix}").write_bytes(compress(text.encode()))
        assert rows(FileSource(tmp_path / f"a.{suffix}", format)) == [(1, "a")]


@pytest.mark.parametrize(
    ("suffix", "compress"), [("gz", gzip.compress), ("xz", lzma.compress), ("deflate", zlib.compress)]
)
def test_reading_goes_on_in_the_middle_of_what_is_compressed(
    suffix: str, compress: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 100)
    file = tmp_path / f"a.{suffix}"
    file.write_bytes(compress("".join(f"{n},a\n" for n in range(200)).encode()))
    lines = MessageLines(ROWS)
    whole = FileSplit("", str(file), fs.LocalFileSystem())
    read = list(lines.read(whole, ROWS.record_type.schema, 7))
    done = 0
    for batch, left in read:
        done += batch.num_rows
        rest = [n for data, _ in lines.read(left, ROWS.record_type.schema, 7) for n in data.column(0).to_pylist()]
        assert rest == [*range(done, 200)]


def test_streams_of_zlib_are_read_one_behind_the_other_and_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", 100)
    file = tmp_path / "a.csv.deflate"
    parts = ["".join(f"{n},{n % 7}\n" for n in range(start, start + 3_000)) for start in (0, 3_000)]
    parts.append("".join("6000,0\n" for _ in range(9_000)))  # of which few bytes make many
    whole = b"".join(zlib.compress(part.encode()) for part in parts)
    file.write_bytes(whole)
    assert [n for n, _ in rows(FileSource(file, ROWS))] == [*range(6_000), *[6_000] * 9_000]
    for bad, reason in ((whole[:-3], "ends too early"), (b"no zlib", "cannot be read: .*incorrect header")):
        file.write_bytes(bad)
        with pytest.raises(RecordError, match=f"a.csv.deflate.*: what is compressed {reason}"):
            rows(FileSource(file, ROWS))


@pytest.mark.parametrize(("charset", "letter"), [("latin-1", "é"), ("gb18030", "ß"), ("gb18030", "é"), ("utf-8", "é")])
@pytest.mark.parametrize("read_bytes", [7, 64, 200])
def test_rows_of_several_lines_keep_their_places_in_each_charset(
    charset: str, letter: str, read_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinkray.connectors.files.formats, "_READ_BYTES", read_bytes)
    line = letter * 20
    written = "".join(f'{n},{letter}\n{n},"{line}\n{line}\n{letter}"\n' for n in range(20)) + f'20,"{line}\n{letter}"'
    (tmp_path / "a").write_bytes(written.encode(charset))
    source = FileSource(tmp_path / "a", ROWS, charset=charset)
    (split,) = splits_of(source)
    format = source.prepare()._format()
    found, places = [], [(0, split)]
    for data, after in format.read(split, ROWS.record_type.schema, 2):
        found += data.to_pylist()
        places.append((len(found), after))
    assert len(found) == 41
    assert [row["t"] for row in found[-2:]] == [f"{line}\n{line}\n{letter}", f"{line}\n{letter}"]
    for count, place in places:
        read_on = [row for data, _ in format.read(place, ROWS.record_type.schema, 2) for row in data.to_pylist()]
        assert read_on == found[count:]


def test_an_array_that_goes_on_in_the_next_line_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('[\n{"n":1},\n{"n":2}\n]\n')
    with pytest.raises(RecordError, match="an array is on one line, and this one is not: b'\\['"):
        rows(FileSource(tmp_path / "a", JsonFormat({"n": int})))


def test_what_is_no_text_may_begin_as_utf_16_does(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfea\nb\n")
    assert FileSource(tmp_path / "a", RawFormat(bytes)).read_all().column(0).to_pylist() == [b"\xff\xfea", b"b"]
    for source in (
        FileSource(tmp_path / "a", RawFormat(str, "latin-1")),
        FileSource(tmp_path / "a", "text", charset="latin-1"),
    ):
        assert source.read_all().column(0).to_pylist() == ["ÿþa", "b"]
    with pytest.raises(RecordError, match="it is text of UTF-16"):
        FileSource(tmp_path / "a", RawFormat(str)).read_all()
