"""What AsyncDataStream and async_map record, what they refuse, and the retry strategies."""

from __future__ import annotations

import inspect
import pickle
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import flinkray
from flinkray.errors import InvalidProgramError, NotSerializableError
from flinkray.functions.asynchronous import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryStrategy,
    RetryPredicate,
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from flinkray.streams.async_data_stream import AsyncDataStream
from flinkray.streams.data_stream import DataStream
from flinkray.streams.environment import StreamExecutionEnvironment
from flinkray.transformations.operator_factories import AsyncFactory, ChainingStrategy
from flinkray.transformations.transformation import PhysicalTransformation


class Lookup(AsyncFunction):
    async def async_invoke(self, value: int) -> list[str]:
        return [str(value)]


class Blocking(AsyncFunction):
    def async_invoke(self, value: Any) -> Any:
        return [value]


class LateTimeout(Lookup):
    async def timeout(self, value: Any) -> Any:
        return [value]


def factory_of(stream: DataStream) -> AsyncFactory:
    transformation = stream._transformation
    assert isinstance(transformation, PhysicalTransformation)
    assert isinstance(transformation.factory, AsyncFactory)
    return transformation.factory


def test_both_orders_are_recorded_with_pyflinks_arguments(env: StreamExecutionEnvironment) -> None:
    numbers, function = env.from_collection([1, 2]), Lookup()
    ordered = factory_of(AsyncDataStream.ordered_wait(numbers, function, timedelta(seconds=5)))
    assert (ordered.function, ordered.timeout_ms, ordered.capacity, ordered.is_ordered) == (function, 5_000, 100, True)
    assert ordered.retry is NO_RETRY_STRATEGY
    unordered = factory_of(AsyncDataStream.unordered_wait(numbers, function, timedelta(seconds=5), 7))
    assert (unordered.capacity, unordered.is_ordered) == (7, False)
    retry = AsyncRetryStrategy.fixed_delay(3, 100, None, has_exception_predicate)
    for wait in (AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry):
        assert factory_of(wait(numbers, function, timedelta(seconds=1), retry, 50)).retry is retry


def test_the_type_of_results_is_the_annotated_or_the_declared_one(env: StreamExecutionEnvironment) -> None:
    def one(value: int) -> float:
        return value / 2

    def several(value: int) -> list[float]:
        return [value / 2]

    numbers = env.from_collection([1, 2])
    assert str(AsyncDataStream.ordered_wait(numbers, Lookup(), 1_000).record_type) == "scalar<value: string>"
    assert (
        str(AsyncDataStream.ordered_wait(numbers, Lookup(), 1_000, 9, pa.int8()).record_type) == "scalar<value: int8>"
    )
    assert str(numbers.async_map(one).record_type) == "scalar<value: double>"
    assert str(numbers.async_map(several).record_type) == "scalar<value: double>"
    assert numbers.async_map(lambda value: value).record_type is None


def test_async_map_takes_functions_of_all_kinds(env: StreamExecutionEnvironment) -> None:
    async def coroutine(value: int) -> int:
        return value

    numbers = env.from_collection([1, 2])
    for function in (coroutine, abs, partial(pow, 2), Lookup()):
        factory = factory_of(numbers.async_map(function, 5, "2 s", ordered=False))
        assert (factory.function, factory.capacity, factory.timeout_ms) == (function, 5, 2_000)
        assert not factory.is_ordered
    assert factory_of(numbers.async_map(abs)).timeout_ms == 60_000


def test_the_operator_starts_a_chain_and_knows_no_key(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([1, 2]).key_by(lambda value: value)
    mapped = AsyncDataStream.ordered_wait(keyed, Lookup(), 1_000)
    assert factory_of(mapped).default_strategy is ChainingStrategy.HEAD
    assert mapped._operator("name").keys == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"async_function": Blocking()}, "Blocking.async_invoke must be declared with 'async def'"),
        ({"async_function": LateTimeout()}, "LateTimeout.timeout must be a plain method"),
        ({"async_function": lambda value: value}, "async_map takes plain functions"),
        ({"capacity": 0}, "capacity is the number of rows"),
        ({"async_retry_strategy": None}, "a retry strategy is needed"),
        ({"timeout": 0}, "retries need a timeout greater than zero"),
        ({"data_stream": "numbers"}, "takes a DataStream"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    env: StreamExecutionEnvironment, arguments: dict[str, Any], message: str
) -> None:
    usual = {
        "data_stream": env.from_collection([1]),
        "async_function": Lookup(),
        "timeout": 1_000,
        "async_retry_strategy": AsyncRetryStrategy.fixed_delay(1, 1, None, None),
    }
    with pytest.raises(InvalidProgramError, match=message):
        AsyncDataStream.ordered_wait_with_retry(**{**usual, **arguments})


def test_a_generator_is_no_function_of_results(env: StreamExecutionEnvironment) -> None:
    async def generator(value: int) -> Any:
        yield value

    with pytest.raises(InvalidProgramError, match="return a list of results instead"):
        env.from_collection([1]).async_map(generator)


def test_a_class_in_place_of_its_object_is_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match=r"write it with \(\)"):
        env.from_collection([1]).async_map(Lookup)  # type: ignore[arg-type]


def test_predicates_travel_with_the_function_and_must_be_picklable(env: StreamExecutionEnvironment) -> None:
    import threading

    lock = threading.Lock()
    retry = AsyncRetryStrategy.fixed_delay(1, 1, lambda _: lock.locked(), None)
    with pytest.raises(NotSerializableError):
        env.from_collection([1]).async_map(abs, retry_strategy=retry)


# -- retry strategies --------------------------------------------------------------------------------------------


def test_a_strategy_allows_as_many_attempts_more() -> None:
    fixed = AsyncRetryStrategy.fixed_delay(2, 50, None, None)
    assert [fixed.can_retry(attempts) for attempts in (1, 2, 3)] == [True, True, False]
    assert fixed.get_backoff_time_millis(2) == 50
    never = AsyncRetryStrategy.no_restart()
    assert not never.can_retry(1)


def test_an_exponential_backoff_grows_up_to_its_maximum_for_each_row_by_itself() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(9, 10, 55, 2.0, None, None)
    expected = [10, 20, 40, 55, 55]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4, 5)] == expected
    assert strategy.get_backoff_time_millis(2) == 20  # of another row, which has waited less


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"initial_delay": -1}, {"multiplier": 0}])
def test_numbers_of_a_strategy_are_positive(wrong: dict[str, Any]) -> None:
    usual = {"max_attempts": 1, "initial_delay": 1, "max_retry_delay": 1, "multiplier": 1.0}
    with pytest.raises(InvalidProgramError, match=next(iter(wrong))):
        AsyncRetryStrategy.exponential_backoff(
            **{**usual, **wrong},
            result_predicate=None,
            exception_predicate=None,  # type: ignore[arg-type]
        )


def test_predicates_of_pyflink() -> None:
    assert empty_result_predicate([])
    assert empty_result_predicate(None)
    assert not empty_result_predicate([1])
    assert has_exception_predicate(ValueError())
    assert exception_type_predicate(FileNotFoundError(), OSError)
    assert not exception_type_predicate(ValueError(), OSError)
    both = RetryPredicate(empty_result_predicate, has_exception_predicate)
    assert (both.result_predicate(), both.exception_predicate()) == (empty_result_predicate, has_exception_predicate)


def test_a_strategy_is_pickled_with_its_predicates() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(1, 5, empty_result_predicate, None)
    same = pickle.loads(pickle.dumps(strategy))
    assert same.get_retry_predicate().result_predicate() is empty_result_predicate


# -- names -------------------------------------------------------------------------------------------------------


def test_everything_is_public_and_has_pyflinks_names(env: StreamExecutionEnvironment) -> None:
    from flinkray.pyflink.datastream import AsyncDataStream as PyFlinkAsyncDataStream
    from flinkray.pyflink.datastream import async_retry_strategies, functions
    from flinkray.pyflink.datastream.async_retry_predicates import empty_result_predicate as same

    assert same is empty_result_predicate
    assert functions.AsyncFunction is flinkray.AsyncFunction is AsyncFunction
    assert async_retry_strategies.NO_RETRY_STRATEGY is NO_RETRY_STRATEGY
    assert flinkray.AsyncDataStream is AsyncDataStream
    arguments = ["data_stream", "async_function", "timeout", "capacity", "output_type"]
    retried = [*arguments[:3], "async_retry_strategy", *arguments[3:]]
    for of in (AsyncDataStream, PyFlinkAsyncDataStream):
        assert list(inspect.signature(of.ordered_wait).parameters) == arguments
        assert list(inspect.signature(of.unordered_wait).parameters) == arguments
        assert list(inspect.signature(of.ordered_wait_with_retry).parameters) == retried
        assert list(inspect.signature(of.unordered_wait_with_retry).parameters) == retried
    # As in PyFlink, results of no declared type are any Python objects.
    stream = PyFlinkAsyncDataStream.unordered_wait(env.from_collection([1]), Lookup(), timedelta(seconds=1))
    assert type(stream).__module__ == "flinkray.pyflink.datastream.data_stream"
    assert str(stream.record_type).startswith("object")


@pytest.mark.parametrize("delay", [100, "100 ms", timedelta(milliseconds=100), "0.1 s"], ids=str)
def test_delays_of_retries_are_durations(delay: Any) -> None:
    fixed = AsyncRetryStrategy.fixed_delay(2, delay)
    growing = AsyncRetryStrategy.exponential_backoff(2, delay, "1 min", 2)
    assert fixed.get_backoff_time_millis(2) == growing.get_backoff_time_millis(1) == 100
    assert growing.get_backoff_time_millis(2) == 200


@pytest.mark.parametrize("delay", ["soon", 0, "0 s", -1, 1.5, None], ids=str)
def test_a_delay_that_is_none_is_refused_by_name(delay: Any) -> None:
    with pytest.raises(InvalidProgramError, match="backoff_time_millis"):
        AsyncRetryStrategy.fixed_delay(2, delay)
    with pytest.raises(InvalidProgramError, match="max_retry_delay"):
        AsyncRetryStrategy.exponential_backoff(2, 10, delay, 2)


def test_without_predicates_whatever_is_raised_leads_to_a_retry_and_no_result_does() -> None:
    for strategy in (AsyncRetryStrategy.fixed_delay(2, 10), AsyncRetryStrategy.exponential_backoff(2, 10, 100, 2)):
        predicate = strategy.get_retry_predicate()
        is_retried = predicate.exception_predicate()
        assert is_retried is not None
        assert is_retried(OSError())
        assert predicate.result_predicate() is None
