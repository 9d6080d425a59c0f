"""`flinkray sql`: from a prompt, a file or the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from actors.client.sql import prompt
from actors.client.sql.client import Quit, SqlClient
from actors.client.sql.jobs import ClusterJobs

HISTORY = Path.home() / ".flinkray" / "sql-history"


def run(
    settings: Mapping[str, str],
    init: Path | None,
    file: Path | None,
    statements: Sequence[str],
    cluster: ClusterJobs,
    *,
    as_json: bool = False,
) -> None:
    """Carries out the statements of files and of the command line, or of whoever sits at the terminal.

    Raises:
        FlinkrayError: of the first statement of `init`, `file` or `statements` that fails.
    """
    is_interactive = file is None and not statements
    client = SqlClient(settings, Console(), cluster, is_interactive=is_interactive, as_json=as_json)
    try:
        with suppress(Quit):
            if init is not None:
                client.run_script(init.read_text(encoding="utf-8"), str(init))
            if is_interactive:
                _talk(client)
                return
            if file is not None:
                client.run_script(file.read_text(encoding="utf-8"), str(file))
            for text in statements:
                client.run_script(text)
        if not is_interactive:
            client.wait_for_jobs()
    finally:
        client.close()


def _talk(client: SqlClient) -> None:
    client.console.print("Statements end with a semicolon; HELP; says more, QUIT; ends.")
    for text in prompt.texts(lambda: client.tables.catalog, HISTORY):
        client.run_line(text)
    client.console.print()
