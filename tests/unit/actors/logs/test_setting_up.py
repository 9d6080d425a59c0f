"""How processes log: by the levels of the driver, in the format that an option says, and each line says whose it is."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from actors.client.executors import _with_log_levels
from actors.logs import setting_up
from actors.logs.context import LogContext, enter_process, log_context
from actors.logs.levels import levels_of_this_process
from actors.logs.setting_up import LogSettings, own_process, set_up
from flinkray.config.configuration import Configuration
from flinkray.config.options import LOG_FORMAT, LOG_LEVELS
from flinkray.execution import Pipeline


@contextmanager
def logging_as_at_the_beginning() -> Iterator[logging.Logger]:
    """The root logger without handlers, as a process has it before anybody sets up logging."""
    root, mine = logging.getLogger(), logging.getLogger("mine.of.this.test")
    handlers, level = list(root.handlers), root.level
    factory, last_resort = logging.getLogRecordFactory(), logging.lastResort
    root.handlers = []
    root.setLevel(logging.WARNING)
    try:
        yield root
    finally:
        root.handlers = handlers
        root.setLevel(level)
        logging.setLogRecordFactory(factory)
        logging.lastResort = last_resort
        setting_up._owns_process = False
        enter_process(LogContext())
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
        settings = LogSettings({"root": "INFO", "mine.of.this.test": "Level 15"})
        set_up(settings, LogContext("4f2c81aa" * 4, "flights"))
        with log_context(LogContext("4f2c81aa" * 4, "flights", "map", 0, 3, "map (1/2)")):
            logging.getLogger("any").info("seen")
        logging.getLogger("any").debug("not seen")
        logging.getLogger("mine.of.this.test").log(15, "seen, too")
        lines = [line.partition("Z ")[2] for line in capsys.readouterr().err.splitlines()]
        assert lines == [
            "INFO any [flights 4f2c81aa: map (1/2)#3]: seen",
            "Level 15 mine.of.this.test: seen, too",
        ]


@pytest.mark.parametrize(
    ("format_", "is_own_process", "had_handler", "first"),
    [
        (None, False, False, ""),  # a program that has set up nothing sees what it always did
        (None, False, True, "as the program has it: "),
        ("text", False, True, "20"),
        ("json", False, True, "{"),
        ("json", False, False, "{"),
        (None, True, False, "20"),
        ("json", True, False, "{"),
        (None, True, True, "as the program has it: "),  # a module of the program, loaded by its process, has set it up
    ],
)
def test_a_process_of_the_program_keeps_its_format_unless_an_option_sets_one(
    format_: str | None, is_own_process: bool, had_handler: bool, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_as_at_the_beginning() as root:
        if had_handler:
            logging.basicConfig(format="as the program has it: %(message)s")
        settings = LogSettings.of(Configuration({LOG_FORMAT.key: format_} if format_ else {}))
        (own_process if is_own_process else set_up)(settings, LogContext("1" * 32))
        if first:
            root.warning("seen")
            assert capsys.readouterr().err.startswith(first)
        else:
            assert root.handlers == []


def test_a_function_may_set_up_logging_where_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_at_the_beginning() as root:
        own_process(LogSettings(), LogContext())
        set_up(LogSettings(), LogContext("1" * 32))
        logging.basicConfig(level=logging.INFO, format="mine: %(message)s")
        root.info("seen")
        assert capsys.readouterr().err == "mine: seen\n"


def test_a_job_sets_the_format_once_more_in_a_process_that_had_another(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as_at_the_beginning() as root:
        own_process(LogSettings(), LogContext())
        set_up(LogSettings(format="json", is_format_set=True), LogContext("1" * 32, "job"))
        root.warning("seen")
        thread = threading.Thread(target=root.warning, args=("of a thread that the program has started",))
        thread.start()
        thread.join()
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [line["job_name"] for line in lines] == ["job", "job"]


def test_files_that_the_program_logs_to_keep_their_format(tmp_path: Path) -> None:
    with logging_as_at_the_beginning() as root:
        logging.basicConfig(filename=tmp_path / "log", format="mine: %(message)s %(flinkray)s")
        set_up(LogSettings(format="json", is_format_set=True), LogContext())
        with log_context(LogContext("1" * 32, "job")):
            root.warning("seen")
        root.handlers[0].close()
        assert (tmp_path / "log").read_text() == "mine: seen job 11111111\n"


def test_a_job_takes_the_levels_along_unless_it_sets_its_own() -> None:
    with logging_as_at_the_beginning():
        pipeline = Pipeline("job", (), Configuration())
        assert _with_log_levels(pipeline) is pipeline
        logging.basicConfig(level=logging.INFO)
        assert _with_log_levels(pipeline).configuration.get(LOG_LEVELS)["root"] == "INFO"
        own = replace(pipeline, configuration=Configuration({LOG_LEVELS.key: "root:ERROR"}))
        assert _with_log_levels(own).configuration.get(LOG_LEVELS) == {"root": "ERROR"}
