"""The options of tables and SQL. Keys are Flink's."""

from __future__ import annotations

from flinkray.config.option import Valid, at_least, one_of, option
from flinkray.config.parsers import constant, duration, text, truth, whole_number
from flinkray.time.zone_names import is_time_zone
from flinkray.types.records import Millis

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
ASYNC_AT_ONCE = option(
    "table.exec.async-scalar.max-concurrent-operations",
    whole_number,
    10,
    "For how many rows an asynchronous function of the user's is awaited at a time.",
    valid=at_least(1),
)
ASYNC_TIMEOUT = option(
    "table.exec.async-scalar.timeout",
    duration,
    Millis(180_000),
    "How long an asynchronous function of the user's may take for a row, with all attempts.",
    unit="ms",
)
ASYNC_RETRIES = option(
    "table.exec.async-scalar.retry-strategy",
    constant,
    "FIXED_DELAY",
    "Whether an asynchronous function of the user's that raises is called again for the row.",
    valid=one_of("FIXED_DELAY", "NO_RETRY"),
)
ASYNC_ATTEMPTS = option(
    "table.exec.async-scalar.max-attempts",
    whole_number,
    3,
    "How often an asynchronous function of the user's is called for a row before the job fails.",
    valid=at_least(1),
)
ASYNC_DELAY = option(
    "table.exec.async-scalar.retry-delay",
    duration,
    Millis(100),
    "How long after a call that failed the next one begins.",
    unit="ms",
)
PLAN_COMPILE = option(
    "table.plan.compile.catalog-objects",
    constant,
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
    constant,
    "ALL",
    "Where the options of a compiled plan's tables are from: ALL: the plan, and what it does not hold the catalog; "
    "ALL_ENFORCED: the plan alone; IDENTIFIER: the catalog.",
    valid=one_of("ALL", "ALL_ENFORCED", "IDENTIFIER"),
)
SQL_DIALECT = option("table.sql-dialect", text, "default", "Whose SQL statements are.", valid=one_of("default"))
DYNAMIC_OPTIONS = option(
    "table.dynamic-table-options.enabled", truth, True, "Whether a hint OPTIONS may change the options of a table."
)
DEFAULT_PARALLELISM = option(
    "table.exec.resource.default-parallelism",
    whole_number,
    -1,
    "Subtasks of each operator of a statement's job; -1: as parallelism.default says.",
    valid=Valid(lambda value: value == -1 or value >= 1, "at least 1, or -1"),
)

# -- how many changes come out

MINI_BATCH = option(
    "table.exec.mini-batch.enabled",
    truth,
    False,
    "Whether aggregates of GROUP BY, joins, the first or last rows of keys, and what makes changes whole wait for more "
    "rows than come at once, so that of a row that changes often fewer changes come out. Rows are processed as soon as "
    "there are table.exec.mini-batch.size, the first has waited for table.exec.mini-batch.allow-latency, or a barrier "
    "comes. Without it, what comes at once is processed at once.",
)
MINI_BATCH_LATENCY = option(
    "table.exec.mini-batch.allow-latency",
    duration,
    Millis(0),
    "How long a row waits for others; a mini-batch needs it.",
    unit="ms",
)
MINI_BATCH_SIZE = option(
    "table.exec.mini-batch.size", whole_number, -1, "Rows that wait for each other at most; a mini-batch needs it."
)
ROW_BY_ROW = option(
    "flinkray.table.row-by-row",
    truth,
    False,
    "Whether each row is processed on its own, so that results have every change between two rows, as Flink gives them "
    "without mini-batches. It costs almost a millisecond a row.",
)

# -- what is read and written

CDC_DUPLICATES = option(
    "table.exec.source.cdc-events-duplicate",
    truth,
    False,
    "Whether changes of tables with a PRIMARY KEY may come several times, so that they are compared with the last row "
    "of their key, which is kept.",
)
NOT_NULL_ENFORCER = option(
    "table.exec.sink.not-null-enforcer",
    constant,
    "ERROR",
    "What becomes of a row with NULL in a column that is NOT NULL in the table that is written: the job fails (ERROR), "
    "or the row is left out (DROP).",
    valid=one_of("ERROR", "DROP"),
)
TYPE_LENGTH_ENFORCER = option(
    "table.exec.sink.type-length-enforcer",
    constant,
    "IGNORE",
    "What becomes of values that do not have the length of their column, of type CHAR(n), VARCHAR(n), BINARY(n) or "
    "VARBINARY(n): they are written (IGNORE), cut and, in CHAR and BINARY, filled up (TRIM_PAD), or the job fails "
    "(ERROR).",
    valid=one_of("IGNORE", "TRIM_PAD", "ERROR"),
)
UPSERT_MATERIALIZE = option(
    "table.exec.sink.upsert-materialize",
    constant,
    "AUTO",
    "Whether rows for a table that replaces those of equal primary key are kept, so that when the last one goes the "
    "one before it comes back: where several may have that key at a time (AUTO), always where rows change (FORCE), or "
    "never (NONE), which leaves the row of the old key where an update changes that.",
    valid=one_of("AUTO", "FORCE", "NONE"),
)
KEYED_SHUFFLE = option(
    "table.exec.sink.keyed-shuffle",
    constant,
    "AUTO",
    "Whether rows for a table with a PRIMARY KEY go to subtasks of its sink by that key: where the sink has another "
    "parallelism than what comes before it (AUTO), wherever it has several subtasks (FORCE), or never (NONE).",
    valid=one_of("AUTO", "FORCE", "NONE"),
)
REQUIRE_ON_CONFLICT = option(
    "table.exec.sink.require-on-conflict",
    truth,
    False,
    "Whether an INSERT of rows that change is refused where several of them may have the same primary key at a time.",
)
