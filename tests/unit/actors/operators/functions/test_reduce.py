"""Running reduce, and several inputs into one function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.operators.registry import create_operator
from flinkray.batches.row_codec import RowEncoder
from flinkray.errors import InvalidProgramError, UserFunctionError
from flinkray.functions.interfaces import ReduceFunction
from flinkray.transformations.operator_factories import MultipleInputFactory, ProjectFactory, ReduceFactory
from flinkray.types.keys import ColumnKey, FunctionKey
from flinkray.types.rows import Row
from flinkray.types.type_info import Types
from tests.support.operators import OperatorHarness, code
from tests.support.state import restored_from

FIRST = ColumnKey(("f0",))


def add(left: Any, right: Any) -> Any:
    return left[0], left[1] + right[1]


def driven(function: Any, key: Any = FIRST, restored: Any = None) -> OperatorHarness:
    operator = create_operator([code(ReduceFactory(function), key)], ["sum"])
    return OperatorHarness(operator, keys=[key], restored=restored)


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9)), min_size=1), max_size=4))
@settings(max_examples=60, deadline=None)
def test_each_row_gives_its_keys_reduced_value_so_far(batches: list[list[tuple[str, int]]]) -> None:
    harness = driven(add)
    totals: dict[str, int] = {}
    expected = []
    for rows in batches:
        for key, number in rows:
            totals[key] = totals.get(key, 0) + number
            expected.append((key, totals[key]))
        harness.push(rows)
        snapshot = restored_from([harness.snapshot()], range(128))
        harness = driven(add, restored=snapshot)
        harness.push(rows[:1])
        number = rows[0][1]
        assert harness.output.rows[0][1] == totals[rows[0][0]] + number
        totals[rows[0][0]] += number
        harness.output.clear()


def test_event_times_and_kinds_pass_through() -> None:
    class Latest(ReduceFunction):
        def reduce(self, value1: Any, value2: Any) -> Any:
            return {"k": value2.k, "n": value1.n + value2["n"]}

    harness = driven(Latest(), ColumnKey(("k",)))
    harness.push({"k": ["a", "b", "a"], "n": [1, 2, 3]}, [7, 8, 9])
    harness.push({"k": ["a"], "n": [10]}, [11])
    assert harness.output.rows == [Row(k="a", n=1), Row(k="b", n=2), Row(k="a", n=4), Row(k="a", n=14)]
    assert harness.output.timestamps == [7, 8, 9, 11]


def test_declared_rows_within_values_are_rows_in_what_is_reduced_so_far() -> None:
    def later(left: Any, right: Any) -> Any:
        return max((left, right), key=lambda value: value[1].at)

    declared = Types.TUPLE([Types.STRING(), Types.ROW_NAMED(["at"], [Types.LONG()])]).record_type
    operator = create_operator([code(ReduceFactory(later, declared), FIRST)], ["latest"])
    harness = OperatorHarness(operator, keys=[FIRST])
    rows = [("a", Row(at=2)), ("a", Row(at=3)), ("a", Row(at=1))]
    harness.push(RowEncoder("", "", declared).encode(rows, None))
    assert harness.output.rows == [rows[0], rows[1], rows[1]]


def test_a_function_key_reduces_bare_values() -> None:
    harness = driven(max, FunctionKey(lambda value: value % 2))
    harness.push([5, 4, 3, 8])
    assert harness.output.rows == [5, 4, 5, 8]


def test_an_error_names_operator_and_value() -> None:
    harness = driven(lambda left, right: ("a", left[1] - right[1]))
    with pytest.raises(UserFunctionError, match=r"operator 'op'.*TypeError.*the value was \('a', 'x'\)"):
        harness.push([("a", "y"), ("a", "x")])


def test_a_function_that_changes_its_accumulator_gives_each_state_of_it() -> None:
    harness = driven(lambda so_far, value: so_far.extend(value) or so_far, FunctionKey(lambda _: 0))
    harness.push([[1], [2], [3]])
    assert harness.output.rows == [[1], [1, 2], [1, 2, 3]]
    sets = driven(lambda so_far, value: so_far.update(value) or so_far, FunctionKey(lambda _: 0))
    sets.push([{1}, {2}])
    assert sets.output.rows == [{1}, {1, 2}]


def test_reduce_without_key_is_refused() -> None:
    harness = OperatorHarness(create_operator([code(ReduceFactory(add))], ["sum"]))
    with pytest.raises(InvalidProgramError, match="needs key_by"):
        harness.push([("a", 1)])


def several(function: Any, **settings: Any) -> OperatorHarness:
    return OperatorHarness(create_operator([code(MultipleInputFactory(function, 3))], ["merge"]), **settings)


def test_several_inputs_reach_one_function_with_their_number() -> None:
    def tag(index: int, value: Any) -> Iterator[Any]:
        yield index, str(value)
        if index == 2:
            yield index, "again"

    harness = several(tag)
    harness.push([1], [10], input_index=0)
    harness.push(["x"], [20], input_index=2)
    assert harness.output.rows == [(0, "1"), (2, "x"), (2, "again")]
    assert harness.output.timestamps == [10, 20, 20]
    harness.watermark(5, 0)
    harness.watermark(7, 1)
    assert harness.output.watermarks == []
    harness.watermark(6, 2)
    assert harness.output.watermarks == [5]


def test_what_one_input_explodes_to_is_cut() -> None:
    harness = several(lambda _, value: [value] * 7, batch_rows=3)
    harness.push([1, 2])
    assert [batch.num_rows for batch in harness.output.batches] == [3, 3, 3, 3, 2]
    nothing = several(lambda *_: None)
    nothing.push([1])
    assert nothing.output.elements == []


def test_an_error_of_the_merging_function_names_the_value() -> None:
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError.*the value was 0"):
        several(lambda _, value: [1 // value]).push([1, 0])


def test_only_row_functions_can_be_fused() -> None:
    project = code(ProjectFactory(()))
    with pytest.raises(ValueError, match="only row functions can be fused, not a, b"):
        create_operator([project, project], ["a", "b"])
