"""Functions of every kind, for programs that are written down and never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flinkray import (
    AggregateFunction,
    CoMapFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelectorFunction,
    MapFunction,
    ProcessFunction,
)


class Reverse(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Split(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[str]:
        yield value


class CountPerKey(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class KeyedBoth(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Any: ...

    def process_element2(self, value: Any, ctx: Any) -> Any: ...


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator

    def get_result(self, accumulator: Any) -> float:
        return 0.0


class ByWord(KeySelectorFunction):
    def get_key(self, value: Any) -> str:
        return str(value.word)
