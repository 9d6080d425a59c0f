"""What a table demands of the rows that are written into it."""

from __future__ import annotations

from typing import Any

import pytest

from actors.operators.tables.constraints import ConstraintsOperator
from flinkray.errors import RecordError
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import BINARY, CHAR, INT, ROW, VARBINARY, VARCHAR
from flinkray.transformations.table_factories import ConstraintsFactory
from flinkray.types.changelogs import Changes
from tests.support.operators import OperatorHarness
from tests.support.tables import Change, changes_as_batch

ROWS = ROW(("i", INT.not_null()), ("c", CHAR(3)), ("v", VARCHAR(3)), ("b", BINARY(3)), ("w", VARBINARY(3)))
ALL = Changes(updates=True, deletes=True)


def written(changes: list[Change], **options: Any) -> list[Change]:
    made = ConstraintsFactory(
        **{
            "input_rows": (ROWS,),
            "rows": ROWS,
            "takes": (ALL,),
            "gives": ALL,
            "table": "t",
            "not_null": (0,),
            "drops": False,
            "lengths": (),
            "trims": False,
            **options,
        }
    )
    with OperatorHarness(ConstraintsOperator(made)) as harness:
        harness.push(changes_as_batch(changes, stored_schema(ROWS)))
        return [
            (kind, tuple(row.values()))
            for batch in harness.output.batches
            for kind, row in zip(batch.row_kinds.to_pylist(), batch.data.to_pylist(), strict=True)
        ]


LONG = ("abçde", "abçde", b"abcde", b"abcde")
SHORT = ("ç", "ç", b"a", b"a")
FITTING = ("abç", "ç", b"abc", b"a")
NULLS = (None,) * 4


def test_null_is_an_error_or_its_row_is_left_out() -> None:
    rows: list[Change] = [(0, (1, *LONG)), (1, (None, *SHORT)), (2, (3, *NULLS))]
    assert written(rows, drops=True) == [rows[0], rows[2]]
    with pytest.raises(RecordError, match=r"table 't': a row has NULL in column 'i', which is NOT NULL.*'DROP'"):
        written(rows)
    assert written(rows[:1]) == rows[:1]


def test_a_row_that_goes_by_its_key_may_be_null_beside_it() -> None:
    rows: list[Change] = [(0, (1, *FITTING)), (3, (None, *NULLS))]
    assert written(rows, deletes_by_key=True) == rows
    assert written([*rows, (2, (None, *NULLS))], deletes_by_key=True, drops=True) == rows


def test_values_are_cut_and_filled_up_to_their_length() -> None:
    rows: list[Change] = [(0, (1, *LONG)), (2, (2, *SHORT)), (3, (3, *NULLS)), (0, (4, *FITTING))]
    found = written(rows, lengths=(1, 2, 3, 4), trims=True)
    assert found == [
        (0, (1, "abç", "abç", b"abc", b"abc")),
        (2, (2, "ç  ", "ç", b"a\0\0", b"a")),
        (3, (3, *NULLS)),
        (0, (4, *FITTING)),
    ]


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_another_length_is_an_error(place: int) -> None:
    with pytest.raises(
        RecordError, match=rf"column '{ROWS.names[place]}' is .*\(3\), and values have lengths of 5 to 5"
    ):
        written([(0, (1, *LONG))], lengths=(place,))
    assert len(written([(0, (1, *FITTING)), (0, (1, *NULLS))], lengths=(1, 2, 3, 4))) == 2
