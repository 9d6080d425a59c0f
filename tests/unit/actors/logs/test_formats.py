"""How a line of the log is written, and how lines of several processes are put in order."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from actors.logs.context import LogContext
from actors.logs.formats import JsonFormatter, TextFormatter
from actors.logs.merging import merged

SUBTASK = LogContext("4f2c81aa" * 4, "flights", "Source: numbers -> map", 1, 3, "Source: numbers -> map (2/2)")
AT = "1970-01-01T00:00:01.234Z"


def record_of(message: str, context: LogContext, *arguments: Any, **extra: Any) -> logging.LogRecord:
    record = logging.LogRecord("mine", logging.INFO, __file__, 1, message, arguments, None)
    record.created, record.msecs = 1.234, 234.0
    record.__dict__.update(context.attributes, **extra)
    return record


@pytest.mark.parametrize(
    ("context", "text", "parts"),
    [
        (LogContext(), f"{AT} INFO mine: saw 5", {}),
        (
            LogContext("1" * 32, "flights"),
            f"{AT} INFO mine [flights 11111111]: saw 5",
            {"job_id": "1" * 32, "job_name": "flights"},
        ),
        (
            SUBTASK,
            f"{AT} INFO mine [flights 4f2c81aa: Source: numbers -> map (2/2)#3]: saw 5",
            {
                "job_id": "4f2c81aa" * 4,
                "job_name": "flights",
                "vertex": "Source: numbers -> map",
                "subtask": 1,
                "attempt": 3,
            },
        ),
    ],
)
def test_a_line_says_whose_it_is_as_far_as_it_is_anybodys(context: LogContext, text: str, parts: Any) -> None:
    assert TextFormatter().format(record_of("saw %s", context, 5)) == text
    line = {"time": AT, "level": "INFO", "logger": "mine", "message": "saw 5"}
    assert json.loads(JsonFormatter().format(record_of("saw %s", context, 5))) == {**line, **parts}


def test_json_is_one_line_whatever_is_logged() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "odd"

    try:
        raise ValueError("of two\nlines")
    except ValueError:
        record = record_of('"\n\u2028 \udc80 \xfc', SUBTASK, order=Odd())
        record.exc_info = sys.exc_info()
    text = JsonFormatter().format(record)
    assert len(text.splitlines()) == 1
    line = json.loads(text.encode("ascii"))
    assert line["message"] == '"\n\u2028 \udc80 \xfc'
    assert line["exception"].endswith("ValueError: of two\nlines")
    assert line["extra"] == {"order": "odd"}, "what the program gives to a record itself"


def test_lines_of_several_processes_are_in_the_order_of_time_with_what_belongs_to_them() -> None:
    def at(second: int) -> str:
        return f"2026-01-31T12:00:0{second}.000Z"

    one = f"(the end of a line\n:actor_name:TaskSlot\n{at(1)} one\nTraceback\n  of one\n"
    one += f"{at(5)} late\n{at(4)} older, but after it"
    other = f'{{"time": "{at(2)}", "message": "two"}}\n{at(3)} three\n'
    assert merged([one, other, ""]).splitlines() == [
        "(the end of a line",
        f"{at(1)} one",
        "Traceback",
        "  of one",
        f'{{"time": "{at(2)}", "message": "two"}}',
        f"{at(3)} three",
        f"{at(5)} late",
        f"{at(4)} older, but after it",
    ]
