"""Where the time of threads went, by what they were doing: the pure part of sampling their stacks."""

from __future__ import annotations

from collections import deque

from actors.protocol.client_requests import StackTime

# Answers cover the last minute: twelve windows of five seconds.
WINDOWS = 12

# Of one thread, in one window. Stacks of which there are more count together, so that what is kept stays small whatever
# the thread does.
MOST_STACKS = 1_000
OTHERS = "(other stacks)"

# Recursion may be deeper; then the middle is left out.
MOST_FRAMES = 200


class StackTimes:
    """The times of one thread by its stacks, in windows. Not thread-safe."""

    def __init__(self) -> None:
        self._windows: deque[dict[tuple[str, ...], list[int]]] = deque([{}], maxlen=WINDOWS)

    def add(self, frames: tuple[str, ...], wall_us: int, cpu_us: int) -> None:
        """Counts time for a stack, whose outermost frame comes first."""
        window = self._windows[-1]
        times = window.get(frames)
        if times is None:
            key = frames if len(window) < MOST_STACKS else (OTHERS,)
            times = window.setdefault(key, [0, 0])
        times[0] += wall_us
        times[1] += min(cpu_us, wall_us)

    def next_window(self) -> None:
        """Begins a window; the oldest one is forgotten once there are too many."""
        self._windows.append({})

    def total(self) -> tuple[StackTime, ...]:
        """The times in all windows."""
        sums: dict[tuple[str, ...], list[int]] = {}
        for window in self._windows:
            for frames, (wall_us, cpu_us) in window.items():
                times = sums.setdefault(frames, [0, 0])
                times[0] += wall_us
                times[1] += cpu_us
        return tuple(StackTime(frames, *times) for frames, times in sums.items())


def shortened(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Frames without the middle, where there are too many."""
    if len(frames) <= MOST_FRAMES:
        return frames
    half = MOST_FRAMES // 2
    return (*frames[:half], f"({len(frames) - 2 * half} frames left out)", *frames[-half:])
