"""The table of what sinks promise."""

from __future__ import annotations

from docs.extensions.guarantees import guarantee_table


def column(number: int) -> dict[str, str]:
    """A column of the table by the first one."""
    rows = [[cell.strip() for cell in line.split("|")] for line in guarantee_table().splitlines()[2:]]
    return {row[1]: row[number] for row in rows}


def test_it_says_what_the_sinks_themselves_say() -> None:
    rows = {
        cells[1].strip(): cells[2].strip() for line in guarantee_table().splitlines()[2:] if (cells := line.split("|"))
    }
    assert rows["FileSink"] == rows["KafkaSink, exactly once"] == rows["PostgresSink"] == "exactly once"
    assert rows["KafkaSink"] == "at least once"


def test_it_says_when_rows_are_visible() -> None:
    rows = {
        cells[1].strip(): cells[3].strip() for line in guarantee_table().splitlines()[2:] if (cells := line.split("|"))
    }
    assert rows["KafkaSink"] == "at once"
    assert rows["PostgresSink"] == rows["FileSink"] == "when a complete checkpoint is committed"
