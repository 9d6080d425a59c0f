"""Made-up rows of tables: each option makes the values that it says, or is refused by its name."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkray import InvalidProgramError, StreamExecutionEnvironment
from flinkray.tables.connectors.connectors import scan
from flinkray.tables.connectors.contract import physical_columns
from flinkray.tables.connectors.datagen import _Fields
from flinkray.tables.connectors.options import ConnectorOptions
from flinkray.tables.plans.tables import Table


def made(sql_type: str, /, **options: str) -> pa.Array:
    """A thousand values of a column."""
    tables = StreamExecutionEnvironment.get_execution_environment({"execution.target": "local"}).tables
    given = ", ".join(f"'fields.f.{key.replace('_', '-')}' = '{value}'" for key, value in options.items())
    tables.execute_sql(f"CREATE TABLE t (f {sql_type}) WITH ('connector' = 'datagen'{', ' if given else ''}{given})")
    found = tables.catalog.get(("t",))
    assert isinstance(found, Table)
    scan(found)
    (column,) = physical_columns(found)
    return _Fields(ConnectorOptions("t", found.options)).column("fields.f", column.type).values(np.arange(1_000))


@pytest.mark.parametrize(("kind", "longest"), [("STRING", 100), ("VARCHAR(7)", 7), ("BYTES", 100), ("VARBINARY(3)", 3)])
def test_texts_may_have_all_lengths_up_to_the_one_that_is_given(kind: str, longest: int) -> None:
    assert {len(each) for each in made(kind).to_pylist()} == {longest}
    shortened = made(kind, var_len="true")
    shortened.validate(full=True)
    assert {len(each) for each in shortened.to_pylist()} == set(range(1, longest + 1))
    assert made(kind, var_len="true").equals(shortened)
    assert {len(each) for each in made(kind, var_len="true", length="2").to_pylist()} == {1, 2}


def test_decimals_can_be_counted() -> None:
    counted: Any = made("DECIMAL(10, 2)", kind="sequence", start="-1", end="2000")
    assert counted[:2].to_pylist() == [Decimal("-1.00"), Decimal("0.00")]


@pytest.mark.parametrize("kind", ["TIME", "TIME(3)", "TIME(6)"])
def test_a_time_of_day_is_that_of_now(kind: str) -> None:
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0, tzinfo=None)
    (at,) = set(made(kind).to_pylist())
    after = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    assert before.time() <= at <= after.time() or before.date() < after.date()


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("TINYINT", {"min": "1000"}, "option 'fields.f.min' is 1000, which TINYINT has not"),
        ("INT", {"max": "2147483648"}, "option 'fields.f.max' is 2147483648, which INT has not"),
        ("VARCHAR(5)", {"length": "9"}, "option 'fields.f.length' is 9, and VARCHAR(5) has at most 5"),
        ("CHAR(5)", {"length": "3"}, "option 'fields.f.length': all values of CHAR(5) have the length that it says"),
        ("CHAR(5)", {"var_len": "true"}, "there is no option 'fields.f.var-len'"),
    ],
)
def test_what_a_type_has_not_is_refused(kind: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidProgramError, match=re.escape(words)):
        made(kind, **options)
