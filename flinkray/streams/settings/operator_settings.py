"""The settings of one operator: name, uid, parallelism, chaining, slots."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Self

from flinkray.errors import InvalidProgramError, operator_label
from flinkray.time.durations import Duration, to_millis, without_minus_one
from flinkray.transformations.operator_factories import ChainingStrategy, SinkFactory, SourceFactory
from flinkray.transformations.transformation import PhysicalTransformation, ResourceSpec

HIGHEST_MAX_PARALLELISM = 1 << 15
"""Flink's bound on the number of key groups, which is part of the savepoint format."""


def check_parallelism(value: object, what: str = "parallelism") -> int:
    """The value, where it is a number of subtasks.

    Raises:
        InvalidProgramError: not a whole number, or below 1, or above 32768.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidProgramError(f"{what} must be a whole number, got {value!r}")
    if not 1 <= value <= HIGHEST_MAX_PARALLELISM:
        raise InvalidProgramError(f"{what} must be between 1 and {HIGHEST_MAX_PARALLELISM}, got {value}")
    return value


def _check_text(value: object, what: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidProgramError(f"{what} must be a text that is not empty, got {value!r}")


class OperatorSettings(ABC):
    """Settings that are made after the call that made the operator; each gives the stream (or sink) itself back."""

    @abstractmethod
    def _operator(self, setting: str) -> PhysicalTransformation:
        """The operator that `setting` is about; an error where there is none."""

    def name(self, name: str) -> Self:
        """What the operator is called in plans, metrics and errors."""
        operator = self._operator("name")
        _check_text(name, f"{operator_label(operator.name)}: name")
        operator.name = prefixed_name(operator, name)
        return self

    def uid(self, uid: str) -> Self:
        """An identity that stays when the program changes, so that state finds its operator. Unique in a program."""
        operator = self._operator("uid")
        _check_text(uid, f"{operator_label(operator.name)}: uid")
        operator.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """The operator id itself, 32 hex digits, as an earlier job's log shows it: a last resort to find its state."""
        operator = self._operator("set_uid_hash")
        if not isinstance(uid_hash, str) or not re.fullmatch(r"[0-9a-f]{32}", uid_hash):
            raise InvalidProgramError(f"{operator_label(operator.name)}: uid hash is 32 hex digits, not {uid_hash!r}")
        operator.uid_hash = uid_hash
        return self

    def set_description(self, description: str) -> Self:
        """A longer text that plans show beside the name."""
        self._operator("set_description").description = description
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Number of subtasks. Default: the environment's."""
        operator = self._operator("set_parallelism")
        check_parallelism(parallelism, f"{operator_label(operator.name)}: parallelism")
        factory = operator.factory
        if isinstance(factory, SourceFactory) and not factory.source.is_parallel and parallelism != 1:
            raise InvalidProgramError(
                f"{operator_label(operator.name)}: {type(factory.source).__name__} runs in one subtask, so its "
                f"parallelism cannot be {parallelism}; use rebalance() after it"
            )
        if isinstance(factory, SinkFactory) and not factory.sink.is_parallel and parallelism != 1:
            raise InvalidProgramError(
                f"{operator_label(operator.name)}: {type(factory.sink).__name__} runs in one subtask, so its "
                f"parallelism cannot be {parallelism}"
            )
        operator.parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Number of key groups: the highest parallelism that the operator's state can ever be rescaled to."""
        operator = self._operator("set_max_parallelism")
        operator.max_parallelism = check_parallelism(
            max_parallelism, f"{operator_label(operator.name)}: max parallelism"
        )
        return self

    def force_non_parallel(self) -> Self:
        """Gives the operator one subtask, and no more after a rescale."""
        return self.set_parallelism(1).set_max_parallelism(1)

    def slot_sharing_group(self, slot_sharing_group: str) -> Self:
        """Names the group of operators that share slots with it. Default: the inputs' common group."""
        operator = self._operator("slot_sharing_group")
        _check_text(slot_sharing_group, f"{operator_label(operator.name)}: the name of the slot sharing group")
        operator.slot_sharing_group = slot_sharing_group
        return self

    def co_location_group(self, key: str) -> Self:
        """Subtasks of the same index of all operators with this key run in the same slot."""
        operator = self._operator("co_location_group")
        _check_text(key, f"{operator_label(operator.name)}: the key of the co-location group")
        operator.co_location_key = key
        return self

    def start_new_chain(self) -> Self:
        """The operator begins a task of its own; later ones may still join it."""
        self._operator("start_new_chain").chaining_strategy = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> Self:
        """The operator shares its task with no other."""
        self._operator("disable_chaining").chaining_strategy = ChainingStrategy.NEVER
        return self

    def set_buffer_timeout(self, timeout: Duration) -> Self:
        """Sets how long its rows may wait for more before they are sent; 0: not at all; -1: until a buffer is full."""
        operator = self._operator("set_buffer_timeout")
        name = f"{operator_label(operator.name)}: buffer timeout"
        operator.buffer_timeout_ms = to_millis(without_minus_one(timeout), name)
        return self

    def set_resources(self, min_resources: ResourceSpec, preferred_resources: ResourceSpec | None = None) -> Self:
        """What one subtask needs beside its share of a slot. Default of the preferred ones: the least."""
        operator = self._operator("set_resources")
        operator.min_resources = min_resources
        operator.preferred_resources = preferred_resources or min_resources
        return self


def prefixed_name(operator: PhysicalTransformation, name: str) -> str:
    """Sources and sinks show as "Source: x" and "Sink: x", as in Flink."""
    prefix = {SourceFactory: "Source: ", SinkFactory: "Sink: "}.get(type(operator.factory), "")
    return name if name.startswith(prefix) else prefix + name
