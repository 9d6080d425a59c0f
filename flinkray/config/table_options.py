"""The options of tables and SQL. Keys are Flink's."""

from __future__ import annotations

from flinkray.config.option import Valid, at_least, one_of, option
from flinkray.config.parsers import duration, text, truth, whole_number
from flinkray.time.zone_names import is_time_zone
from flinkray.types.records import Millis


def _capitals(raw: object) -> str:
    return text(raw).strip().upper()


DISPLAY_WIDTH = option(
    "table.display.max-column-width",
    whole_number,
    30,
    "Characters that a printed column has at most, where its type does not say how many.",
    valid=at_least(1),
)
DML_SYNC = option("table.dml-sync", truth, False, "Whether INSERT returns when its job has ended.")
LOCAL_TIME_ZONE = option(
    "table.local-time-zone",
    text,
    "UTC",
    "The time zone in which SQL shows instants, and takes dates and times of day to be.",
    valid=Valid(is_time_zone, "a full name such as 'America/New_York', or an offset such as 'GMT-08:00'"),
)
STATE_TTL = option(
    "table.exec.state.ttl",
    duration,
    Millis(0),
    "How long state of queries is kept that is not written; 0: for ever.",
    unit="ms",
)
SOURCE_IDLE_TIMEOUT = option(
    "table.exec.source.idle-timeout",
    duration,
    Millis(0),
    "After how long without rows a source of a table holds the watermark back no more; 0: each does at all times.",
    unit="ms",
)
PLAN_COMPILE = option(
    "table.plan.compile.catalog-objects",
    _capitals,
    "ALL",
    "What compiled plans hold of tables of a catalog: ALL with their options but for secrets, or their SCHEMA alone.",
    valid=Valid(
        lambda value: value in ("ALL", "SCHEMA"),
        "ALL or SCHEMA; without the columns of tables nobody would know of a plan that they have changed",
    ),
)
PLAN_FORCE_RECOMPILE = option(
    "table.plan.force-recompile", truth, False, "Whether COMPILE PLAN writes over a file that is there."
)
PLAN_RESTORE = option(
    "table.plan.restore.catalog-objects",
    _capitals,
    "ALL",
    "Where the options of a compiled plan's tables are from: ALL: the plan, and what it does not hold the catalog; "
    "ALL_ENFORCED: the plan alone; IDENTIFIER: the catalog.",
    valid=one_of("ALL", "ALL_ENFORCED", "IDENTIFIER"),
)
SQL_DIALECT = option("table.sql-dialect", text, "default", "Whose SQL statements are.", valid=one_of("default"))
