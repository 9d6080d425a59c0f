"""What the pages of the documentation show runs as it stands there, and prints what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
WITH_SERVERS = {"kafka", "nats", "postgres", "redis"}
"""Pages whose programs need servers: `tests/servers` runs them."""
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if page.stem not in WITH_SERVERS and "```python" in page.read_text(encoding="utf-8")
)

BLOCK = re.compile(r"```(python|text|mermaid)\n(.*?)```", re.DOTALL)


def test_there_is_a_page_for_each_concept() -> None:
    concepts = {"event-time", "windows", "joins", "state-and-timers", "async-io", "batch", "iterations", "testing"}
    concepts |= {"recipes", "debugging"}
    assert concepts <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_runs_and_prints_what_it_says(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLINKRAY_EXECUTION_TARGET", "local")
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""  # by the last program, if nothing has shown it yet
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            assert printed == "", f"the page does not show what a program prints: {printed}"
            exec(compile(block, page.name, "exec"), names)
            printed = capsys.readouterr().out
        elif language == "text" or printed:
            assert printed.strip() == block.strip()
            printed = ""


def test_figures_that_speak_for_or_against_flinkray_are_measured_ones() -> None:
    claimed = (DOCS / "when-not-to-use-it.md").read_text(encoding="utf-8").replace(" times", "×")
    measured = (DOCS / "performance.md").read_text(encoding="utf-8")
    figures = set(re.findall(r"\d[\d,.]*(?:×| (?:ms|s|ns|µs|MiB)\b)", claimed))
    assert len(figures) >= 10
    assert {figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}", measured)} == set()


MENTIONED = re.compile(r"(?<![\w/.-])((?:actors|benchmarks|docs|examples|flinkray|graphs|tests)/[\w./-]*\w/?)")
LINKED = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
TEXTS = [
    *sorted(DOCS.rglob("*.md")),
    *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_each_file_that_a_text_mentions_or_links_to_is_there(text: Path) -> None:
    content = text.read_text(encoding="utf-8")
    mentioned = [DOCS.parent / path for path in MENTIONED.findall(content)]
    linked = [text.parent / path for path in LINKED.findall(content)]
    assert [str(path) for path in (*mentioned, *linked) if not path.exists()] == []


def test_the_page_about_the_orders_shows_the_program_as_it_is() -> None:
    program = (DOCS.parent / "examples" / "orders.py").read_text(encoding="utf-8")
    shown = re.findall(r"```py\n(.*?)```", (DOCS / "guides" / "orders.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(shown) == 3
    assert all(block in program for block in shown)
