"""Where the search for matches goes on behind one that was found (Flink's AfterMatchSkipStrategy)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkray.errors import InvalidProgramError


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """Which of the other matches, complete or partial, a match that was given discards. Made by its static methods."""

    kind: str
    """NO_SKIP, SKIP_TO_NEXT, SKIP_PAST_LAST_EVENT, SKIP_TO_FIRST or SKIP_TO_LAST."""
    pattern_name: str | None = None
    fails_on_miss: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """None: every match is given."""
        return AfterMatchSkipStrategy("NO_SKIP")

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Those that begin with the same event."""
        return AfterMatchSkipStrategy("SKIP_TO_NEXT")

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Those that begin before the match ends."""
        return AfterMatchSkipStrategy("SKIP_PAST_LAST_EVENT")

    @staticmethod
    def skip_to_first(pattern_name: str) -> AfterMatchSkipStrategy:
        """Those that begin before the match's first event of that pattern."""
        return AfterMatchSkipStrategy("SKIP_TO_FIRST", pattern_name)

    @staticmethod
    def skip_to_last(pattern_name: str) -> AfterMatchSkipStrategy:
        """Those that begin before the match's last event of that pattern."""
        return AfterMatchSkipStrategy("SKIP_TO_LAST", pattern_name)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """The same, but the job fails where a match has no event of the pattern, or begins with the one to skip to.

        Raises:
            InvalidProgramError: it skips to no pattern.
        """
        if self.pattern_name is None:
            raise InvalidProgramError("throw_exception_on_miss is for skip_to_first and skip_to_last")
        return replace(self, fails_on_miss=True)

    def __str__(self) -> str:
        return self.kind if self.pattern_name is None else f"{self.kind} {self.pattern_name}"


NO_SKIP = AfterMatchSkipStrategy.no_skip()
