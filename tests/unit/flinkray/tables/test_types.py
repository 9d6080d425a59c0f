"""Types of SQL: how they are written, what holds them, what they have in common, and what becomes what."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkray.tables.types.arrow import from_arrow, from_arrow_schema, to_arrow, to_arrow_schema
from flinkray.tables.types.casts import can_cast, can_cast_implicitly
from flinkray.tables.types.common import Meeting, common_type
from flinkray.tables.types.logical import (
    ARRAY,
    BIGINT,
    BINARY,
    BOOLEAN,
    BYTES,
    CHAR,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    MAP,
    MULTISET,
    NULL,
    RAW,
    ROW,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
    VARBINARY,
    VARCHAR,
    LogicalType,
    TimeAttribute,
)

PLAIN = [BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BYTES, DATE]
SIZED = [DECIMAL(10, 2), DECIMAL(38, 38), TIME(0), TIME(3), TIME(6), TIME(9)]
STAMPS = [make(digits) for make in (TIMESTAMP, TIMESTAMP_LTZ) for digits in (0, 3, 6, 9)]
ATOMS = st.sampled_from([*PLAIN, *SIZED, *STAMPS])

CALM = settings(deadline=None, max_examples=40)
"""An example may take long where the machine is busy."""


def nullable_or_not(atoms: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    return st.builds(LogicalType.with_nullability, atoms, st.booleans())


TYPES: st.SearchStrategy[LogicalType] = st.recursive(
    nullable_or_not(ATOMS),
    lambda inner: nullable_or_not(
        st.one_of(
            st.builds(ARRAY, inner),
            st.builds(lambda key, value: MAP(key.not_null(), value), inner, inner),
            st.lists(inner, min_size=1, max_size=3).map(
                lambda types: ROW(*((f"f{i}", t) for i, t in enumerate(types)))
            ),
        )
    ),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("logical_type", "text"),
    [
        (BIGINT.not_null(), "BIGINT NOT NULL"),
        (DECIMAL(10, 2), "DECIMAL(10, 2)"),
        (CHAR(3).not_null(), "CHAR(3) NOT NULL"),
        (VARCHAR(9), "VARCHAR(9)"),
        (STRING, "STRING"),
        (BINARY(2), "BINARY(2)"),
        (VARBINARY(7), "VARBINARY(7)"),
        (BYTES, "BYTES"),
        (TIME(3), "TIME(3)"),
        (TIMESTAMP(3).as_attribute(TimeAttribute.ROWTIME), "TIMESTAMP(3) *ROWTIME*"),
        (
            TIMESTAMP_LTZ(3).not_null().as_attribute(TimeAttribute.PROCTIME),  # type: ignore[attr-defined]
            "TIMESTAMP_LTZ(3) NOT NULL *PROCTIME*",
        ),
        (INTERVAL("MONTH").not_null(), "INTERVAL MONTH NOT NULL"),
        (INTERVAL("SECOND", fraction=3), "INTERVAL SECOND(3)"),
        (INTERVAL("YEAR", "MONTH"), "INTERVAL YEAR(2) TO MONTH"),
        (INTERVAL("DAY", "SECOND", 3, 6), "INTERVAL DAY(3) TO SECOND(6)"),
        (INTERVAL("HOUR", "MINUTE"), "INTERVAL HOUR TO MINUTE"),
        (ARRAY(INT.not_null()), "ARRAY<INT NOT NULL>"),
        (MAP(STRING, ARRAY(INT)).not_null(), "MAP<STRING, ARRAY<INT>> NOT NULL"),
        (MULTISET(INT), "MULTISET<INT>"),
        (ROW(("a", INT), ("b`c", STRING.not_null())), "ROW<`a` INT, `b``c` STRING NOT NULL>"),
        (NULL, "NULL"),
        (RAW("Price"), "RAW('Price', ?)"),
    ],
)
def test_types_are_written_as_flink_writes_them(logical_type: LogicalType, text: str) -> None:
    assert str(logical_type) == text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DECIMAL(39, 2), "DECIMAL has a precision of 1 to 38, not 39"),
        (lambda: DECIMAL(5, 6), r"DECIMAL\(5\) has a scale of 0 to 5, not 6"),
        (lambda: TIMESTAMP(10), "TIMESTAMP has a precision of 0 to 9, not 10"),
        (lambda: CHAR(-1), "CHAR has a length of 1 to 2147483647, not -1"),
    ],
)
def test_a_type_refuses_a_size_it_cannot_have(make: Callable[[], LogicalType], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@CALM
@given(TYPES)
def test_a_type_comes_back_from_the_arrow_type_that_holds_it(logical_type: LogicalType) -> None:
    row = ROW(("c", logical_type))
    assert from_arrow_schema(to_arrow_schema(row)) == row


@pytest.mark.parametrize(
    ("arrow_type", "logical_type"),
    [
        (pa.uint8(), SMALLINT),
        (pa.uint64(), DECIMAL(20, 0)),
        (pa.large_string(), STRING),
        (pa.binary(4), BINARY(4)),
        (pa.dictionary(pa.int32(), pa.string()), STRING),
        (pa.date64(), TIMESTAMP(3)),
        (pa.large_list(pa.int32()), ARRAY(INT)),
        (pa.duration("s"), INTERVAL("DAY", "SECOND", fraction=3)),
    ],
)
def test_other_arrow_types_have_the_type_that_holds_their_values(
    arrow_type: pa.DataType, logical_type: LogicalType
) -> None:
    assert from_arrow(arrow_type) == logical_type


def test_an_arrow_type_that_sql_has_no_type_for_is_named() -> None:
    with pytest.raises(ValueError, match="SQL has no type for Arrow's month_day_nano_interval; cast the column"):
        from_arrow(pa.month_day_nano_interval())


@pytest.mark.parametrize("logical_type", [INTERVAL("MONTH"), MULTISET(STRING), CHAR(3), RAW(), NULL])
def test_types_that_arrow_has_none_for_are_held_by_another(logical_type: LogicalType) -> None:
    assert isinstance(to_arrow(logical_type), pa.DataType)


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([INT, BIGINT.not_null()], "BIGINT"),
        ([INT.not_null(), DECIMAL(2, 1).not_null()], "DECIMAL(11, 1) NOT NULL"),
        ([DECIMAL(38, 0), DECIMAL(38, 38)], "DECIMAL(38, 6)"),
        ([DECIMAL(5, 2), FLOAT], "DOUBLE"),
        ([BIGINT, FLOAT], "FLOAT"),
        ([CHAR(3).not_null(), CHAR(3).not_null()], "CHAR(3) NOT NULL"),
        ([CHAR(3), CHAR(5)], "VARCHAR(5)"),
        ([VARCHAR(3), STRING], "STRING"),
        ([BINARY(3), BINARY(2)], "VARBINARY(3)"),
        ([INT.not_null(), NULL], "INT"),
        ([NULL, NULL], "NULL"),
        ([TIMESTAMP(0), TIMESTAMP_LTZ(3)], "TIMESTAMP_LTZ(3)"),
        ([TIMESTAMP(3).as_attribute(TimeAttribute.ROWTIME), TIMESTAMP(0)], "TIMESTAMP(3)"),
        ([INTERVAL("DAY"), INTERVAL("SECOND")], "INTERVAL DAY(2) TO SECOND(6)"),
        ([ARRAY(INT.not_null()), ARRAY(BIGINT)], "ARRAY<BIGINT>"),
        ([MAP(CHAR(1), INT), MAP(CHAR(2), INT)], "MAP<VARCHAR(2), INT>"),
        ([ROW(("a", INT)), ROW(("b", DOUBLE))], "ROW<`a` DOUBLE>"),
    ],
)
def test_types_meet_in_the_one_that_holds_the_values_of_all(types: list[LogicalType], common: str) -> None:
    assert str(common_type(types)) == common


@pytest.mark.parametrize(
    "types",
    [[INT, STRING], [BOOLEAN, INT], [DATE, TIMESTAMP(3)], [TIME(0), TIMESTAMP(0)], [STRING, BYTES], [ARRAY(INT), INT],
     [INTERVAL("DAY"), INTERVAL("MONTH")], [ROW(("a", INT)), ROW(("a", INT), ("b", INT))], [ARRAY(INT), ARRAY(STRING)]],
)  # fmt: skip
def test_types_of_different_kinds_have_nothing_in_common(types: list[LogicalType]) -> None:
    assert common_type(types) is None


@pytest.mark.parametrize(
    ("types", "of_arguments", "of_results"),
    [
        ([FLOAT, DOUBLE], "DOUBLE", "FLOAT"),
        ([DOUBLE, INT, FLOAT], "DOUBLE", "DOUBLE"),
        ([DECIMAL(5, 2), FLOAT], "FLOAT", "DOUBLE"),
        ([FLOAT, DECIMAL(5, 2)], "DOUBLE", "DOUBLE"),
        ([TIMESTAMP_LTZ(3), TIMESTAMP(6)], "TIMESTAMP_LTZ(6)", "TIMESTAMP(6)"),
        ([TIMESTAMP(6), TIMESTAMP_LTZ(3)], "TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(6)"),
        ([TIMESTAMP(3), TIMESTAMP_LTZ(3)], "TIMESTAMP_LTZ(3)", "TIMESTAMP(3)"),
        ([TIMESTAMP(6), TIMESTAMP_LTZ(3), TIMESTAMP(6)], "TIMESTAMP_LTZ(6)", "TIMESTAMP_LTZ(6)"),
        ([ARRAY(FLOAT), ARRAY(DOUBLE)], "ARRAY<DOUBLE>", "ARRAY<FLOAT>"),
    ],
)
def test_arguments_and_results_meet_in_what_flink_makes_of_their_order(
    types: list[LogicalType], of_arguments: str, of_results: str
) -> None:
    assert str(common_type(types, Meeting.ARGUMENTS)) == of_arguments
    assert str(common_type(types, Meeting.RESULTS)) == of_results


@CALM
@given(TYPES, TYPES)
def test_the_common_type_does_not_depend_on_the_order_but_for_names(left: LogicalType, right: LogicalType) -> None:
    assert str(common_type([left, right])) == str(common_type([right, left]))
    assert common_type([left, left]) == left


@pytest.mark.parametrize(
    ("source", "target", "explicitly", "implicitly"),
    [
        (INT, BIGINT, True, True),
        (BIGINT, INT, True, False),
        (INT, INT.not_null(), True, False),
        (STRING, INT, True, False),
        (INT, STRING, True, False),
        (CHAR(3), STRING, True, True),
        (DECIMAL(5, 2), DOUBLE, True, True),
        (INT, TIMESTAMP(3), False, False),
        (TIMESTAMP(3), BIGINT, False, False),
        (TIMESTAMP(3), TIMESTAMP_LTZ(3), True, True),
        (DATE, TIME(0), False, False),
        (INT, BYTES, False, False),
        (NULL, INT, True, True),
        (ARRAY(INT), ARRAY(BIGINT), True, True),
        (ARRAY(STRING), ARRAY(INT), True, False),
        (ARRAY(INT), INT, False, False),
        (MAP(STRING, INT), MAP(STRING, STRING), True, False),
        (ROW(("a", INT)), ROW(("b", BIGINT)), True, True),
        (ROW(("a", INT)), ROW(("a", INT), ("b", INT)), False, False),
        (ROW(("a", INT)), STRING, True, False),
    ],
)
def test_a_cast_is_written_where_values_may_be_lost_and_refused_where_it_says_nothing(
    source: LogicalType, target: LogicalType, explicitly: bool, implicitly: bool
) -> None:
    assert (can_cast(source, target), can_cast_implicitly(source, target)) == (explicitly, implicitly)
