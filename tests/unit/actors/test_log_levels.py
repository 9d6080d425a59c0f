"""The log levels of the driver are those of the processes in which its functions run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from actors.client.executors import _with_log_levels
from actors.user_code.log_levels import levels_of_this_process, set_levels
from flinkray.config.configuration import Configuration
from flinkray.config.options import LOG_LEVELS
from flinkray.execution import Pipeline


@contextmanager
def logging_as_at_the_beginning() -> Iterator[logging.Logger]:
    """The root logger without handlers, as a process has it before anybody sets up logging."""
    root, mine = logging.getLogger(), logging.getLogger("mine.of.this.test")
    handlers, level = list(root.handlers), root.level
    root.handlers = []
    root.setLevel(logging.WARNING)
    try:
        yield root
    finally:
        root.handlers = handlers
        root.setLevel(level)
        mine.setLevel(logging.NOTSET)


def test_levels_are_those_that_were_set_and_none_without_a_handler() -> None:
    with logging_as_at_the_beginning():
        assert levels_of_this_process() == {}
        logging.basicConfig(level=logging.INFO)
        logging.getLogger("mine.of.this.test").setLevel(15)
        levels = levels_of_this_process()
        assert levels["root"] == "INFO"
        assert levels["mine.of.this.test"] == "Level 15"


def test_another_process_shows_what_this_one_would(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_at_the_beginning():
        set_levels({"root": "INFO", "mine.of.this.test": "Level 15"})
        logging.getLogger("any").info("seen")
        logging.getLogger("any").debug("not seen")
        logging.getLogger("mine.of.this.test").log(15, "seen, too")
        shown = [line.partition("any: ")[2] or line for line in capsys.readouterr().err.splitlines()]
        assert len(shown) == 2
        assert shown[0] == "seen"
        assert shown[1].endswith("seen, too")


def test_nothing_is_set_up_where_no_level_is_given() -> None:
    with logging_as_at_the_beginning() as root:
        set_levels({})
        assert not root.handlers


def test_a_job_takes_the_levels_along_unless_it_sets_its_own() -> None:
    with logging_as_at_the_beginning():
        pipeline = Pipeline("job", (), Configuration())
        assert _with_log_levels(pipeline) is pipeline
        logging.basicConfig(level=logging.INFO)
        assert _with_log_levels(pipeline).configuration.get(LOG_LEVELS)["root"] == "INFO"
        own = replace(pipeline, configuration=Configuration({LOG_LEVELS.key: "root:ERROR"}))
        assert _with_log_levels(own).configuration.get(LOG_LEVELS) == {"root": "ERROR"}
