"""Lines of CSV: what is within quotes, what stands behind the last value, and how numbers are written."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray import CsvFormat, JsonFormat

LINES = CsvFormat({"a": str, "b": str})


def messages(*each: bytes) -> pa.Array:
    return pa.array(each, pa.large_binary())


@pytest.mark.parametrize("lines", [LINES, CsvFormat({"a": str, "b": str}, "|", "'", "\\")])
@given(rows=st.lists(st.tuples(*2 * [st.text("ant0,|\"\\'\n\r", min_size=1, max_size=5)]), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_a_quoted_value_may_hold_line_breaks(lines: CsvFormat, rows: list[tuple[str, str]]) -> None:
    batch = pa.RecordBatch.from_pylist([{"a": a, "b": b} for a, b in rows], schema=lines.record_type.schema)
    written = lines.encode(batch)
    assert lines.decode(written).equals(batch)
    # As lines of a file they are put together again.
    text = b"\n".join(written.to_pylist())
    found, begun = lines.rows(pa.array(text.split(b"\n"), pa.large_binary()))
    assert found.to_pylist() == written.to_pylist()
    assert begun is None


def test_what_is_no_quoted_value_ends_with_its_line() -> None:
    lines = [b'5" pipe,1', b'"a" b,2', b'"c', b'",d', b'"e""', b"f,3"]
    found, begun = LINES.rows(messages(*lines))
    assert found.to_pylist() == [b'5" pipe,1', b'"a" b,2', b'"c\n",d']
    assert begun == b'"e""\nf,3'
    with pytest.raises(ValueError, match="a quoted value does not end"):
        LINES.decode(messages(b'"a\n,b'))
    with pytest.raises(ValueError, match="more than one line"):
        LINES.decode(messages(b"a,b\nc,d"))


def test_a_delimiter_may_stand_behind_the_last_value() -> None:
    read = LINES.decode(messages(b"1,2,", b"3,", b'"4,",5,', b'6,"7,"', b'"",,')).to_pylist()
    assert [(row["a"], row["b"]) for row in read] == [("1", "2"), ("3", None), ("4,", "5"), ("6", "7,"), ("", None)]
    assert CsvFormat({"a": int, "b": int}, "|", escape="\\").decode(messages(b"1|2|")).to_pylist() == [{"a": 1, "b": 2}]
    for line in (b"1,2,,", b"1,2,3", b"1"):
        with pytest.raises(ValueError, match="Expected 2 columns"):
            LINES.decode(messages(line))


def test_letters_behind_an_escape_are_the_characters_that_they_are_in_flink() -> None:
    for quote in ('"', None):
        lines = CsvFormat({"a": str, "b": str}, escape="\\", quote=quote)
        read = lines.decode(messages(rb"x\ny,\t\r\0", rb"\\n,\\\n", rb"\N,\b\,c\\")).to_pylist()
        assert [(row["a"], row["b"]) for row in read] == [("x\ny", "\t\r\0"), ("\\n", "\\\n"), ("N", "b,c\\")]
        with pytest.raises(ValueError, match=r"behind the last .* is nothing: b'x,y"):
            lines.decode(messages(b"a,b", rb"x,y\\\ ".rstrip()))
    assert CsvFormat({"a": str}, escape="^").decode(messages(b'"x^ny^r"')).to_pylist() == [{"a": "x\ny\r"}]
    assert LINES.decode(messages(rb"x\ny,\t")).to_pylist() == [{"a": r"x\ny", "b": r"\t"}]


def test_whole_numbers_may_have_a_plus() -> None:
    lines = CsvFormat({"a": int, "b": str}, bad_values="null")
    assert lines.decode(messages(b"+7,+7", b"++7,a")).to_pylist() == [{"a": 7, "b": "+7"}, {"a": None, "b": "a"}]


def test_numbers_are_written_as_flink_reads_them() -> None:
    digits = pa.decimal128(20, 10)
    written = {
        "d": [Decimal("1E-7"), Decimal(0), Decimal("-1E-10"), None],
        "x": [float("nan"), float("-inf"), 0.5, None],
    }
    data = pa.record_batch({"d": pa.array(written["d"], digits), "x": pa.array(written["x"], pa.float64())})
    decimals = ["0.0000001000", "0.0000000000", "-0.0000000001"]
    texts = [*zip(decimals, ["NaN", "-Infinity", "0.5"], strict=True), ("", "")]
    assert CsvFormat(data.schema).encode(data).to_pylist() == [f"{d},{x}".encode() for d, x in texts]
    assert [each.as_py() for each in JsonFormat().encode(data.select(["d"]))][:3] == [
        f'{{"d":{each}}}'.encode() for each in decimals
    ]
    wide = pa.record_batch({"d": pa.array([Decimal("1E-30")], pa.decimal256(50, 40))})
    assert CsvFormat(wide.schema).encode(wide).to_pylist() == [b"0.0000000000000000000000000000010000000000"]


def test_structs_of_csv_have_a_delimiter_between_fields() -> None:
    person = pa.struct({"age": pa.int32(), "name": pa.string(), "born": pa.date32()})
    schema = pa.schema({"n": pa.int64(), "who": person})
    rows = [
        {"n": 1, "who": {"age": 7, "name": "x,y", "born": datetime.date(2024, 2, 29)}},
        {"n": 2, "who": {"age": None, "name": "", "born": None}},
        {"n": 3, "who": None},
    ]
    lines = CsvFormat(schema)
    written = lines.encode(pa.RecordBatch.from_pylist(rows, schema=schema))
    assert written.to_pylist() == [b'1,"7;x,y;2024-02-29"', b"2,;;", b"3,"]
    assert lines.decode(written).to_pylist() == rows
    assert lines.decode(messages(b"1,7;x;2024-02-29;left over")).to_pylist()[0]["who"]["name"] == "x"
    with pytest.raises(ValueError, match="column 'who': 3 fields are declared, and not in '7;x'"):
        lines.decode(messages(b"1,7;x"))
    nulls = CsvFormat(schema, bad_values="null")
    assert nulls.decode(messages(b"1,7;x", b"2,seven;x;y")).to_pylist() == [
        {"n": 1, "who": {"age": 7, "name": "x", "born": None}},
        {"n": 2, "who": {"age": None, "name": "x", "born": None}},
    ]
    for name, reason in (("a;b", "'a;b' has ';' in it"), (None, "'name': None.* would be read as .*'name': ''")):
        row = {"n": 1, "who": {"age": 7, "name": name, "born": None}}
        with pytest.raises(ValueError, match=f"column 'who': .*{reason}"):
            lines.encode(pa.RecordBatch.from_pylist([row], schema=schema))
    literal = CsvFormat(schema, null_text="-", element_delimiter="|")
    row = {"n": 1, "who": {"age": None, "name": None, "born": None}}
    assert literal.encode(pa.RecordBatch.from_pylist([row], schema=schema)).to_pylist() == [b"1,-|-|-"]
    assert literal.decode(messages(b"1,-|-|-", b"2,")).to_pylist() == [row, {"n": 2, "who": None}]


def test_an_escape_that_is_the_quote_is_a_quote_that_is_doubled() -> None:
    lines = CsvFormat({"a": str, "b": str}, escape='"')
    read = lines.decode(messages(b'"name","n""t"', b'a,"x\ny"'))
    assert read.to_pylist() == [{"a": "name", "b": 'n"t'}, {"a": "a", "b": "x\ny"}]
    assert lines.encode(read).to_pylist() == [b'name,"n""t"', b'a,"x\ny"']
