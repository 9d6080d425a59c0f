"""The options by which a task works, read from its deployment once, when it starts, and handed on as one record."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from actors.state.keyed.options import StateOptions
from actors.tasks.metrics.latencies import Granularity
from flinkray.config import options
from flinkray.config.configuration import Configuration


class TaskSettings(Struct, frozen=True, kw_only=True):
    """Settings of a task and of its operators; `flinkray.config.options` says what each means."""

    is_batch: bool
    sorts_inputs: bool
    """Whether rows of keyed inputs are sorted by key first, which only batch programs do."""
    may_restart: bool
    """Whether the job restarts after a failure, as it has periodic checkpoints or a restart strategy."""
    fires_in_pieces: bool
    """Whether the task looks at its mailbox between timers and windows that are due at once; in batch mode no barrier
    waits for that."""
    batch_rows: int
    batch_bytes: int
    auto_watermark_interval_ms: int
    allows_unaligned_splits: bool
    commit_retries: int
    latency_interval_ms: int
    latency_granularity: Granularity
    latency_history_size: int
    state: StateOptions
    inline_state_bytes: int
    sort_memory_bytes: int
    temporary_directory: str
    job_parameters: dict[str, str]

    @staticmethod
    def of(configuration: Configuration) -> TaskSettings:
        is_batch = configuration.get(options.RUNTIME_MODE) == "batch"
        sorts_inputs = is_batch and configuration.get(options.SORTED_INPUTS)
        state = StateOptions.of(configuration)
        names_strategy = configuration.get(options.RESTART_STRATEGY) not in ("default", "none")
        return TaskSettings(
            is_batch=is_batch,
            sorts_inputs=sorts_inputs,
            may_restart=names_strategy or configuration.get(options.CHECKPOINT_INTERVAL) > 0,
            fires_in_pieces=not is_batch and configuration.get(options.INTERRUPTIBLE_TIMERS),
            batch_rows=configuration.get(options.BATCH_ROWS),
            batch_bytes=configuration.get(options.BATCH_BYTES),
            auto_watermark_interval_ms=configuration.get(options.AUTO_WATERMARK_INTERVAL),
            allows_unaligned_splits=configuration.get(options.ALLOW_UNALIGNED_SPLITS),
            commit_retries=configuration.get(options.COMMITTER_RETRIES),
            latency_interval_ms=configuration.get(options.LATENCY_INTERVAL),
            latency_granularity=Granularity(configuration.get(options.LATENCY_GRANULARITY)),
            latency_history_size=configuration.get(options.LATENCY_HISTORY_SIZE),
            # An operator on sorted inputs has state of few keys at a time (Flink's BatchExecutionStateBackend).
            state=replace(state, backend="hashmap") if sorts_inputs else state,
            inline_state_bytes=configuration.get(options.INLINE_STATE_BYTES),
            sort_memory_bytes=configuration.get(options.SORT_MEMORY),
            temporary_directory=configuration.get(options.TEMPORARY_DIRECTORY),
            job_parameters=configuration.get(options.GLOBAL_JOB_PARAMETERS),
        )
