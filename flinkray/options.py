"""All options, in one place. Keys are Flink's where Flink has the option."""

from __future__ import annotations

from flinkray.config import at_least, one_of, option
from flinkray.durations import to_millis
from flinkray.types import Millis


def _int(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        raise TypeError("expected a whole number")
    return int(raw)


def _float(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise TypeError("expected a number")
    return float(raw)


def _str(raw: object) -> str:
    if not isinstance(raw, str):
        raise TypeError("expected text")
    return raw


def _bool(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    raise TypeError("expected true or false")


def _duration(raw: object) -> Millis:
    if not isinstance(raw, int | str) and not hasattr(raw, "total_seconds"):
        raise TypeError("expected a duration such as '10 s'")
    return to_millis(raw)  # type: ignore[arg-type]


# -- the program -------------------------------------------------------------------------------------------------

PARALLELISM = option(
    "parallelism.default", _int, 1, "Subtasks of an operator that sets no parallelism of its own.", valid=at_least(1)
)
PIPELINE_NAME = option("pipeline.name", _str, "flinkray job", "Name of a job for which execute() is given none.")
MAX_PARALLELISM = option(
    "pipeline.max-parallelism",
    _int,
    0,
    "Number of key groups, the limit of rescaling; 0: next power of two above 1.5 x parallelism, at least 128.",
    valid=at_least(0),
)
OPERATOR_CHAINING = option(
    "pipeline.operator-chaining.enabled", _bool, True, "Whether operators may share a task with their neighbours."
)
OBJECT_REUSE = option("pipeline.object-reuse", _bool, False, "Accepted for Flink programs; batches are immutable.")
AUTO_WATERMARK_INTERVAL = option(
    "pipeline.auto-watermark-interval", _duration, Millis(200), "How often watermarks are emitted; 0: never.", unit="ms"
)
BUFFER_TIMEOUT = option(
    "execution.buffer-timeout.interval",
    _duration,
    Millis(100),
    "How long rows may wait for more before they are sent; 0: after every batch.",
    unit="ms",
)
RUNTIME_MODE = option(
    "execution.runtime-mode",
    lambda raw: _str(raw).lower(),
    "streaming",
    "How bounded programs run.",
    valid=one_of("streaming"),
)
TARGET = option(
    "execution.target",
    _str,
    "ray",
    "Where the job runs: local (this process), ray (a cluster for this job), ray-session (a session by name).",
)
ATTACHED = option("execution.attached", _bool, True, "Whether execute() waits for the job's end.")

# -- batches and the network -------------------------------------------------------------------------------------

BATCH_ROWS = option(
    "flinkray.batch.target-rows", _int, 65_536, "Rows that a batch aims at.", valid=at_least(1), unit="rows"
)
BATCH_BYTES = option(
    "flinkray.batch.target-bytes", _int, 1 << 20, "Bytes that a batch aims at.", valid=at_least(1), unit="bytes"
)
EXCLUSIVE_BUFFERS = option(
    "taskmanager.network.memory.buffers-per-channel",
    _int,
    2,
    "Batches a sender may have in flight on one channel by right.",
    valid=at_least(1),
    unit="batches",
)
FLOATING_BUFFERS = option(
    "taskmanager.network.memory.floating-buffers-per-gate",
    _int,
    8,
    "Further batches in flight that the channels of one gate share by need.",
    valid=at_least(0),
    unit="batches",
)
INLINE_BYTES = option(
    "flinkray.network.inline-bytes",
    _int,
    64 * 1024,
    "Batches up to this size travel inside the message; larger ones through the object store.",
    valid=at_least(0),
    unit="bytes",
)
BYTES_IN_FLIGHT = option(
    "flinkray.network.bytes-in-flight",
    _int,
    256 << 20,
    "Bytes that one slot may have sent and not yet consumed; bounds its share of the object store.",
    valid=at_least(1),
    unit="bytes",
)
STALL_TIMEOUT = option(
    "flinkray.network.stall-timeout",
    _duration,
    Millis(30_000),
    "A channel that has data and does not move for this long is reported with both ends' statistics.",
    unit="ms",
)

# -- the cluster -------------------------------------------------------------------------------------------------

SLOTS_PER_TASK_MANAGER = option(
    "taskmanager.numberOfTaskSlots", _int, 1, "Slots of one TaskExecutor.", valid=at_least(1)
)
SLOT_CPUS = option(
    "flinkray.slot.cpus", _float, 1.0, "CPUs that one slot takes from Ray's pool.", valid=at_least(0), unit="CPUs"
)
SLOT_REQUEST_TIMEOUT = option(
    "slot.request.timeout",
    _duration,
    Millis(300_000),
    "How long a job waits for its slots before it fails with NoResourceAvailableError.",
    unit="ms",
)
SLOT_IDLE_TIMEOUT = option(
    "slot.idle.timeout", _duration, Millis(50_000), "When an unused slot is given back.", unit="ms"
)
TASK_MANAGER_IDLE_TIMEOUT = option(
    "resourcemanager.taskmanager-timeout",
    _duration,
    Millis(30_000),
    "When an idle TaskExecutor is released.",
    unit="ms",
)
HEARTBEAT_INTERVAL = option("heartbeat.interval", _duration, Millis(10_000), "Time between heartbeats.", unit="ms")
HEARTBEAT_TIMEOUT = option(
    "heartbeat.timeout", _duration, Millis(50_000), "Silence after which a component counts as lost.", unit="ms"
)
CLUSTER_ID = option("flinkray.cluster-id", _str, "", "Name of the session cluster to submit to.")
METRICS_INTERVAL = option(
    "metrics.fetcher.update-interval", _duration, Millis(1_000), "How often tasks report their metrics.", unit="ms"
)
LATENCY_INTERVAL = option(
    "metrics.latency.interval", _duration, Millis(0), "Time between latency markers; 0: none.", unit="ms"
)
