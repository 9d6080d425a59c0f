"""Snapshots written to memory, and given back to the subtasks of a restored job: what storage does, without files."""

from __future__ import annotations

from collections.abc import Sequence

from actors.protocol.checkpoint_handles import OperatorSubtaskState
from actors.state.snapshots.snapshot import OperatorSnapshot
from actors.testing.snapshots import MemoryRestoredState, RecordingStateWriter
from actors.testing.snapshots import delete_shared as delete_shared


def write_snapshot(
    snapshot: OperatorSnapshot | None, writer: RecordingStateWriter | None = None
) -> OperatorSubtaskState:
    """Writes the parts, once: a second call gives what the first one wrote. None: an operator without state."""
    if snapshot is None:
        return OperatorSubtaskState()
    written: OperatorSubtaskState | None = vars(snapshot).get("written_for_tests")
    if written is None:
        writer = writer or RecordingStateWriter()
        parts = tuple(part.write(writer) for part in snapshot.parts)
        written = OperatorSubtaskState(parts)
        vars(snapshot)["written_for_tests"] = written
    return written


def restored_from(
    snapshots: Sequence[OperatorSnapshot | OperatorSubtaskState | None],
    owned: range,
    subtask_index: int = 0,
    parallelism: int = 1,
    checkpoint_id: int = 1,
) -> MemoryRestoredState:
    """What one subtask gets of the snapshots of all former subtasks, which come in the order of their indices.

    Args:
        owned: the key groups of the new subtask.
    """
    written = [each if isinstance(each, OperatorSubtaskState) else write_snapshot(each) for each in snapshots]
    return MemoryRestoredState(written, owned, subtask_index, parallelism, checkpoint_id)
