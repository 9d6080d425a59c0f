"""What each operator of a task may use of it: names and settings, metrics, mails, timers and other threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from actors.mailbox.executor import MailboxExecutor
from actors.mailbox.waiting import others_act
from actors.operators.contract.chunking import ChunkLimit
from actors.protocol.ports import Cancellable, Loop
from actors.tasks.chain.chain_members import ChainMember
from actors.tasks.chain.task_services import TaskEnvironment
from actors.tasks.metrics.figures import OperatorFigures, TaskAccumulator
from actors.tasks.metrics.latencies import OperatorLatencies
from flinkray.errors import InvalidProgramError, did_you_mean, operator_label
from graphs.key_groups import key_group_range


class TaskOperatorContext:
    """Implements `actors.operators.contract.operator.OperatorContext` for one operator of a task.

    Args:
        executor: runs mails of the operator, with its priority.
    """

    def __init__(
        self,
        environment: TaskEnvironment,
        member: ChainMember,
        executor: MailboxExecutor,
        chunk_limit: ChunkLimit,
    ) -> None:
        deployment, settings = environment.deployment, environment.settings
        self._environment = environment
        self._executor = executor
        self._files = environment.services.files
        self.job_id: str = deployment.job_id
        self.job_name = deployment.job_name
        self.operator_id = member.first.operator_id
        self.operator_name = member.name
        self.uid = member.first.uid
        self.subtask_index = deployment.subtask_index
        self.parallelism = deployment.parallelism
        self.max_parallelism = deployment.max_parallelism
        self.attempt_number = deployment.attempt_number
        self.subtask = f"{deployment.subtask_index + 1} of {deployment.parallelism}"
        self.keys = member.codes[0].keys
        self.key_group_range = key_group_range(
            deployment.subtask_index, deployment.parallelism, deployment.max_parallelism
        )
        self.has_checkpoints = deployment.has_checkpoints
        self.may_restart = settings.may_restart
        self.is_batch = settings.is_batch
        self.fires_in_pieces = settings.fires_in_pieces
        self.state_options = settings.state
        self.batch_rows = settings.batch_rows
        self.batch_bytes = settings.batch_bytes
        self.auto_watermark_interval_ms = settings.auto_watermark_interval_ms
        self.allows_unaligned_splits = settings.allows_unaligned_splits
        self.latency_interval_ms = settings.latency_interval_ms
        self.commit_retries = settings.commit_retries
        self.job_parameters = settings.job_parameters
        self.chunk_limit = chunk_limit
        self.cancellation = environment.cancellation
        self.clock = environment.services.clock
        latencies = OperatorLatencies(
            member.first.operator_id,
            member.name,
            deployment.subtask_index,
            settings.latency_granularity,
            settings.latency_history_size,
        )
        self.metrics = OperatorFigures(member.name, latencies)

    @property
    def backpressured_ms(self) -> float:
        return self._environment.figures.backpressured.total_ms

    def random(self, name: str) -> random.Random:
        attempt_id = self._environment.deployment.attempt_id
        return self._environment.services.random(f"{attempt_id} {self.operator_id} {name}")

    def execute(self, mail: Callable[[], None], description: str) -> None:
        self._executor.execute(self._announced(mail), description)

    def call_later(
        self, delay_ms: float, mail: Callable[[], None], description: str, *, even_after_data: bool = False
    ) -> Cancellable:
        timers = self._environment.late_timers if even_after_data else self._environment.timers
        return timers.call_later(delay_ms, self._announced(mail), self._executor, description)

    def _announced(self, mail: Callable[[], None]) -> Callable[[], None]:
        """The mail, after which the task hears that the operator has acted."""

        def run() -> None:
            mail()
            self._environment.operator_acted()

        return run

    def yield_to_mailbox(self) -> None:
        self._executor.yield_()

    def run_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._environment.services.run_blocking(work, done)

    def start_loop(self, name: str, loop: Loop) -> bool:
        self._environment.services.start_loop(name, loop)
        return others_act.get() is None

    def send_to_coordinator(self, event: Any) -> None:
        self._environment.services.send_event(self.operator_id, event)

    def add_accumulator(self, name: str, initial: int | float) -> TaskAccumulator:
        return self._environment.figures.accumulator(name, initial)

    def cached_file(self, name: str) -> str:
        names = self._files.names
        if name not in names:
            raise InvalidProgramError(
                f"{operator_label(self.operator_name)}: no cached file {name!r}{did_you_mean(name, names)}; register "
                f"it with env.register_cached_file (registered: {', '.join(names) or 'none'})"
            )
        return self._files.path(name)
