"""The restart of a job that is under way: which subtasks end now, to run again, and not before when."""

from __future__ import annotations

from msgspec import Struct

from graphs.execution_graph import ExecutionGraph, ExecutionVertexId
from graphs.states import ExecutionState


class PendingRestart(Struct):
    """A restart: the subtasks that end now, to run again."""

    number: int
    """Grows with every failure that begins a restart, or joins one."""
    vertices: frozenset[ExecutionVertexId]
    due: int
    """The subtasks do not run again before this, in epoch milliseconds."""
    is_global: bool
    """The job is restarted as a whole."""
    is_of_failure: bool
    """It began with a failure, or one has joined it; else the job is rescaled."""
    unended: list[ExecutionVertexId]
    """Subtasks of whom it is not known yet that their attempts have ended."""
    is_reset: bool = False
    """All have ended and have a new attempt; whoever owns the scheduler is to say what they start from."""


class Restarts:
    """The restarts of one job, one after the other: a failure begins one, or joins the one that is under way.

    Not thread-safe.
    """

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._number = 0
        self.begun = 0
        """How many have begun; failures that join a restart do not count."""
        self.pending: PendingRestart | None = None
        """The restart that is under way."""

    def begin(
        self, vertices: frozenset[ExecutionVertexId], due: int, is_global: bool, *, is_of_failure: bool = True
    ) -> tuple[ExecutionVertexId, ...]:
        """These subtasks are to run again, together with those of a restart that is under way; gives all of them.

        Args:
            due: not before this, in epoch milliseconds, nor before a restart that is under way was due.
            is_global: the job has failed as a whole.
            is_of_failure: something has failed.
        """
        self._number += 1
        former = self.pending
        if former is None:
            self.begun += 1
        else:
            vertices, due, is_global = vertices | former.vertices, max(due, former.due), is_global or former.is_global
            is_of_failure = is_of_failure or former.is_of_failure
        ordered = [vertex for vertex in self._graph.vertices if vertex in vertices]
        self.pending = PendingRestart(self._number, vertices, due, is_global, is_of_failure, unended=ordered)
        return tuple(ordered)

    @property
    def are_of_failure(self) -> bool:
        """Whether a restart is under way that a failure has led to."""
        return self.pending is not None and self.pending.is_of_failure

    def take_due(self, now: int) -> PendingRestart | None:
        """The restart whose subtasks have all ended, once its delay is over; given once. They get new attempts now."""
        restart = self.pending
        if restart is None or restart.is_reset or now < restart.due:
            return None
        while restart.unended:
            state = self._graph.vertices[restart.unended[-1]].current.state
            if not (state.is_terminal or state is ExecutionState.CREATED):
                return None
            restart.unended.pop()
        restart.is_reset = True
        return restart

    def include_all(self) -> None:
        """The graph has other subtasks now, all of which are to run: those of the restart that is under way."""
        assert self.pending is not None
        assert self.pending.is_reset
        self.pending.vertices = frozenset(self._graph.vertices)

    def end(self, number: int | None = None) -> bool:
        """The restart of that number is over, or whichever is under way; False: there is no such restart (any more)."""
        if self.pending is None or number not in (None, self.pending.number):
            return False
        self.pending = None
        return True

    def includes(self, vertex: ExecutionVertexId) -> bool:
        """Whether the subtask is to run again, as soon as what it restarts with has ended."""
        return self.pending is not None and vertex in self.pending.vertices
