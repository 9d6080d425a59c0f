"""What both stores of blocks promise: files, and Ray's object store behind a holder."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from actors.blocks.store import BlockStore
from actors.spark.spill import SpillBlockStore
from flinkray.errors import PartitionError
from tests.support.waiting import eventually


@pytest.fixture(params=["spill", pytest.param("ray", marks=pytest.mark.ray)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockStore]:
    made: BlockStore
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
        from actors.hosts.ray.datasets.block_store import RayBlockStore

        made = RayBlockStore.create(outlives_driver=False)
    else:
        made = SpillBlockStore.create(str(tmp_path))
    yield made
    made.close()


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64()), "text": pa.array([f"row {n}" for n in values])})


def test_a_block_comes_back_as_it_was_put_through_any_handle(store: BlockStore) -> None:
    store.put("a/b c", rows(1, 2, 3))
    assert pickle.loads(pickle.dumps(store)).get("a/b c").equals(rows(1, 2, 3))


def test_a_block_that_was_put_as_a_slice_is_only_that_slice(store: BlockStore) -> None:
    store.put("a", rows(*range(1000)).slice(10, 2))
    assert store.get("a").equals(rows(10, 11))


def test_putting_an_id_again_replaces_the_block(store: BlockStore) -> None:
    store.put("a", rows(1))
    store.put("a", rows(2))
    assert store.get("a").equals(rows(2))


def test_a_block_that_is_not_there_is_named(store: BlockStore) -> None:
    with pytest.raises(PartitionError, match="'nowhere'"):
        store.get("nowhere")


def test_discarded_and_not_retained_blocks_are_gone_and_unknown_ones_are_no_error(store: BlockStore) -> None:
    for name in "abcd":
        store.put(name, rows(1))
    store.discard(["a", "unknown"])
    store.retain(["b", "c", "unknown"])
    for name in "ad":
        with pytest.raises(PartitionError):
            store.get(name)
    assert store.get("b").equals(store.get("c"))


def test_records_are_found_by_prefix_and_the_last_value_counts(store: BlockStore) -> None:
    for key, value in (("committed/1", b"x"), ("committed/2", b"y"), ("other/1", b"z"), ("committed/1", b"w")):
        store.record(key, value)
    assert store.records("committed/") == {"committed/1": b"w", "committed/2": b"y"}


def test_a_block_stays_readable_after_the_store_is_closed_while_it_is_held(store: BlockStore) -> None:
    store.put("a", rows(*range(10_000)))
    held = store.get("a")
    store.close()
    assert held.equals(rows(*range(10_000)))


def test_a_closed_store_says_that_it_is_gone_and_closes_again(store: BlockStore) -> None:
    store.put("a", rows(1))
    store.close()
    store.close()
    with pytest.raises(PartitionError):
        pickle.loads(pickle.dumps(store)).get("a")


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
@pytest.mark.parametrize("is_own_cluster", [True, False])
def test_a_store_that_may_outlive_the_driver_ends_when_its_lease_does(
    is_own_cluster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    from actors.hosts.ray.datasets import block_store

    monkeypatch.setattr(block_store, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(block_store, "is_own_cluster", lambda: is_own_cluster)
    held = block_store.RayBlockStore.create(outlives_driver=True)
    held.put("a", rows(1))
    held.renew_lease()
    assert held.get("a").equals(rows(1))
    held.end_lease()
    eventually(lambda: is_gone(held), deadline_s=30)
    if is_own_cluster:  # one holder for all stores
        assert block_store.RayBlockStore.create(outlives_driver=False)._holder_name == held._holder_name
    else:

        def has_ended() -> bool:
            with contextlib.suppress(ValueError):
                ray.get_actor(held._holder_name, namespace=block_store.NAMESPACE)
                return False
            return True

        eventually(has_ended, deadline_s=30)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster")
def test_a_block_of_another_node_than_the_holders_is_copied_by_a_task() -> None:
    import ray

    from actors.hosts.ray.datasets.block_store import RayBlockStore

    held = RayBlockStore.create(outlives_driver=False)
    assert held._ask("put", "a", [ray.put(rows(1, 2))], "another node")
    assert held.get("a").equals(rows(1, 2))
    held.close()


def is_gone(store: BlockStore) -> bool:
    try:
        store.get("a")
    except PartitionError:
        return True
    return False
