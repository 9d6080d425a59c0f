"""The command reference says what `--help` says."""

from __future__ import annotations

import click

from actors.client.cli import main
from docs.extensions.commands import command_reference


@click.group()
def tool() -> None: ...


@tool.group()
def inner() -> None:
    """Commands about one thing."""


@inner.command()
@click.option("--how", type=click.Choice(["fast", "well"]), default="well", show_default=True, help="In which way.")
@click.argument("what")
def make(how: str, what: str) -> None:
    """Make WHAT."""


@tool.command(hidden=True)
def secret() -> None: ...


def test_a_command_has_its_usage_its_help_and_its_options() -> None:
    assert command_reference(tool, "tool") == (
        "## tool inner make\n\n"
        "Make WHAT.\n\n"
        "```text\ntool inner make [OPTIONS] WHAT\n```\n\n"
        "| option | meaning |\n|---|---|\n| `--how [fast\\|well]` | In which way.  [default: well] |\n"
    )


def test_every_command_of_flinkray_is_there() -> None:
    reference = command_reference(main, "flinkray")
    for name, command in main.commands.items():
        expected = [f"{name} {each}" for each in command.commands] if isinstance(command, click.Group) else [name]
        assert all(f"## flinkray {each}\n" in reference for each in expected)
