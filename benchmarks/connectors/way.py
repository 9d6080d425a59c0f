"""Ways of rows between a server and a process: by flinkray's connector, and by the client that it stands on alone."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from flinkray import DataStream, DiscardSink, Sink, Source, StreamExecutionEnvironment, WatermarkStrategy

WORDS = ("red", "green", "blue", "yellow")


class Way(ABC):
    """One way. A place is a topic, table or stream, of which rows are read or to which they are written."""

    name: ClassVar[str]
    work: ClassVar[str]
    server: ClassVar[str]
    """What has to run."""
    client_is: ClassVar[str]
    """What the client alone does."""

    def __init__(self, server: Any) -> None:
        self.server_of_it = server

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the server is: what the other process is given."""

    @abstractmethod
    def prepare(self, place: str, rows: int) -> None:
        """Makes the place, with rows to be read where they are read."""

    def clear(self, place: str) -> None:
        """Gives back what the server has few of; tables, topics and streams stay."""

    @staticmethod
    def make(rows: int) -> None:
        """Makes what both sides are given, before they are measured; others remember it."""

    @staticmethod
    @abstractmethod
    def client(address: str, place: str, rows: int) -> None:
        """The work by the client alone."""

    @staticmethod
    @abstractmethod
    def flinkray(address: str, place: str, rows: int) -> None:
        """The work by a job."""


@functools.cache
def orders(rows: int) -> pa.Table:
    """Rows of four columns: a number, a customer, a price, a word."""
    numbers = np.arange(rows)
    return pa.table(
        {
            "id": numbers,
            "customer": numbers * 2_654_435_761 % 10_007,
            "price": numbers % 1000 / 4,
            "word": pa.DictionaryArray.from_arrays(pa.array(numbers % len(WORDS)), pa.array(WORDS)).cast(pa.string()),
        }
    )


def _environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment({"execution.target": "local", "parallelism.default": 1})


def read(source: Source, rows: int) -> None:
    """A job that reads a source to its end, and nothing else; fails if there are other than so many rows."""
    env = _environment()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "read").sink_to(DiscardSink())
    client = env.execute_async("read")
    client.result()
    seen = client.progress().records_in
    client.close()
    assert seen == rows, f"{seen:,} rows were read, not {rows:,}"


def write(rows: pa.Table, sink: Sink) -> None:
    """A job that writes rows, and nothing else."""
    env = _environment()
    stream: DataStream = env.from_arrow(rows)
    stream.sink_to(sink)
    env.execute("write")
