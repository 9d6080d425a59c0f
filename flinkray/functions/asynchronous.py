"""Functions that wait for other systems (Flink's async I/O): what they implement, and when a call is made again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from flinkray.errors import InvalidProgramError
from flinkray.functions.interfaces import Function
from flinkray.time.durations import Duration, to_millis
from flinkray.types.records import Millis

ResultPredicate = Callable[[list[Any]], bool]
ErrorPredicate = Callable[[Exception], bool]


def empty_result_predicate(result: Any) -> bool:
    """A `result_predicate`: retries where nothing was found."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """An `exception_predicate`: retries whatever was raised."""
    return error is not None


def exception_type_predicate(error: Exception | None, expected_error_type: type[BaseException]) -> bool:
    """An `exception_predicate` once it is bound to a type: `partial(exception_type_predicate,
    expected_error_type=OSError)`."""
    return isinstance(error, expected_error_type)


class AsyncFunction(Function, ABC):
    """For `AsyncDataStream`: one coroutine per row, many of which wait at the same time.

    `open`, `close`, `timeout` and what decides about retries are called by the task's thread; `async_invoke` runs on
    one event loop per subtask, on a thread of its own. `open` and `close` may be coroutines: then they run on that loop
    too, which is where sessions of asyncio clients belong. There is no keyed state.
    """

    @abstractmethod
    async def async_invoke(self, value: Any, /) -> Iterable[Any]:
        """A list of results: one, several or none. An exception fails the job, unless the call is retried.

        After a failure of the job, rows whose results were not part of its last checkpoint come again.
        """

    def timeout(self, value: Any, /) -> Iterable[Any]:
        """The results in place of those that did not come in time; by default the job fails."""
        raise TimeoutError(f"no result in time for {value!r}")


class AsyncRetryPredicate(ABC):
    """The outcomes after which a call is made again."""

    def __class_getitem__(cls, _types: Any) -> Any:
        """The class itself: PyFlink's programs write types in brackets behind it."""
        return cls

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """A function of the list of results that says whether to retry; None: no result leads to a retry."""

    @abstractmethod
    def exception_predicate(self) -> ErrorPredicate | None:
        """A function of what the call raised that says whether to retry; None: no error leads to a retry."""


class AsyncRetryStrategy(ABC):
    """Whether and when a call is made again. Asked by the task's thread; attempts count from 1."""

    def __class_getitem__(cls, _types: Any) -> Any:
        """The class itself: PyFlink's programs write types in brackets behind it."""
        return cls

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be another attempt after so many."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait before the next attempt, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """The outcomes after which a call is made again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Each call is made once."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: Duration,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ErrorPredicate | None = has_exception_predicate,
    ) -> AsyncRetryStrategy:
        """Up to `max_attempts` retries after the first attempt, each after the same time.

        Args:
            backoff_time_millis: that time, as all durations are given (an int counts milliseconds).
            result_predicate: of the list of results, whether to retry; by default none leads to a retry.
            exception_predicate: of what was raised, whether to retry; by default whatever it is, and with None nothing.
        """
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: Duration,
        max_retry_delay: Duration,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ErrorPredicate | None = has_exception_predicate,
    ) -> AsyncRetryStrategy:
        """Up to `max_attempts` retries after the first attempt, each after `multiplier` times the time before it.

        The first comes after `initial_delay`, and none later than `max_retry_delay` after the attempt before. Durations
        and predicates are given as to `fixed_delay`.
        """
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate):
    """A predicate made of two functions."""

    def __init__(self, result_predicate: ResultPredicate | None, exception_predicate: ErrorPredicate | None) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ErrorPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """Each call is made once."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """The strategy of `AsyncRetryStrategy.fixed_delay`."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: Duration,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ErrorPredicate | None = has_exception_predicate,
    ) -> None:
        _check_positive(max_attempts=max_attempts)
        self._max_attempts = max_attempts
        self._backoff_time_millis = _delay(backoff_time_millis, "backoff_time_millis")
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """The strategy of `AsyncRetryStrategy.exponential_backoff`."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: Duration,
        max_retry_delay: Duration,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ErrorPredicate | None = has_exception_predicate,
    ) -> None:
        _check_positive(max_attempts=max_attempts, multiplier=multiplier)
        self._max_attempts = max_attempts
        self._initial_delay = _delay(initial_delay, "initial_delay")
        self._max_retry_delay = _delay(max_retry_delay, "max_retry_delay")
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        # From the number of attempts alone: many rows wait at once, and each has a backoff of its own.
        delay: float = self._initial_delay
        for _ in range(1, current_attempts):
            delay = min(delay * self._multiplier, self._max_retry_delay)
        return int(delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if number <= 0:
            raise InvalidProgramError(f"{name} of a retry strategy must be greater than zero, not {number!r}")


def _delay(delay: Duration, name: str) -> Millis:
    try:
        millis = to_millis(delay, name)
    except (TypeError, ValueError) as error:
        raise InvalidProgramError(f"a retry strategy: {error}") from None
    _check_positive(**{name: millis})
    return millis
