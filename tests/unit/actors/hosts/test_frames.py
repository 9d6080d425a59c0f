"""Frames of other threads."""

from __future__ import annotations

import dis
import sys
import threading

from actors.hosts import frames


def test_following_frames_is_one_call() -> None:
    """Between instructions of Python other threads may run, and to follow frames that go on crashes it now and then."""
    instructions = [each.opname for each in dis.get_instructions(frames._walk)]
    last_call = len(instructions) - 1 - instructions[::-1].index("CALL")
    assert [name for name in instructions[last_call + 1 :] if name != "CACHE"] == ["RETURN_VALUE"]
    assert not any("JUMP" in name or "FOR_ITER" in name for name in instructions)
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_name) if event == "call" else None)
    try:
        found = frames._walk(threading.get_ident())
    finally:
        sys.setprofile(None)
    assert seen == ["_walk"]
    assert [code.co_name for code, _ in found[:2]] == ["_walk", "test_following_frames_is_one_call"]


def test_a_thread_that_has_ended_has_no_frames() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert thread.ident is not None
    assert frames.frames_of(thread.ident) == []
