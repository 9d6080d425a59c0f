"""Addresses, headers and answers of HTTP, and what their errors mean to a user."""

from __future__ import annotations

import email.utils
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from flinkray.errors import ConnectorError, InvalidProgramError
from flinkray.extras import import_package
from flinkray.redaction import redacted

LONGEST_RETRY_AFTER_MS = 300_000
"""A server that asks for a longer pause is asked again after this one: a checkpoint waits for it."""
_NOT_ABOUT_ROWS = (401, 403, 404, 405, 407, 410)
"""Refusals that all rows would get."""
_LATER = (408, 425, 429)
_NEVER = (501, 505)
_SHOWN = 200
"""Characters of an answer that errors show."""
_MOST_READ = 1 << 16


class HttpError(ConnectorError):
    """A server cannot be asked, or cannot listen; says what, and the way out."""


def aiohttp() -> Any:
    """The package; a MissingDependencyError says what brings it."""
    return import_package("aiohttp", "HTTP")


def checked_url(url: str, name: str) -> str:
    """An address of a server.

    Raises:
        InvalidProgramError: it is none.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or any(each.isspace() for each in url):
        raise InvalidProgramError(f"{name}(url=...) is like 'https://host:8080/rows', not {shown(url)!r}")
    return url


def shown(url: str) -> str:
    """An address without what may be secret: user, password and query."""
    # A password may have characters in it that end the place, such as a slash.
    plain = redacted(url).partition("?")[0].partition("#")[0]
    scheme, separator, rest = plain.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{separator}{place.rpartition('@')[2]}{slash}{path}"


def checked_headers(headers: Mapping[str, str], name: str) -> tuple[tuple[str, str], ...]:
    """Headers as they are sent.

    Raises:
        InvalidProgramError: one cannot be sent; its value is not shown.
    """
    for header, value in headers.items():
        is_name = bool(header) and header.isascii() and not any(each.isspace() or each in ':"(),/' for each in header)
        if not is_name or not isinstance(value, str) or any(each in "\r\n\0" for each in value):
            raise InvalidProgramError(f"{name}(headers=...): {header!r} is no header, or its value no line of text")
    return tuple(headers.items())


def is_shown(token: str | None, headers: Mapping[str, str]) -> bool:
    """Whether a request shows the token, as `Authorization: Bearer ...` or `X-Token: ...`, or need not."""
    if token is None:
        return True
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    given = bearer.strip() if scheme.lower() == "bearer" else headers.get("X-Token", "")
    # A byte that is no UTF-8 comes as a surrogate.
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode("utf-8", "surrogatepass"))


# -- answers


def is_done(status: int) -> bool:
    return 200 <= status < 300


def is_for_later(status: int) -> bool:
    """Whether the same request may succeed in a while."""
    return status in _LATER or (status >= 500 and status not in _NEVER)


def refuses_rows(status: int) -> bool:
    """Whether other rows might be taken."""
    return 400 <= status < 500 and status not in _LATER and status not in _NOT_ABOUT_ROWS


def retry_after_ms(header: str | None, now_ms: int) -> int:
    """What `Retry-After` says, seconds or a time: at most five minutes; 0 where it says nothing that can be read."""
    if header is None:
        return 0
    text = header.strip()
    if text.isdecimal():
        wanted = int(text) * 1_000
    else:
        try:
            wanted = int(email.utils.parsedate_to_datetime(text).timestamp() * 1_000) - now_ms
        except (ValueError, OverflowError):
            return 0
    return max(0, min(wanted, LONGEST_RETRY_AFTER_MS))


def explained(status: int, text: str, location: str | None = None) -> str:
    """What a server answered, with what can be done about it where that is known."""
    said = " ".join(text.split())
    answer = f"it answered {status}" + (f" ({said[:_SHOWN]})" if said else "")
    if 300 <= status < 400:
        place = "another place" if location is None else shown(location)
        return f"{answer} and points to {place}: redirects are not followed, give the final address as url="
    hints = {
        401: "it wants to know who asks: give an Authorization in headers=",
        403: "who asks may not: look at headers= and the rights there",
        404: "nothing is at that path: look at url=",
        405: "it wants another method=",
        410: "nothing is at that path any more: look at url=",
        413: "it is too large: raise the server's limit",
        415: "it wants another content type: look at value_format=, body= and headers=",
    }
    hint = hints.get(status)
    return answer if hint is None else f"{answer}: {hint}"


async def answer_of(response: Any) -> str:
    """The beginning of an answer's text. A short one is read to its end, so that its connection can be used again."""
    found = b""
    while len(found) < _MOST_READ and (piece := await response.content.read(_MOST_READ)):
        found += piece
    return found.decode("utf-8", "replace")


def reason_of(error: BaseException, timeout_ms: int) -> str:
    """Why a request got no answer, without its address: that may have secrets, and these errors show all of it."""
    errors = aiohttp()
    if isinstance(error, TimeoutError):
        return f"no answer in {timeout_ms} ms"
    if isinstance(error, errors.ClientResponseError):
        return f"the answer is no HTTP that can be read ({type(error).__name__}: {error.message})"
    if isinstance(error, errors.InvalidURL):
        return "the address is none that can be asked: look at url="
    if isinstance(error, errors.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        return (
            f"its certificate is not trusted here ({why}): have an authority sign it that is, or name the authority's "
            "file in the variable SSL_CERT_FILE of the job's processes"
        )
    if isinstance(error, errors.ClientConnectorSSLError):
        why = getattr(error.os_error, "reason", "") or error.os_error
        return f"no TLS is spoken with it ({why}): is https:// right in url=?"
    if isinstance(error, errors.ClientConnectorError):
        return f"{error}: does it run, and is it reachable from here?"
    return str(error) or type(error).__name__


def without_address(error: BaseException) -> BaseException | None:
    """The cause that an error may name, for `raise ... from`: None where its own text shows the whole address."""
    errors = aiohttp()
    return None if isinstance(error, errors.ClientResponseError | errors.InvalidURL) else error


def is_transient(error: BaseException) -> bool:
    """Whether the same may succeed in a moment: nobody listens, or the connection was lost."""
    errors = aiohttp()
    if isinstance(error, errors.ClientConnectorCertificateError | errors.ClientSSLError | errors.InvalidURL):
        return False
    return isinstance(error, errors.ClientError | OSError | TimeoutError)
