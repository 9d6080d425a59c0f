"""Docstrings become reStructuredText that looks as they do."""

from __future__ import annotations

import pytest

from docs.extensions.docstrings import to_rst


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("The column `name`.\n", "The column ``name``.\n"),
        ("Several `Row`s.\n", "Several ``Row``\\ s.\n"),
        ("A code `that goes\non` here.\n", "A code ``that goes\non`` here.\n"),
        ("Takes *values, as a_ | b.\n", "Takes \\*values, as a\\_ \\| b.\n"),
        ("Not `*this*`.\n", "Not ``*this*``.\n"),
    ],
)
def test_code_is_marked_and_nothing_else_is(docstring: str, expected: str) -> None:
    assert to_rst(docstring) == expected


def test_a_fence_becomes_a_code_block_with_its_language() -> None:
    docstring = "Use it:\n\n```python\nx = `1`\n\ny = *x\n```\nThat is all.\n"
    assert to_rst(docstring).split("\n") == [
        "Use it:",
        "",
        "",
        ".. code-block:: python",
        "",
        "    x = `1`",
        "    ",
        "    y = *x",
        "",
        "",
        "That is all.",
        "",
    ]


def test_sections_become_fields_with_an_entry_for_each_name() -> None:
    docstring = (
        "What it does.\n\n"
        "Args:\n    first, second: both, which\n        go on; None: neither.\n    dataframe and the rest: others.\n"
        "Returns:\n    One of `these`: or\n    those.\n"
        "Raises:\n    KeyError: there is none.\nArguments of both:\n    x: a number.\n\nAnd so on.\n"
    )
    assert [line for line in to_rst(docstring).split("\n") if line] == [
        "What it does.",
        ":Parameters:",
        "    - ``first``, ``second``: both, which go on; None: neither.",
        "    - dataframe and the rest: others.",
        ":Returns: One of ``these``: or those.",
        ":Raises:",
        "    - ``KeyError``: there is none.",
        ":Arguments of both:",
        "    - ``x``: a number.",
        "And so on.",
    ]
