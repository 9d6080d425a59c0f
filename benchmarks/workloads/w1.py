"""W1: count words of a text file."""

from __future__ import annotations

from collections import Counter

from benchmarks.definitions import Result, text_file, words
from benchmarks.workloads.base import Workload
from flinkray import Count, DataStream, FileSource, StreamExecutionEnvironment, WatermarkStrategy


class W1(Workload):
    name = "W1"
    title = "word count"
    work = "text, 10 words a line, p(rank) ~ 1/rank: flat_map(str.split), key by word, running count"
    unit = "words/s"
    checked_columns = ("value", "n")

    def stream(self, env: StreamExecutionEnvironment, rows: int) -> DataStream:
        source = FileSource(text_file(rows), format="text")
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        return lines.flat_map(str.split, output_type=str).key_by("value").aggregate(n=Count())

    def expected(self, rows: int) -> Result:
        return Result(rows, float(sum(Counter(words(rows)).values())))
