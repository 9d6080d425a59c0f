"""Lines of the log, as text for people or as JSON for machines. Times are in UTC, as machines may differ in zones."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has."""
_CONTEXT = ("job_id", "job_name", "vertex", "subtask", "attempt")


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO logger [job id: task (1/2)#0]: message`; the brackets are left out where it is
    nobody's."""

    converter = time.gmtime  # type: ignore[assignment]  # its stub knows it without an argument only
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def formatMessage(self, record: logging.LogRecord) -> str:
        whose = getattr(record, "flinkray", "")
        mark = f" [{whose}]" if whose else ""
        return f"{self.formatTime(record)} {record.levelname} {record.name}{mark}: {record.message}"


class JsonFormatter(TextFormatter):
    """One JSON object in a line: time, level, logger, message; job_id, job_name, vertex, subtask and attempt as far as
    it has them; exception, a traceback; and extra, what the program has given to the record."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _CONTEXT:
            value = getattr(record, f"flinkray_{name}", None)
            if value is not None and value != "":
                line[name] = value
        if trouble := self._trouble(record):
            line["exception"] = trouble
        own = record.__dict__
        if extra := {name: own[name] for name in own if name not in _PLAIN and not name.startswith("flinkray")}:
            line["extra"] = extra
        return json.dumps(line, default=str)

    def _trouble(self, record: logging.LogRecord) -> str:
        parts = [self.formatException(record.exc_info) if record.exc_info else record.exc_text, record.stack_info]
        return "\n".join(filter(None, parts))


FORMATTERS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}
"""By the values of the option `flinkray.logging.format`."""
