"""What a Flink job prints, read back: `collect()` of results takes Python five milliseconds a row."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

ROW = re.compile(r"(?:\d+> )?(?:\+[IU]\[(?P<row>.*)\]|\((?P<tuple>.*)\)|(?P<value>[^\[(]*))")
"""Matches printed rows such as "2> +U[word7, 3]", "(word7,3)" and "1> 17", but no row that is retracted, such as
"-U[word7, 2]"."""


@contextlib.contextmanager
def stdout_to_file() -> Iterator[BinaryIO]:
    """Redirects the standard output of processes that are started inside the block, such as the JVM of the first
    environment."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield file
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def printed_rows(file: BinaryIO) -> Iterator[tuple[Any, ...]]:
    """The rows of words and numbers that were printed; of rows that change, each new value."""
    file.seek(0)
    for line in file.read().decode().splitlines():
        row = ROW.fullmatch(line)
        if row is not None:
            text = row["row"] or row["tuple"] or row["value"]
            yield tuple(value if value[:1].isalpha() else float(value) for value in text.replace(" ", "").split(","))
