"""The reference of the command line as MyST text, made from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click


def command_reference(root: click.Command, name: str) -> str:
    """A section for each command that does something, in the order of `--help`.

    Args:
        name: what the command is called by in a shell.
    """
    return "\n\n".join(_section(context) for context in _commands(click.Context(root, info_name=name))) + "\n"


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Each command below, with the context that knows its full name."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            yield from _commands(click.Context(below, info_name=name, parent=context))


def _section(context: click.Context) -> str:
    usage = context.command.get_usage(context).removeprefix("Usage: ")
    parts = [f"## {context.command_path}", context.command.help or "", f"```text\n{usage}\n```", _options(context)]
    return "\n\n".join(part for part in parts if part)


def _options(context: click.Context) -> str:
    options = (each for each in context.command.get_params(context) if isinstance(each, click.Option))
    records = [each.get_help_record(context) for each in options if "--help" not in each.opts]
    if not records:
        return ""
    rows = "".join(f"| `{_cell(names)}` | {_cell(meaning)} |\n" for names, meaning in filter(None, records))
    return f"| option | meaning |\n|---|---|\n{rows}".rstrip()


def _cell(text: str) -> str:
    """Text of a table, where a bar would end it."""
    return text.replace("|", "\\|")
