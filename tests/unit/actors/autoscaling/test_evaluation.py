"""How many subtasks vertices need for their load."""

from __future__ import annotations

import math
from typing import Any

import pytest

from actors.autoscaling.evaluation import Demand, ScalableVertex, evaluate
from actors.autoscaling.load import VertexLoad
from actors.autoscaling.settings import AutoscalerSettings
from graphs.job_graph import JobVertexId

SOURCE, MAP, SINK = JobVertexId("source"), JobVertexId("map"), JobVertexId("sink")
PLAIN = AutoscalerSettings(target=0.8, highest=0.9, lowest=0.5, restart_ms=0)


def load(records: float, busy: float, out: float | None = None, backpressured: float = 0.0, **more: Any) -> VertexLoad:
    return VertexLoad(records, records if out is None else out, busy, backpressured, **more)


def chain(
    source: VertexLoad, *others: VertexLoad, parallelism: int = 2, settings: AutoscalerSettings = PLAIN, most: int = 128
) -> list[Demand]:
    """Of a source, and of vertices that each read from the one before."""
    ids = [JobVertexId(f"v{number}") for number in range(len(others) + 1)]
    vertices = [
        ScalableVertex(each, each, parallelism, most, () if number == 0 else (ids[number - 1],))
        for number, each in enumerate(ids)
    ]
    demands = evaluate(vertices, dict(zip(ids, (source, *others), strict=True)), settings)
    return [demands[each] for each in ids]


def numbers(*loads: VertexLoad, **settings: Any) -> list[int | None]:
    return [demand.parallelism for demand in chain(*loads, **settings)]


def test_a_vertex_that_is_as_busy_as_it_should_be_stays_as_it_is() -> None:
    assert numbers(load(100, 0.6), load(100, 0.8)) == [2, 2]


def test_what_holds_its_source_up_gets_as_many_subtasks_as_the_source_would_need() -> None:
    """The source reads 100 rows per second and is held up for half of its time, so that 200 would come; both subtasks
    of the map are busy all the time with 100: 200 / (0.8 x 50) = 5."""
    source, mapped = chain(load(100, 0.1, backpressured=0.5), load(100, 1.0))
    assert (source.parallelism, mapped) == (1, Demand(5, 200, 100))


def test_what_waits_for_a_source_grows_with_what_it_does_not_read() -> None:
    """100 are read and 50 more wait with each second, with 6,000 to be read within a minute: 250 per second."""
    settings = AutoscalerSettings(target=1.0, highest=1.0, lowest=0.0, restart_ms=0, catch_up_ms=60_000)
    waiting = load(100, 1.0, pending=6_000, pending_growth=50.0)
    assert numbers(waiting, load(100, 1.0), settings=settings) == [5, 5]


def test_rows_that_are_caught_up_with_do_not_count_as_coming() -> None:
    settings = AutoscalerSettings(target=1.0, highest=1.0, lowest=0.9, restart_ms=0, backlog_ms=10**9)
    falling = load(100, 0.5, pending=100, pending_growth=-60.0)
    assert numbers(falling, parallelism=10, settings=settings) == [4], "40 of the 200 come that ten could read"


def test_a_vertex_loses_no_subtasks_while_much_waits_for_a_source() -> None:
    assert numbers(load(100, 0.1, pending=10)) == [1]
    assert numbers(load(100, 0.1, pending=100 * 301)) == [2]


def test_a_vertex_that_gives_more_rows_than_it_reads_has_those_behind_it_grow_by_as_much() -> None:
    """The flat map triples its rows: 200 come instead of 100, so 600 leave it."""
    _, flat, behind = chain(load(100, 0.1, backpressured=0.5), load(100, 0.5, out=300), load(300, 1.0))
    assert (flat.parallelism, behind) == (3, Demand(5, 600, 300))


def test_a_vertex_with_several_inputs_grows_as_they_do_together() -> None:
    vertices = [
        ScalableVertex(SOURCE, "calm", 1, 128),
        ScalableVertex(MAP, "growing", 1, 128),
        ScalableVertex(SINK, "union", 1, 128, (SOURCE, MAP)),
    ]
    loads = {
        SOURCE: load(100, 0.6),
        MAP: load(300, 0.6, backpressured=0.5),
        SINK: load(400, 0.6),
    }
    demand = evaluate(vertices, loads, PLAIN)[SINK]
    assert demand.rate == pytest.approx(100 + 600)
    assert demand.parallelism == 2


def test_the_time_of_a_rescale_is_room_to_catch_up_with_it() -> None:
    settings = AutoscalerSettings(target=1.0, highest=0.9, lowest=0.0, restart_ms=60_000, catch_up_ms=120_000)
    assert numbers(load(100, 1.0), settings=settings) == [3]


@pytest.mark.parametrize(("most", "expected"), [(3, 3), (1, 2), (128, 5)])
def test_a_vertex_gets_no_more_subtasks_than_it_may_have(most: int, expected: int) -> None:
    assert numbers(load(100, 1.0, backpressured=0.9), most=most) == [expected], "and counts as twice as much at most"


def test_a_vertex_changes_by_no_more_than_the_factors_allow() -> None:
    careful = AutoscalerSettings(target=0.8, highest=0.9, lowest=0.5, restart_ms=0, most_lost=0.25, most_gained=0.5)
    assert numbers(load(100, 0.01), parallelism=8, settings=careful) == [6]
    assert numbers(load(100, 1.0, backpressured=0.9), parallelism=8, settings=careful) == [12]
    bounded = AutoscalerSettings(fewest=4, most=9)
    assert numbers(load(100, 0.01), parallelism=8, settings=bounded) == [4]
    assert numbers(load(100, 1.0, backpressured=0.9), parallelism=8, settings=bounded) == [9]


def test_nothing_is_known_of_a_vertex_that_reads_nothing() -> None:
    (idle,) = chain(load(0, 0.0))
    assert (idle.parallelism, idle.capacity) == (None, math.inf)
    assert numbers(load(0, 0.0, pending=5), load(0, 0.0)) == [None, None]
