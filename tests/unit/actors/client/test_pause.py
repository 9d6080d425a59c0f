"""How long a client waits between two questions."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from actors.client import pauses
from actors.client.pauses import FIRST_PAUSE_S, LONGEST_PAUSE_S, MOST_PATIENT_S, PATIENT_SHARE, Pause


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    noted: list[float] = []
    # Its own events alone: threads that others have left in this process wait for theirs.
    event = SimpleNamespace(wait=noted.append)
    monkeypatch.setattr(pauses, "threading", SimpleNamespace(Event=lambda: event))
    return noted


@pytest.mark.parametrize(("given", "first_s"), [(None, FIRST_PAUSE_S), (0.001, 0.001)])
def test_pauses_grow_and_begin_anew(given: float | None, first_s: float, waited: list[float]) -> None:
    pause = Pause(given)
    for _ in range(50):
        pause.wait()
    assert waited[0] == first_s
    assert waited == sorted(waited)
    assert waited[-1] == LONGEST_PAUSE_S
    pause.reset()
    pause.wait()
    assert waited[-1] == first_s


def test_who_is_patient_waits_for_a_share_of_the_time_so_far(waited: list[float]) -> None:
    pause = Pause()
    pause.is_patient = True
    while sum(waited) < 10:
        pause.wait()
    assert max(waited) == pytest.approx(PATIENT_SHARE * 10, rel=0.05)
    while sum(waited) < 100:
        pause.wait()
    assert waited[-1] == MOST_PATIENT_S


def test_no_pause_is_longer_than_the_deadline_leaves(waited: list[float]) -> None:
    Pause().wait(time.monotonic() + FIRST_PAUSE_S / 2)
    Pause().wait(time.monotonic() - 1)
    assert 0 < waited[0] <= FIRST_PAUSE_S / 2
    assert waited[1] == 0
