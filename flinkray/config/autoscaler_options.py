"""The options of the autoscaler, by the keys of Flink's (of its Kubernetes operator).

Its times are shorter by default: a rescale takes seconds here, and not minutes.
"""

from __future__ import annotations

from flinkray.config.option import Valid, at_least, option
from flinkray.config.parsers import duration as _duration
from flinkray.config.parsers import number as _float
from flinkray.config.parsers import text as _str
from flinkray.config.parsers import truth as _bool
from flinkray.config.parsers import whole_number as _int
from flinkray.types.records import Millis

_PART = Valid(lambda value: 0 < value <= 1, "above 0 and at most 1")

AUTOSCALER_ENABLED = option(
    "job.autoscaler.enabled",
    _bool,
    False,
    "Whether a streaming job with checkpoints is given the parallelism that its load needs while it runs.",
)
SCALING_ENABLED = option(
    "job.autoscaler.scaling.enabled",
    _bool,
    True,
    "Whether the autoscaler rescales the job; else its log says what it would do.",
)
METRICS_WINDOW = option(
    "job.autoscaler.metrics.window",
    _duration,
    Millis(60_000),
    "The time over which the autoscaler takes the mean of the load.",
    unit="ms",
    valid=at_least(1_000),
)
STABILIZATION_INTERVAL = option(
    "job.autoscaler.stabilization.interval",
    _duration,
    Millis(30_000),
    "The time after a start, restart or rescale whose load the autoscaler leaves out.",
    unit="ms",
    valid=at_least(0),
)
TARGET_UTILIZATION = option(
    "job.autoscaler.utilization.target",
    _float,
    0.7,
    "The part of its time that the busiest subtask of a vertex is to be busy for.",
    valid=_PART,
)
MAX_UTILIZATION = option(
    "job.autoscaler.utilization.max",
    _float,
    1.0,
    "A vertex that would be busy for more of its time than this gets more subtasks.",
    valid=_PART,
)
MIN_UTILIZATION = option(
    "job.autoscaler.utilization.min",
    _float,
    0.4,
    "A vertex that would be busy for less of its time than this gets fewer subtasks.",
    valid=Valid(lambda value: 0 <= value <= 1, "from 0 to 1"),
)
CATCH_UP_DURATION = option(
    "job.autoscaler.catch-up.duration",
    _duration,
    Millis(600_000),
    "The time in which rows that wait for sources are to be read beside those that come.",
    unit="ms",
    valid=at_least(1_000),
)
RESTART_TIME = option(
    "job.autoscaler.restart.time",
    _duration,
    Millis(10_000),
    "How long a rescale takes; what comes meanwhile has to be caught up with.",
    unit="ms",
    valid=at_least(0),
)
SCALE_DOWN_INTERVAL = option(
    "job.autoscaler.scale-down.interval",
    _duration,
    Millis(600_000),
    "For so long a vertex has to need fewer subtasks before it gets as many as it needed at most meanwhile.",
    unit="ms",
    valid=at_least(0),
)
MAX_SCALE_DOWN_FACTOR = option(
    "job.autoscaler.scale-down.max-factor",
    _float,
    0.6,
    "The largest part of its subtasks that a vertex loses at once.",
    valid=Valid(lambda value: 0 <= value <= 1, "from 0 to 1"),
)
MAX_SCALE_UP_FACTOR = option(
    "job.autoscaler.scale-up.max-factor",
    _float,
    100_000.0,
    "How many times as many subtasks as it has a vertex gets at once in addition, at most.",
    valid=at_least(0.0),
)
VERTEX_MIN_PARALLELISM = option(
    "job.autoscaler.vertex.min-parallelism",
    _int,
    1,
    "The fewest subtasks to which the autoscaler brings a vertex.",
    valid=at_least(1),
)
VERTEX_MAX_PARALLELISM = option(
    "job.autoscaler.vertex.max-parallelism",
    _int,
    200,
    "The most subtasks to which the autoscaler brings a vertex.",
    valid=at_least(1),
)
VERTEX_EXCLUDE_IDS = option(
    "job.autoscaler.vertex.exclude.ids",
    _str,
    "",
    "The ids or names of vertices that the autoscaler leaves as they are, with semicolons between them.",
)
BACKLOG_LAG_THRESHOLD = option(
    "job.autoscaler.backlog-processing.lag-threshold",
    _duration,
    Millis(300_000),
    "While rows wait for a source that take longer than this to read, no vertex gets fewer subtasks.",
    unit="ms",
    valid=at_least(0),
)
