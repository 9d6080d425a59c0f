"""Lines from a terminal: edited, remembered and completed where prompt_toolkit is there, and plain where it is not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from actors.client.sql.completion import completions, word_before
from actors.client.sql.pieces import is_blank, is_complete
from flinkray.tables.catalog import Catalog

PROMPT = "Flink SQL> "
CONTINUED = "           "
_COMMANDS = ("QUIT", "EXIT", "CLEAR", "HELP")


def may_run(text: str) -> bool:
    """Whether a text is to be carried out when the user ends a line: its last statement has its `;`, or it is a word
    such as QUIT, or nothing."""
    return is_blank(text) or is_complete(text) or text.strip().upper() in _COMMANDS


def texts(catalog: Callable[[], Catalog], history: Path) -> Iterator[str]:
    """What the user types, statement by statement, until the end of input.

    Args:
        catalog: what names are completed from, as it is by then.
        history: the file of what was typed before.
    """
    if not sys.stdin.isatty():
        return _plain_texts()
    try:
        import prompt_toolkit
    except ImportError:
        return _plain_texts()
    return _edited_texts(prompt_toolkit, catalog, history)


def _plain_texts() -> Iterator[str]:
    text = ""
    while True:
        try:
            text += input(CONTINUED if text else PROMPT) + "\n"
        except KeyboardInterrupt:
            text = ""
            print()
            continue
        except EOFError:
            if not is_blank(text):
                yield text
            return
        if may_run(text):
            yield text
            text = ""


def _edited_texts(toolkit: Any, catalog: Callable[[], Catalog], history: Path) -> Iterator[str]:
    session = prompt_session(toolkit, catalog, history)
    while True:
        try:
            yield session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def prompt_session(toolkit: Any, catalog: Callable[[], Catalog], history: Path, **terminal: Any) -> Any:
    """A PromptSession for statements in several lines: Enter carries out what is whole, and else begins a line.

    Args:
        terminal: its input and output, where these are others than the process's.
    """
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings

    class Names(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Any]:
            text = document.text_before_cursor
            for each in completions(text, catalog()):
                yield Completion(each, start_position=-len(word_before(text)))

    bindings = KeyBindings()

    @bindings.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if may_run(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    history.parent.mkdir(parents=True, exist_ok=True)
    return toolkit.PromptSession(
        PROMPT,
        multiline=True,
        prompt_continuation=CONTINUED,
        completer=Names(),
        complete_while_typing=False,
        history=FileHistory(str(history)),
        key_bindings=bindings,
        **terminal,
    )
