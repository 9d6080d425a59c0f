"""What a Flink job printed."""

from __future__ import annotations

import os
import subprocess

import pytest

from benchmarks.peers.printed import printed_rows, stdout_to_file


def rows_of(printed: str) -> list[tuple[object, ...]]:
    with stdout_to_file() as file:
        os.write(1, printed.encode())
        return list(printed_rows(file))


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("+I[word7, 3]", [("word7", 3.0)]),
        ("2> +I[1.5, 20]", [(1.5, 20.0)]),
        ("1> +U[word7, 4]", [("word7", 4.0)]),
        ("1> -U[word7, 3]", []),
        ("(word7,3)", [("word7", 3.0)]),
        ("2> 17", [(17.0,)]),
        ("1.2E7", [(1.2e7,)]),
    ],
)
def test_a_line_is_a_row_unless_it_takes_one_back(line: str, rows: list[tuple[object, ...]]) -> None:
    assert rows_of(f"{line}\n") == rows


def test_processes_started_inside_print_into_the_file() -> None:
    with stdout_to_file() as file:
        subprocess.run(["echo", "1> +I[2, 3]"], check=True)
        assert list(printed_rows(file)) == [(2.0, 3.0)]
