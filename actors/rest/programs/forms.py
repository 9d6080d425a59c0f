"""The file in a form that came over HTTP (multipart/form-data, RFC 7578)."""

from __future__ import annotations

from email.message import Message

from msgspec import Struct

from actors.rest.asking.refusals import Refusal

# A part is described in some lines; a form has one file, and perhaps some fields beside it.
_MOST_HEADERS = 8 * 1024
_MOST_PARTS = 16


class FormFile(Struct, frozen=True):
    """A file as the client called it, which may be anything."""

    name: str
    data: bytes


def file_of(content_type: str, body: bytes) -> FormFile:
    """The file of a form; fields beside it say nothing.

    Raises:
        Refusal: it is no form, or has not exactly one file.
    """
    boundary = _described(b"content-type: " + content_type.encode("utf-8", "replace")).get_boundary("")
    if not 1 <= len(boundary) <= 70:
        raise Refusal(400, "Content-Type has no boundary of 1 to 70 characters, with which a form is divided")
    delimiter = b"\r\n--" + boundary.encode("utf-8", "replace")
    _, *parts = (b"\r\n" + body).split(delimiter, _MOST_PARTS + 1)
    if not parts or not parts[-1].startswith(b"--"):
        reason = f"has more than {_MOST_PARTS} parts" if len(parts) > _MOST_PARTS else "is not whole"
        raise Refusal(400, f"the form {reason}")
    files = [file for part in parts[:-1] if (file := _file(part)) is not None]
    if len(files) != 1:
        raise Refusal(400, f"the form has {len(files)} files, and has to have one: curl -F jarfile=@program.py")
    return files[0]


def _file(part: bytes) -> FormFile | None:
    """None: the part is a field."""
    line, _, rest = part.partition(b"\r\n")
    head, empty_line, data = rest.partition(b"\r\n\r\n")
    if line.strip() or not empty_line or len(head) > _MOST_HEADERS:
        raise Refusal(400, "a part of the form has no headers, or too many")
    name = _described(head).get_filename()
    return None if name is None else FormFile(name, data)


def _described(head: bytes) -> Message:
    """Headers, of which only those are read that forms have."""
    found = Message()
    for line in head.decode("utf-8", "replace").split("\r\n"):
        name, _, value = line.partition(":")
        if name.strip().lower() in ("content-type", "content-disposition"):
            found[name.strip()] = value.strip()
    return found
