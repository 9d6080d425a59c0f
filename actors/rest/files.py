"""The page: the files of `page/`, under the paths at which the server has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

_FOLDER = Path(__file__).parent / "page"

# Only these are served; what else is beside them, such as the table of what is others' work, is not for browsers.
_CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


class PageFile(Struct, frozen=True):
    """A file as it is served."""

    body: bytes
    content_type: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Path -> file: all that there is. The page itself is at `/`, and names the others relative to that."""
    found = {
        f"/page/{path.relative_to(_FOLDER).as_posix()}": PageFile(path.read_bytes(), _CONTENT_TYPES[path.suffix])
        for path in sorted(_FOLDER.rglob("*"))
        if path.suffix in _CONTENT_TYPES
    }
    found["/"] = found.pop("/page/index.html")
    return found
