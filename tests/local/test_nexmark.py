"""Nexmark's queries come to the answers of Flink 2.3, which are kept in `tests/data/sql/nexmark_answers.json`."""

from __future__ import annotations

import json

import pytest

from benchmarks.nexmark.answers import stored
from benchmarks.nexmark.checking import STORED_EVENTS, STORED_PER_SECOND
from benchmarks.nexmark.events import EventTimes
from benchmarks.nexmark.program import stream_answer
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.source import NexmarkSource
from tests.support.flink_statements import DATA
from tests.support.jobs import environment

ANSWERS: dict[str, list[str] | str] = json.loads((DATA / "nexmark_answers.json").read_text())


@pytest.mark.parametrize("name", [name for name, query in QUERIES.items() if not query.no_answer])
def test_a_query_of_nexmark_comes_to_the_answer_of_flink(name: str) -> None:
    env = environment()
    events = NexmarkSource(STORED_EVENTS, EventTimes(STORED_PER_SECOND))
    assert stored(stream_answer(env, QUERIES[name], events)) == ANSWERS[name]
