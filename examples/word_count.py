"""Counts the words of a text while it streams by, and prints the most frequent ones.

    python examples/word_count.py [--target ray|local] [--input FILE]

Input: the lines of FILE, or of a soliloquy from Hamlet.
Output: the ten most frequent words with their counts, on the terminal.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from flinkray import DataStream, FileSource, StreamExecutionEnvironment, WatermarkStrategy

HAMLET = """
To be, or not to be, that is the question:
Whether 'tis nobler in the mind to suffer
The slings and arrows of outrageous fortune,
Or to take arms against a sea of troubles
And by opposing end them. To die: to sleep;
No more; and by a sleep to say we end
The heart-ache and the thousand natural shocks
That flesh is heir to, 'tis a consummation
Devoutly to be wish'd. To die, to sleep;
To sleep: perchance to dream: ay, there's the rub;
"""


def words(line: str) -> Iterator[str]:
    """The words of a line, in lower case and without punctuation around them."""
    for word in line.lower().split():
        stripped = word.strip(".,;:!?'\"()")
        if stripped:
            yield stripped


def count(lines: DataStream) -> DataStream:
    """For each word that comes, the word and how often it has come so far."""
    return lines.flat_map(words).map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).name("count")


def top(counts: dict[str, int], number: int) -> list[tuple[str, int]]:
    """The most frequent words; of equally frequent ones the first in the alphabet."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=("ray", "local"), default="ray", help="where the job runs")
    parser.add_argument("--input", type=Path, help="a text file")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment(
        {"execution.target": arguments.target, "parallelism.default": 2}
    )
    if arguments.input:
        lines = env.from_source(FileSource(arguments.input, "text"), WatermarkStrategy.no_watermarks(), "lines")
    else:
        lines = env.from_collection(HAMLET.splitlines())

    # Results arrive while the job runs. The counts of a word come in order, so the last one is the word's total.
    counts = dict(count(lines).execute_and_collect("word count"))
    for word, number in top(counts, 10):
        print(f"{number:6} {word}")


if __name__ == "__main__":
    main()
