"""In batch mode exchanges are blocking, and every subtask between them is a region of its own."""

from __future__ import annotations

from flinkray import Configuration, StreamExecutionEnvironment


def program() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"parallelism.default": 2}))
    env.set_runtime_mode("batch")
    words = env.from_collection(["to be or not to be"]).flat_map(lambda line: line.split())
    words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).print()
    return env
