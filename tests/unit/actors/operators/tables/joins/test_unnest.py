"""Rows with the elements of their collections."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from actors.operators.tables.joins.unnest import UnnestOperator
from flinkray.batches.batch import Batch
from flinkray.tables.plans.expressions import Column
from flinkray.tables.types.arrow import stored_schema
from flinkray.tables.types.logical import ARRAY, BIGINT, INT, MAP, MULTISET, ROW, STRING, LogicalType
from flinkray.transformations.table_join_factories import UnnestFactory
from flinkray.types.changelogs import INSERTS
from flinkray.types.records import Kind
from tests.support.operators import OperatorHarness

FIELDS = ROW(("x", INT), ("y", STRING))


@pytest.mark.parametrize(
    ("kind", "values", "elements", "types"),
    [
        (ARRAY(INT), [[1, None], [], None, [2]], [[(1,), (None,)], [], [], [(2,)]], [INT]),
        (ARRAY(FIELDS), [[{"x": 1, "y": "a"}, None], [], None, [{"x": 2, "y": None}]],
         [[(1, "a")], [], [], [(2, None)]], [INT, STRING]),
        (ARRAY(ARRAY(INT)), [[[1], None], [], None, [[]]], [[([1],), (None,)], [], [], [([],)]], [ARRAY(INT)]),
        (MAP(STRING.not_null(), INT), [[("a", 1), ("b", None)], [], None, [("c", 3)]],
         [[("a", 1), ("b", None)], [], [], [("c", 3)]], [STRING, INT]),
        (MULTISET(INT), [[(7, 2), (8, 1)], [], None, [(9, 1)]], [[(7,), (7,), (8,)], [], [], [(9,)]], [INT]),
    ],
)  # fmt: skip
def test_each_element_has_its_row_and_what_the_row_does(
    kind: LogicalType, values: list[Any], elements: list[list[Any]], types: list[LogicalType]
) -> None:
    rows = ROW(("id", INT), ("c", kind))
    schema = stored_schema(rows)
    data = pa.RecordBatch.from_arrays(
        [pa.array(range(-1, len(values)), pa.int32()), pa.array([values[0], *values], schema.types[1])], schema=schema
    ).slice(1)
    kinds = pa.array([0, 1, 2, 3], pa.int8())
    for is_outer, replaces in ((False, False), (True, True)):
        changes = (0, 3, 0, 3) if replaces else (0, 1, 2, 3)
        added = ((f"e{place}", each) for place, each in enumerate(types))
        out = ROW(("id", INT), ("c", kind), *added, ("o", BIGINT))
        made = UnnestFactory(
            input_rows=(rows,),
            rows=out,
            takes=(INSERTS,),
            collection=Column(kind, 1),
            is_outer=is_outer,
            with_ordinality=True,
            replaces=replaces,
        )
        with OperatorHarness(UnnestOperator(made), batch_rows=2) as operator:
            operator.push(Batch(data, Kind.ROW, pa.array([10, 11, 12, 13]), None, kinds))
            found = [
                (time, change, row["id"], *list(row.values())[2:])
                for batch in operator.output.batches
                for time, change, row in zip(
                    batch.timestamps.to_pylist(), batch.row_kinds.to_pylist(), batch.data.to_pylist(), strict=True
                )
            ]
        nothing = [(*(None for _ in types), None)] if is_outer else []
        assert found == [
            (10 + place, changes[place], place, *element)
            for place, some in enumerate(elements)
            for element in ([(*each, number) for number, each in enumerate(some, 1)] or nothing)
        ]
        assert all(batch.num_rows <= 2 for batch in operator.output.batches)
