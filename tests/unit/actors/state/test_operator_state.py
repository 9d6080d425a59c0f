"""State of functions that belongs to no key."""

from __future__ import annotations

import pytest

from actors.state.operator_state import OperatorStateBackend
from actors.state.snapshots.snapshot import OperatorSnapshot
from flinkray.errors import CheckpointError, InvalidProgramError
from flinkray.state.descriptors import ListStateDescriptor, MapStateDescriptor
from tests.support.state import restored_from

GROUPS = range(128)
LIST = ListStateDescriptor("items")


def store(index: int = 0, *former: OperatorSnapshot, parallelism: int = 1, scope: str = "f") -> OperatorStateBackend:
    made = OperatorStateBackend(f"operator 'op' (subtask {index + 1} of {parallelism})", scope, index)
    if former:
        made.restore(restored_from(former, GROUPS, index, parallelism))
    return made


def saved(state: OperatorStateBackend) -> OperatorSnapshot:
    snapshot = OperatorSnapshot()
    state.add_to(snapshot)
    return snapshot


def test_a_snapshot_has_the_items_of_its_moment() -> None:
    first = store()
    items = first.get_list_state(LIST)
    entries = first.get_broadcast_state(MapStateDescriptor("map"))
    items.update([[1], [2]])
    entries.put("x", [3])
    snapshot = saved(first)
    items.get()[0].append(9)
    entries.get("x").append(9)
    again = store(0, snapshot)
    assert again.get_list_state(LIST).get() == [[1], [2]]
    assert dict(again.get_broadcast_state(MapStateDescriptor("map")).items()) == {"x": [3]}


def test_lists_are_shared_out_and_unions_are_not() -> None:
    former = []
    for index in range(2):
        part = store(index, parallelism=2)
        part.get_list_state(LIST).add_all([(index, 0), (index, 1), (index, 2)])
        part.get_union_list_state(ListStateDescriptor("union")).add(index)
        former.append(saved(part))
    after = [store(index, *former, parallelism=3) for index in range(3)]
    shares = [part.get_list_state(LIST).get() for part in after]
    assert sorted(item for share in shares for item in share) == [(i, j) for i in range(2) for j in range(3)]
    assert {len(share) for share in shares} == {2}
    assert [part.get_union_list_state(ListStateDescriptor("union")).get() for part in after] == [[0, 1]] * 3


def test_state_that_nobody_asked_for_is_kept_and_does_not_grow() -> None:
    former = []
    for index in range(2):
        part = store(index, parallelism=2)
        part.get_list_state(LIST).add(index)
        part.get_union_list_state(ListStateDescriptor("union")).add(index)
        part.get_broadcast_state(MapStateDescriptor("map")).put("x", 1)
        former.append(saved(part))
    for _ in range(3):
        former = [saved(store(index, *former, parallelism=2)) for index in range(2)]
    last = store(1, *former, parallelism=2)
    assert last.get_list_state(LIST).get() == [1]
    assert last.get_union_list_state(ListStateDescriptor("union")).get() == [0, 1]
    assert dict(last.get_broadcast_state(MapStateDescriptor("map")).items()) == {"x": 1}


def test_functions_of_one_operator_do_not_see_each_others_state() -> None:
    snapshot = OperatorSnapshot()
    for scope in ("f", "f/0"):
        part = store(scope=scope)
        part.get_list_state(LIST).add(scope)
        part.add_to(snapshot)
    for scope in ("f", "f/0"):
        assert store(0, snapshot, scope=scope).get_list_state(LIST).get() == [scope]


def test_another_kind_of_state_is_an_error_that_names_both() -> None:
    first = store()
    first.get_list_state(LIST).add(1)
    with pytest.raises(InvalidProgramError, match=r"'op'.*'items' is a list state.*as a union list state.*too"):
        first.get_union_list_state(LIST)
    with pytest.raises(CheckpointError, match=r"'op'.*'items' was saved as a list state.*as a broadcast state"):
        store(0, saved(first)).get_broadcast_state(MapStateDescriptor("items"))


def test_every_nan_is_the_same_entry_of_a_broadcast_state_also_after_a_restore() -> None:
    first = store()
    first.get_broadcast_state(MapStateDescriptor("rules")).put(float("nan"), 1)
    rules = store(0, saved(first)).get_broadcast_state(MapStateDescriptor("rules"))
    rules.put_all({float("nan"): 2, ("a", float("nan")): 3})
    assert (rules.get(float("nan")), rules.get(("a", float("nan"))), len(list(rules.items()))) == (2, 3, 2)
    rules.remove(float("nan"))
    assert not rules.contains(float("nan"))
