"""Savepoints that are being deleted."""

from __future__ import annotations

import threading

from actors.rest.asking.disposals import MOST, REMEMBERED_MS, Disposals
from tests.support.waiting import eventually


class Time:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def test_what_has_become_of_one_is_known_for_some_time() -> None:
    time, deleted = Time(), []
    disposals = Disposals(deleted.append, time)
    first = disposals.begin("a") or ""
    eventually(lambda: disposals.of(first).ended_ms is not None)
    assert (deleted, disposals.of(first).error) == (["a"], None)
    time.now_ms = REMEMBERED_MS
    disposals.begin("b")
    assert disposals.of(first) is None


def test_a_failure_is_what_has_become_of_it() -> None:
    def fail(path: str) -> None:
        raise ValueError(path)

    disposals = Disposals(fail, Time())
    request = disposals.begin("a") or ""
    eventually(lambda: disposals.of(request).ended_ms is not None)
    assert disposals.of(request).error.type_name == "ValueError"


def test_no_more_than_some_are_deleted_at_the_same_time() -> None:
    may_end = threading.Event()
    disposals = Disposals(lambda _: may_end.wait(20), Time())
    requests = [disposals.begin("a") for _ in range(MOST)]
    assert None not in requests
    assert disposals.begin("a") is None
    may_end.set()
    eventually(lambda: all(disposals.of(each).ended_ms is not None for each in requests))
    assert disposals.begin("a") is not None
