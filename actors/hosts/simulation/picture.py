"""A picture of a simulated cluster as text: who waits for what. It is part of every error of a simulation."""

from __future__ import annotations

from collections.abc import Iterable

from actors.hosts.simulation.mail import MessageChannel
from actors.hosts.simulation.process import SimulatedProcess
from actors.hosts.simulation.schedule import START_MS, Schedule


def draw(processes: Iterable[SimulatedProcess], channels: Iterable[MessageChannel], schedule: Schedule) -> str:
    """Draws every process with its loops, and every message that is under way."""
    lines = [f"{schedule.steps} steps, {schedule.now - START_MS:.0f} ms of virtual time", "processes:"]
    for process in sorted(processes, key=lambda each: each.address):
        lines.extend(_of_process(process))
    lines.append("under way:")
    under_way = [channel for channel in channels if channel.head is not None]
    for channel in sorted(under_way, key=lambda each: (str(each.sender), each.receiver)):
        head = channel.head
        assert head is not None
        waits = max(0.0, head.ready_ms - schedule.now)
        lines.append(f"  {channel.sender} -> {channel.receiver}: {len(channel)}, first {head.kind} in {waits:.0f} ms")
    return "\n".join(lines)


def _of_process(process: SimulatedProcess) -> list[str]:
    state = f"{process.state.value}{', paused' if process.is_paused else ''}"
    lines = [f"  {process} ({process.kind}): {state}"]
    for steps in process.loops:
        what = "in the middle of a step" if steps.is_active else "has work" if steps.index is not None else "idle"
        described = getattr(steps.loop, "picture", None)
        lines.append(f"    {steps.name}: {what}{'; ' + described() if described is not None else ''}")
    return lines
