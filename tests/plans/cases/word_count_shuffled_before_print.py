"""Word count, with sum and print both at parallelism 2: the shuffle between them keeps them apart."""

from __future__ import annotations

from flinkray import StreamExecutionEnvironment


def split(line: str) -> list[tuple[str, int]]:
    return [(word, 1) for word in line.split()]


def is_word(pair: tuple[str, int]) -> bool:
    return pair[0].isalpha()


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    first = env.from_collection(["to be", "or not"]).name("first")
    second = env.from_collection(["to be"]).name("second")
    words = first.union(second).flat_map(split).shuffle().filter(is_word)
    counts = words.key_by("f0").sum("f1")
    counts.set_parallelism(2).shuffle().print().set_parallelism(2)
    return env
