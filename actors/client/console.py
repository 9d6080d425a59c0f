"""What the commands of `flinkray` have in common: options, how errors are said, and JSON."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from flinkray.errors import FlinkrayError
from flinkray.redaction import redacted

SETTINGS = click.option("-D", "settings", multiple=True, metavar="KEY=VALUE", help="Sets an option; may be repeated.")
CLUSTER = click.option("--cluster", metavar="NAME", help="What the job runs in, as `list` shows it.")
JOB = click.argument("job")  # its id, or how that begins
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead.")


def speaks_plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that flinkray raises on purpose are one message on standard error and exit code 1, without a traceback; so
    is that standard output takes nothing more."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except FlinkrayError as error:
            say(error)
            sys.exit(1)
        except OSError as error:
            # Of a reader that has gone, as `head` does, click makes a quiet end.
            if error.errno == errno.EPIPE or not _is_of_output(error):
                raise
            say(FlinkrayError(f"standard output takes nothing more: {error.strerror}"))
            sys.exit(1)

    return run


def _is_of_output(error: OSError) -> bool:
    """Whether what was printed cannot be written; if so it is dropped, or Python would complain of it once more.

    The error does not say of which file it is, and of what is long, or printed at once, nothing is left that could be
    tried again.
    """
    if sys.stdout is None:
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    is_broken = any(
        each.f_code is click.echo.__code__ or each.f_globals.get("__name__") == Console.__module__ for each in frames
    )
    try:
        sys.stdout.flush()
    except OSError:
        is_broken = True
    if is_broken:
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return is_broken


def say(error: FlinkrayError) -> None:
    console = Console(stderr=True, soft_wrap=True)
    console.print(Text(f"{type(error).__name__}: ", style="bold red"), Text(str(error)), sep="")


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(redacted(line))


def print_json(document: object) -> None:
    """One line of JSON: a Struct, or a mapping. Secrets in texts are hidden."""
    click.echo(msgspec.json.encode(_without_secrets(msgspec.to_builtins(document))))


def _without_secrets(value: Any) -> Any:
    match value:
        case str():
            return redacted(value)
        case list():
            return [_without_secrets(each) for each in value]
        case dict():
            return {name: _without_secrets(each) for name, each in value.items()}
    return value
