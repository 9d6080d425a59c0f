"""When a job gets another parallelism for its load."""

from __future__ import annotations

from actors.autoscaling.autoscaler import Autoscaler
from actors.autoscaling.evaluation import ScalableVertex
from actors.autoscaling.load import LoadWindow, VertexSample
from actors.autoscaling.settings import AutoscalerSettings
from graphs.job_graph import JobVertexId

A, B = JobVertexId("a"), JobVertexId("b")
SETTINGS = AutoscalerSettings(
    window_ms=1_000,
    stabilization_ms=500,
    scale_down_interval_ms=3_000,
    restart_ms=0,
    target=0.5,
    highest=0.8,
    lowest=0.4,
)
STEP_MS = 100


class Run:
    """A job of two vertices, of which the first has been looked at every 100 ms."""

    def __init__(self, parallelism: int = 4, **settings: object) -> None:
        given = {name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__} | settings
        self.autoscaler = Autoscaler(AutoscalerSettings(**given))
        self.parallelism = parallelism
        self.groups = [[A], [B]]
        self.now = 0
        self.rate = 100.0
        self.autoscaler.reset(0)

    def change(self, changed: dict[str, int]) -> None:
        """The job has got what was decided for its first vertex."""
        self.autoscaler.changed(self.changes)
        self.parallelism = changed["first"]
        self.autoscaler.reset(self.now)

    def look(self, busy: float, busy_b: float = 0.45) -> dict[str, int]:
        vertices = [
            ScalableVertex(A, "first", self.parallelism, 128),
            ScalableVertex(B, "second", self.parallelism, 128, (A,)),
        ]
        self.now += STEP_MS
        busy_parts = {A: busy, B: busy_b}
        samples = {vertex: VertexSample(self.rate, self.rate, part, 0) for vertex, part in busy_parts.items()}
        self.autoscaler.observe(samples, self.now)
        self.changes = self.autoscaler.decide(vertices, self.groups, self.now)
        return {change.vertex.name: change.parallelism for change in self.changes}

    def until_change(self, busy: float, busy_b: float = 0.45) -> tuple[int, dict[str, int]]:
        """When it changed, and what."""
        for _ in range(100):
            if changed := self.look(busy, busy_b):
                return self.now, changed
        return self.now, {}


def test_more_subtasks_come_once_the_window_behind_the_start_is_full() -> None:
    assert Run().until_change(1.0) == (1_500, {"first": 8})


def test_fewer_subtasks_come_when_fewer_were_enough_for_long() -> None:
    assert Run().until_change(0.2) == (4_500, {"first": 2})


def test_a_vertex_keeps_as_many_as_it_has_needed_at_most_meanwhile() -> None:
    """For a while, 0.3 x 10 subtasks were busy, which are 6 that are for half of their time."""
    run = Run(parallelism=10, most_lost=1.0)
    for busy, looks in ((0.1, 20), (0.3, 12)):
        for _ in range(looks):
            assert run.look(busy) == {}
    assert run.until_change(0.1)[1] == {"first": 6}


def test_a_vertex_that_needs_what_it_has_in_between_begins_anew() -> None:
    run = Run()
    for _ in range(40):
        assert run.look(0.2) == {}
    for _ in range(12):
        assert run.look(0.6) == {}
    assert run.until_change(0.2)[0] > 4_500 + 3_000


def test_a_restart_makes_what_was_seen_void() -> None:
    run = Run()
    for _ in range(14):
        assert run.look(1.0) == {}
    run.autoscaler.reset(run.now)
    assert run.until_change(1.0)[0] == 1_400 + 1_500


def test_vertices_that_belong_together_get_what_the_one_needs_that_needs_most() -> None:
    run = Run()
    run.groups = [[A, B]]
    assert run.until_change(1.0, 0.05) == (1_500, {"first": 8, "second": 8})


def test_vertices_that_may_not_change_or_are_left_out_do_not() -> None:
    run = Run()
    run.groups = [[B]]
    assert run.until_change(1.0)[1] == {}
    assert Run(excluded=frozenset({"first"})).until_change(1.0)[1] == {}
    assert Run(excluded=frozenset({"a"})).until_change(1.0)[1] == {}


def test_a_vertex_without_rows_has_no_wish_beside_the_others_of_its_group() -> None:
    vertices = [ScalableVertex(A, "first", 4, 128), ScalableVertex(B, "dead letters", 4, 128, (A,))]
    run = Run(scale_down_interval_ms=0)
    for now in range(0, 1_700, STEP_MS):
        run.autoscaler.observe({A: VertexSample(100, 0, 0.1, 0), B: VertexSample(0, 0, 0.0, 0)}, now)
    changes = run.autoscaler.decide(vertices, [[A, B]], 1_600)
    assert [(each.vertex.id, each.parallelism) for each in changes] == [(A, 2), (B, 2)]
    assert run.autoscaler.decide(vertices, [[B]], 1_600) == ()


def test_more_subtasks_that_did_not_help_are_not_followed_by_more() -> None:
    """All rows have one key: the subtask that has it stays busy, and takes no more of them."""
    run = Run()
    _, changed = run.until_change(1.0)
    run.change(changed)
    assert run.until_change(1.0)[1] == {}
    helped = Run()
    _, changed = helped.until_change(1.0)
    helped.rate = 150
    helped.change(changed)
    assert helped.until_change(1.0)[1] == {"first": 16}


def test_a_refused_rescale_is_asked_for_again_after_longer_and_longer_pauses() -> None:
    run = Run()
    for expected in (1_500, 61_500, 181_500):
        while not run.look(1.0):
            assert run.now < expected
        assert run.now == expected
        run.autoscaler.refused(run.changes, run.now)


def test_what_is_refused_keeps_no_other_vertex_from_getting_fewer() -> None:
    run = Run()
    for _ in range(60):
        if "first" in run.look(1.0, 0.05):
            run.autoscaler.refused(run.changes, run.now)
    assert run.look(1.0, 0.05) == {"second": 2}


def test_fewer_subtasks_that_are_refused_are_asked_for_again_after_a_pause_and_more_at_once() -> None:
    """Each time it is asked for, the job takes checkpoints."""
    run = Run()
    for expected in (4_500, 64_500):
        while not run.look(0.2):
            assert run.now < expected
        assert run.now == expected
        run.autoscaler.refused(run.changes, run.now)
    asked = run.now
    assert run.until_change(1.0)[0] <= asked + 1_000


def test_what_is_refused_has_a_pause_for_more_subtasks_and_one_for_fewer() -> None:
    run = Run()
    asked: dict[str, list[int]] = {"first": [], "second": []}
    while run.now < 200_000:
        if changed := run.look(1.0, 0.05):
            asked[next(iter(changed))].append(run.now)
            run.autoscaler.refused(run.changes, run.now)
    assert asked == {"first": [1_500, 61_500, 181_500], "second": [4_500, 64_500, 184_500]}


def test_what_was_enough_long_ago_does_not_count() -> None:
    run = Run(parallelism=10, most_lost=1.0)
    for _ in range(45):
        run.look(0.3)
    for _ in range(45):
        changed = run.look(0.1)
    assert changed == {"first": 2}, "nobody carries it out, as where only advice is wanted"


def test_a_change_says_why() -> None:
    run = Run()
    run.until_change(1.0)
    vertices = [ScalableVertex(A, "first", 4, 128), ScalableVertex(B, "second", 4, 128, (A,))]
    (change,) = run.autoscaler.decide(vertices, run.groups, run.now)
    assert str(change) == "'first' 4 -> 8 (100 rows/s come, 100 rows/s are possible)"


def test_a_window_has_the_samples_of_its_time_and_means_of_vertices_that_are_in_all() -> None:
    window = LoadWindow(1_000)
    window.add(0, {A: VertexSample(900, 0, 0, 0), B: VertexSample(0, 0, 0, 0)})
    assert not window.is_full
    for time in (500, 1_000, 1_500):
        window.add(time, {A: VertexSample(time, 0, 0.5, 0.1, pending=time * 2)})
    assert window.is_full
    load = window.loads()[A]
    assert window.loads().keys() == {A}
    assert (load.records_in, load.busy, load.pending, load.pending_growth) == (1_000, 0.5, 3_000, 2_000)
