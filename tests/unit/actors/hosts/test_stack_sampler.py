"""Looking at threads while somebody asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from actors.hosts import stack_sampler
from actors.hosts.stack_sampler import StackSampler
from actors.tasks.chain.marks import mark
from tests.support.waiting import eventually


class Works:
    """What an operator looks like from outside."""

    def __init__(self, name: str) -> None:
        self.may_end = threading.Event()
        mark(self, ("process_batch",), name)

    def process_batch(self) -> None:
        while not self.may_end.is_set():
            spin()
            self.may_end.wait(0.001)


def spin() -> None:
    end = time.perf_counter() + 0.012
    while time.perf_counter() < end:
        pass


@contextmanager
def thread_of(name: str, operator: str = "works") -> Iterator[None]:
    works = Works(operator)
    thread = threading.Thread(target=works.process_batch, name=name)
    thread.start()
    try:
        yield
    finally:
        works.may_end.set()
        thread.join(20)


def test_a_thread_is_seen_where_it_spends_its_time_with_its_operator() -> None:
    sampler = StackSampler()
    with thread_of("at work"):
        assert sampler.samples(["at work", "not there"]).threads == {}, "nobody waits for the first sample"
        eventually(
            lambda: [
                stack
                for stack in sampler.samples(["at work"]).threads.get("at work", ())
                if [frame.partition(":")[0].rpartition(".")[2] for frame in stack.frames] == ["operator works", "spin"]
                and 0 < stack.cpu_us <= stack.wall_us
            ]
        )


def test_operators_of_one_class_have_their_own_names() -> None:
    sampler = StackSampler()
    with thread_of("one", "map"), thread_of("two", "map again"):

        def operators() -> dict[str, set[str]]:
            seen = sampler.samples(["one", "two"]).threads
            return {name: {stack.frames[0] for stack in stacks} for name, stacks in seen.items()}

        eventually(operators, lambda found: found == {"one": {"operator map"}, "two": {"operator map again"}})


def test_sampling_ends_when_nobody_asks_any_more_and_forgets_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_sampler, "WATCHED_S", 0.0)
    sampler = StackSampler()
    with thread_of("not watched"):
        sampler.samples(["not watched"])
        eventually(lambda: sampler._thread is None)
        monkeypatch.undo()
        assert sampler.samples(["not watched"]).threads == {}


def test_no_more_threads_are_looked_at_than_are_bearable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_sampler, "MOST_THREADS", 2)
    sampler = StackSampler()
    for name in ("a", "b", "c"):
        sampler.samples([name])
    assert set(sampler._wanted) == {"a", "b"}
