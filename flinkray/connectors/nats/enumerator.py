"""Which subtask reads which subjects, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from msgspec import Struct

from flinkray.connectors.hashed_splits import HashedSplitEnumerator
from flinkray.connectors.nats.clients import ApiError, NatsConnection, ask, refuse
from flinkray.connectors.nats.settings import NatsSourceSettings
from flinkray.connectors.source import SplitEnumeratorContext

_NO_MESSAGE = 10037


class NatsSplit(Struct, frozen=True):
    """The messages of a stream that a filter of subjects lets through, with the sequence behind which to read, and the
    one at which it ends (None: it does not)."""

    stream: str
    subject: str
    last: int
    stop: int | None = None
    start_time: str | None = None
    """Where nothing was read yet: the time, as RFC 3339 has it, from which to read."""
    is_begun: bool = False
    """Whether `last` was read, and is not just where the user wants to begin."""
    made: str = ""
    """When the stream was made, as the server says it; empty: it was not looked at yet."""

    @property
    def split_id(self) -> str:
        return f"{self.stream} {self.subject}"


class NatsEnumerator(HashedSplitEnumerator[NatsSplit]):
    """Assigns each filter of subjects to one subtask."""

    def __init__(
        self, context: SplitEnumeratorContext, settings: NatsSourceSettings, restored: Sequence[NatsSplit] | None
    ) -> None:
        super().__init__(context, restored)
        self._settings = settings

    def first_splits(self) -> list[NatsSplit]:
        settings = self._settings
        with closing(NatsConnection(settings.server)) as connection:
            try:
                return connection.run(self._ask_for_splits)
            except Exception as error:
                refuse(error, "NatsSource", f"cannot read stream {settings.stream!r} of {settings.server}")

    async def _ask_for_splits(self, client: Any) -> list[NatsSplit]:
        settings = self._settings
        found = await ask(client, f"STREAM.INFO.{settings.stream}")
        last, time, made = 0, None, ""
        if settings.start == "latest":
            last, made = found["state"]["last_seq"], found["created"]
        elif isinstance(settings.start, int):
            last = settings.start - 1
        elif settings.start != "earliest":
            time = settings.start
        return [
            NatsSplit(settings.stream, subject, last, await self._stop(client, subject), time, made=made)
            for subject in settings.subjects
        ]

    async def _stop(self, client: Any, subject: str) -> int | None:
        """The sequence of the last message to read."""
        if self._settings.stop != "latest":
            return self._settings.stop  # type: ignore[return-value]
        try:
            found = await ask(client, f"STREAM.MSG.GET.{self._settings.stream}", last_by_subj=subject)
        except ApiError as error:
            if error.err_code == _NO_MESSAGE:
                return 0
            raise
        return int(found["message"]["seq"])
