"""All options; those of the REST server are in `rest_options.py`, of SQL in `table_options.py`, of the autoscaler in
`autoscaler_options.py`, and of what a program brings along in `python_options.py`.

Keys are Flink's where Flink has the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flinkray.config.autoscaler_options
import flinkray.config.flink_table_options
import flinkray.config.python_options
import flinkray.config.rest_options
import flinkray.config.table_options  # noqa: F401
from flinkray.config.option import REGISTRY, ConfigOption, Valid, at_least, one_of, option
from flinkray.config.parsers import duration as _duration
from flinkray.config.parsers import number as _float
from flinkray.config.parsers import text as _str
from flinkray.config.parsers import texts as _texts
from flinkray.config.parsers import truth as _bool
from flinkray.config.parsers import whole_number as _int
from flinkray.config.parsers import word as _word
from flinkray.types.records import Millis

# -- the program -------------------------------------------------------------------------------------------------

PARALLELISM = option(
    "parallelism.default", _int, 1, "Subtasks of an operator that sets no parallelism of its own.", valid=at_least(1)
)
PIPELINE_NAME = option("pipeline.name", _str, "flinkray job", "Name of a job for which execute() is given none.")
MAX_PARALLELISM = option(
    "pipeline.max-parallelism",
    _int,
    0,
    "Number of key groups, the limit of rescaling; 0: as of the checkpoint that the job starts from, else the next "
    "power of two above 1.5 x parallelism, at least 128.",
    valid=at_least(0),
)
OPERATOR_CHAINING = option(
    "pipeline.operator-chaining.enabled", _bool, True, "Whether operators may share a task with their neighbours."
)
OBJECT_REUSE = option("pipeline.object-reuse", _bool, False, "Accepted for Flink programs; batches are immutable.")
AUTO_WATERMARK_INTERVAL = option(
    "pipeline.auto-watermark-interval", _duration, Millis(200), "How often watermarks are emitted; 0: never.", unit="ms"
)
ALLOW_UNALIGNED_SPLITS = option(
    "pipeline.watermark-alignment.allow-unaligned-source-splits",
    _bool,
    False,
    "Whether sources that read several splits, and cannot hold single ones back, may align as a whole.",
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
    "How a program runs: as streams; in stages, each of which reads results that are complete (batch: all sources must "
    "be bounded); or automatic: batch where all sources are bounded, else streaming.",
    valid=one_of("streaming", "batch", "automatic"),
)
BATCH_SHUFFLE_MODE = option(
    "execution.batch-shuffle-mode",
    lambda raw: _str(raw).strip().lower().replace("_", "-"),
    "all-exchanges-blocking",
    "How tasks of a program in batch mode hand rows over: all at once when all are written (all-exchanges-blocking), "
    "or while they are made (all-exchanges-pipelined), which takes the slots of all stages at the same time.",
    valid=one_of("all-exchanges-blocking", "all-exchanges-pipelined"),
)
AGG_PHASE_STRATEGY = option(
    "table.optimizer.agg-phase-strategy",
    lambda raw: _str(raw).strip().upper(),
    "AUTO",
    "Whether built-in aggregates of event-time windows are computed in two phases, within each batch before the "
    "exchange and then over what comes of all batches: wherever there is an exchange (TWO_PHASE), where rows may go to "
    "another process (AUTO), or nowhere (ONE_PHASE). For those of GROUP BY in SQL, which have two phases "
    "where all of them can, AUTO is TWO_PHASE.",
    valid=one_of("AUTO", "TWO_PHASE", "ONE_PHASE"),
)
SORTED_INPUTS = option(
    "execution.sorted-inputs.enabled",
    _bool,
    True,
    "Whether keyed operators of a program in batch mode get rows sorted by key, and so hold the state of few keys at "
    "a time.",
)
SORT_MEMORY = option(
    "flinkray.batch.sort-memory",
    _int,
    64 << 20,
    "Rows that one task sorts in memory, in bytes; what is more is sorted in files.",
    valid=at_least(1),
    unit="bytes",
)
RESULT_MEMORY = option(
    "flinkray.batch.result-memory",
    _int,
    64 << 20,
    "Memory that one slot uses for results that are read when they are complete, in bytes; what is more goes to files.",
    valid=at_least(0),
    unit="bytes",
)
TEMPORARY_DIRECTORY = option(
    "io.tmp.dirs",
    _str,
    "",
    "The directory for files of one process that do not outlive it; empty: the system's temporary directory.",
)
GLOBAL_JOB_PARAMETERS: ConfigOption[dict[str, str]] = option(
    "pipeline.global-job-parameters",
    _texts,
    {},
    "What functions get from their runtime context by name: a mapping, or text such as first:1,second:2.",
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
    "flinkray.batch.target-rows", _int, 131_072, "Rows that a batch aims at.", valid=at_least(1), unit="rows"
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
BUFFER_DEBLOAT_ENABLED = option(
    "taskmanager.network.memory.buffer-debloat.enabled",
    _bool,
    True,
    "Whether batches between tasks have fewer rows where these take their receiver long: of each batch in flight, an "
    "aligned barrier waits a tenth of a second instead of as long as a full one takes.",
)
INLINE_BYTES = option(
    "flinkray.network.inline-bytes",
    _int,
    64 * 1024,
    "Batches up to this size travel inside the message; larger ones through the object store.",
    valid=at_least(0),
    unit="bytes",
)
FRAME_BYTES = option(
    "flinkray.network.frame-bytes",
    _int,
    4 << 20,
    "Bytes of finished batches that wait for each other on a channel to another slot, as long as the buffer timeout "
    "lets them: one large object costs Ray far less than several small ones. 0: each goes at once.",
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
    "taskmanager.numberOfTaskSlots",
    _int,
    1,
    "Slots of one TaskExecutor. Where it is not set, a job on Ray gets TaskExecutors as large as a node has room for.",
    valid=at_least(1),
)
SLOT_CPUS = option(
    "flinkray.slot.cpus", _float, 1.0, "CPUs that one slot takes from Ray's pool.", valid=at_least(0), unit="CPUs"
)
SLOT_REQUEST_TIMEOUT = option(
    "slot.request.timeout",
    _duration,
    Millis(300_000),
    "How long a job waits for its slots before that is a failure (NoResourceAvailableError); it ends a job that never "
    "had them all, for others the restart strategy decides.",
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
JOB_EXPIRATION_TIME = option(
    "jobstore.expiration-time",
    _int,
    3_600,
    "How long a session knows a job that has ended, with its result and its errors.",
    valid=at_least(0),
    unit="s",
)
HEARTBEAT_INTERVAL = option(
    "heartbeat.interval",
    _duration,
    Millis(10_000),
    "Time between heartbeats; a session's counts for its jobs.",
    unit="ms",
)
HEARTBEAT_TIMEOUT = option(
    "heartbeat.timeout", _duration, Millis(50_000), "Silence after which a component counts as lost.", unit="ms"
)
PYTHON_PATH = option(
    "python.pythonpath",
    _str,
    "",
    "Where tasks find the modules of a program, on each node, beside what is installed there: directories with a colon "
    "between them; empty: where the driver finds them.",
)
CLUSTER_ID = option("flinkray.cluster-id", _str, "", "Name of the session cluster to submit to.")
METRICS_INTERVAL = option(
    "metrics.fetcher.update-interval", _duration, Millis(1_000), "How often tasks report their metrics.", unit="ms"
)
COMMITTER_RETRIES = option(
    "sink.committer.retries",
    _int,
    10,
    "How often a commit that a sink puts off is tried again, after 0.1 s, then twice as long each time up to 10 s, "
    "before the job fails.",
    valid=at_least(0),
)
LATENCY_INTERVAL = option(
    "metrics.latency.interval", _duration, Millis(0), "Time between latency markers; 0: none.", unit="ms"
)
LATENCY_GRANULARITY = option(
    "metrics.latency.granularity",
    _str,
    "operator",
    "What latencies are told apart by, beside the operator that they are measured at: by nothing, by the source, or by "
    "the source's subtask.",
    valid=one_of("single", "operator", "subtask"),
)
LATENCY_HISTORY_SIZE = option(
    "metrics.latency.history-size",
    _int,
    128,
    "Latencies that each histogram is made of: the last so many.",
    valid=at_least(1),
)

# -- checkpoints and state ---------------------------------------------------------------------------------------


MIN_CHECKPOINT_INTERVAL_MS = 10
"""The shortest time between checkpoints, as in Flink."""
CHECKPOINT_INTERVAL = option(
    "execution.checkpointing.interval",
    _duration,
    Millis(0),
    "Time between the starts of checkpoints; 0: none. One that is due while another is under way begins after it.",
    valid=Valid(
        lambda interval: interval == 0 or interval >= MIN_CHECKPOINT_INTERVAL_MS,
        f"at least {MIN_CHECKPOINT_INTERVAL_MS} ms, or 0 for none",
    ),
    unit="ms",
)
CHECKPOINT_MODE = option(
    "execution.checkpointing.mode",
    _word,
    "exactly-once",
    "exactly-once, or at-least-once: no channel waits for the barriers of others, and rows may count twice.",
    valid=one_of("exactly-once", "at-least-once"),
)
CHECKPOINT_TIMEOUT = option(
    "execution.checkpointing.timeout",
    _duration,
    Millis(600_000),
    "A checkpoint that is not complete by then is given up.",
    valid=at_least(10, "ms"),  # as in Flink: else all are given up, and a job with checkpoints restarts for ever
    unit="ms",
)
CHECKPOINT_MIN_PAUSE = option(
    "execution.checkpointing.min-pause",
    _duration,
    Millis(0),
    "Time between the end of a checkpoint and the start of the next periodic one, at least.",
    unit="ms",
)
MAX_CONCURRENT_CHECKPOINTS = option(
    "execution.checkpointing.max-concurrent-checkpoints",
    _int,
    1,
    "Checkpoints that may be under way at the same time.",
    valid=at_least(1),
)
TOLERABLE_FAILED_CHECKPOINTS = option(
    "execution.checkpointing.tolerable-failed-checkpoints",
    _int,
    0,
    "Checkpoints that may fail one after another before the job does.",
    valid=at_least(0),
)
CHECKPOINT_RETENTION = option(
    "execution.checkpointing.externalized-checkpoint-retention",
    _word,
    "no-externalized-checkpoints",
    "What is kept after a job's end: nothing, what a job that failed leaves (delete-on-cancellation), or also what a "
    "cancelled one leaves (retain-on-cancellation). A job that fails for want of slots, processes or storage leaves "
    "its last checkpoint in any case.",
    valid=one_of("no-externalized-checkpoints", "delete-on-cancellation", "retain-on-cancellation"),
)
UNALIGNED_CHECKPOINTS = option(
    "execution.checkpointing.unaligned.enabled",
    _bool,
    False,
    "Whether barriers overtake the rows that wait in channels, which are then part of the checkpoint.",
)
FORCE_UNALIGNED_CHECKPOINTS = option(
    "execution.checkpointing.unaligned.forced",
    _bool,
    False,
    "Whether a program with partition_custom may have unaligned checkpoints; its partitioner must then give the same "
    "channel for equal rows also after the job was rescaled.",
)
INTERRUPTIBLE_TIMERS = option(
    "execution.checkpointing.unaligned.interruptible-timers.enabled",
    _bool,
    True,
    "Whether barriers and cancelling come between the timers and windows that one watermark fires, where functions of "
    "the user are called; those that have not fired are in the checkpoint. No rows come in between.",
)
ALIGNED_CHECKPOINT_TIMEOUT = option(
    "execution.checkpointing.aligned-checkpoint-timeout",
    _duration,
    Millis(0),
    "An unaligned checkpoint begins as an aligned one, and overtakes once that has taken this long.",
    unit="ms",
)
CHECKPOINT_DIRECTORY = option(
    "execution.checkpointing.dir",
    _str,
    "",
    "Where checkpoints are written, a path or URI that every node can reach; empty: kept by the JobMaster in memory, "
    "which a JobMaster that dies takes along.",
)
SAVEPOINT_DIRECTORY = option(
    "execution.checkpointing.savepoint-dir", _str, "", "Where savepoints go that are given no directory."
)
RETAINED_CHECKPOINTS = option(
    "execution.checkpointing.num-retained", _int, 1, "Completed checkpoints that are kept.", valid=at_least(1)
)
INCREMENTAL_CHECKPOINTS = option(
    "execution.checkpointing.incremental",
    _bool,
    True,
    "Whether a state backend that can uploads only what has changed since the last checkpoint.",
)
INLINE_STATE_BYTES = option(
    "execution.checkpointing.data-inline-threshold",
    _int,
    20 * 1024,
    "State up to this size is kept in the checkpoint's metadata instead of a file of its own.",
    valid=at_least(0),
    unit="bytes",
)
FINAL_CHECKPOINT = option(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    _bool,
    True,
    "Whether a bounded job with checkpoints ends with one more, which commits what its sinks have prepared.",
)
STATE_BACKEND = option(
    "state.backend.type",
    _word,
    "hashmap",
    "Where keyed state is kept: hashmap (in memory), or rocksdb (on disk, for more state than memory).",
    valid=one_of("hashmap", "rocksdb"),
)
STATE_LOCAL_DIRECTORY = option(
    "state.backend.rocksdb.localdir",
    _str,
    "",
    "Where rocksdb keeps its files; empty: the system's temporary directory.",
)
STATE_MEMORY = option(
    "state.backend.rocksdb.memory",
    _int,
    64 << 20,
    "Memory that rocksdb uses for one operator subtask: write buffers and block cache together.",
    valid=at_least(1 << 20),
    unit="bytes",
)
STATE_PARTITIONED_INDEX_FILTERS = option(
    "state.backend.rocksdb.memory.partitioned-index-filters",
    _bool,
    True,
    "Whether rocksdb cuts the index and the filter of a file into blocks, of which only those that are needed take "
    "memory; else each is read as a whole, and does not fit the cache from a few hundred thousand keys on.",
)
SAVEPOINT_PATH = option(
    "execution.state-recovery.path", _str, "", "The savepoint, or retained checkpoint, that a job starts from."
)
ALLOW_NON_RESTORED_STATE = option(
    "execution.state-recovery.ignore-unclaimed-state",
    _bool,
    False,
    "Whether a savepoint may hold state of operators that the program does not have any more.",
)

ALLOW_REMOVED_FIELDS = option(
    "execution.state-recovery.allow-removed-fields",
    _bool,
    False,
    "Whether rows in state lose the fields that their declared type does not have any more.",
)

# -- failures ----------------------------------------------------------------------------------------------------

RESTART_STRATEGY = option(
    "restart-strategy.type",
    _word,
    "default",
    "none, fixed-delay, failure-rate or exponential-delay; default: exponential-delay with checkpoints, else none.",
    valid=one_of("default", "none", "fixed-delay", "failure-rate", "exponential-delay"),
)
FIXED_DELAY_ATTEMPTS = option(
    "restart-strategy.fixed-delay.attempts", _int, 1, "Restarts before the job fails.", valid=at_least(0)
)
FIXED_DELAY = option(
    "restart-strategy.fixed-delay.delay", _duration, Millis(1_000), "Time between a failure and the restart.", unit="ms"
)
FAILURE_RATE_FAILURES = option(
    "restart-strategy.failure-rate.max-failures-per-interval",
    _int,
    1,
    "Failures within one interval that the job survives.",
    valid=at_least(1),
)
FAILURE_RATE_INTERVAL = option(
    "restart-strategy.failure-rate.failure-rate-interval",
    _duration,
    Millis(60_000),
    "The interval that failures are counted in.",
    unit="ms",
)
FAILURE_RATE_DELAY = option(
    "restart-strategy.failure-rate.delay",
    _duration,
    Millis(1_000),
    "Time between a failure and the restart.",
    unit="ms",
)
EXPONENTIAL_INITIAL = option(
    "restart-strategy.exponential-delay.initial-backoff",
    _duration,
    Millis(1_000),
    "Time between the first failure and its restart.",
    unit="ms",
)
EXPONENTIAL_MAX = option(
    "restart-strategy.exponential-delay.max-backoff",
    _duration,
    Millis(60_000),
    "The longest time between a failure and its restart.",
    unit="ms",
)
EXPONENTIAL_FACTOR = option(
    "restart-strategy.exponential-delay.backoff-multiplier",
    _float,
    1.5,
    "What the time grows by from one failure to the next.",
    valid=at_least(1),
)
EXPONENTIAL_RESET = option(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    _duration,
    Millis(3_600_000),
    "A job that ran this long without a failure starts again with the shortest time.",
    unit="ms",
)
EXPONENTIAL_JITTER = option(
    "restart-strategy.exponential-delay.jitter-factor",
    _float,
    0.1,
    "By which part of itself the time varies at random.",
    valid=at_least(0),
)
EXPONENTIAL_ATTEMPTS = option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    _int,
    0,
    "Restarts, without such a quiet time between them, before the job fails; 0: no limit.",
    valid=at_least(0),
)
FAILOVER_STRATEGY = option(
    "jobmanager.execution.failover-strategy",
    _word,
    "region",
    "What a failed task takes along: its region of the job, or everything (full).",
    valid=one_of("region", "full"),
)
HIGH_AVAILABILITY_DIRECTORY = option(
    "high-availability.storageDir",
    _str,
    "",
    "Where jobs and pointers to their checkpoints are kept, so that a Dispatcher or JobMaster that dies is replaced by "
    "one that goes on; empty: in `ha` under execution.checkpointing.dir where that is set.",
)


LOG_LEVELS: ConfigOption[Mapping[str, str]] = option(
    "flinkray.logging.levels",
    _texts,
    {},
    "The level of each logger, such as root:INFO, in the processes in which functions run; on Ray by default those "
    "that the driver has set.",
)
LOG_FORMAT = option(
    "flinkray.logging.format",
    _word,
    "text",
    "How processes write their logs: `text` for people, or `json`, an object in each line. On `local` what logging was "
    "set up with stays, unless this is set.",
    valid=one_of("text", "json"),
)


def declared_options() -> Mapping[str, ConfigOption[Any]]:
    """All options by key."""
    return REGISTRY
