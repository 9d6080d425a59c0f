"""Who may ask, and who may change something: decided by a request's headers alone."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from msgspec import Struct

from actors.rest.asking.refusals import Refusal

JSON = "application/json"
FORM = "multipart/form-data"

_SIMPLE = ("GET", "HEAD", "POST")
"""The methods that a page of another origin can use without asking first, which browsers call simple."""

# Ray's dashboard has its token under these, so that one login does for both.
_HEADERS = ("authorization", "x-ray-authorization")
_BEARER = "Bearer "
COOKIE = "ray-authentication-token"


class Access(Struct, frozen=True):
    """Whom the server answers.

    A server without a token is for users of its own machine. A page of another site that their browser shows could ask
    it too: so the request has to name this machine, which it would not after that site's name was made to point here.
    """

    token: str | None = None
    """What everybody has to show; None: nothing."""
    names: frozenset[str] = frozenset()
    """Further names of this server that a request may give, where there is no token."""

    def check(
        self, method: str, headers: Mapping[str, str], *, is_write: bool, has_body: bool, kind: str = JSON
    ) -> None:
        """
        Args:
            headers: with their names in small letters.
            kind: the type that a body has to have.

        Raises:
            Refusal: it may not; says what is missing.
        """
        if self.token is None:
            self._check_host(headers.get("host", ""))
        else:
            self._check_token(headers)
        if is_write:
            _check_origin(method, headers)
            _check_type(method, headers, has_body, kind)

    def check_page(self, headers: Mapping[str, str]) -> None:
        """As `check` for files of the page, which tell nothing of the cluster: anybody gets the form for the token.

        Raises:
            Refusal: it is asked for under a name that is not this server's.
        """
        if self.token is None:
            self._check_host(headers.get("host", ""))

    def _check_token(self, headers: Mapping[str, str]) -> None:
        assert self.token is not None
        shown = _shown(headers)
        if not shown:
            raise Refusal(
                401,
                "show the token that `ray get-auth-token` prints, as `Authorization: Bearer <token>` or in the cookie "
                f"{COOKIE!r}",
            )
        if not hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), self.token.encode()):
            raise Refusal(403, "that is not the token of this cluster, which `ray get-auth-token` prints there")

    def _check_host(self, host: str) -> None:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if not (name in self.names or name == "localhost" or name.endswith(".localhost") or is_loopback(name)):
            raise Refusal(403, f"this server answers as localhost, and not as {host!r}")


def is_loopback(address: str) -> bool:
    """Whether only processes of this machine can connect to that address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _shown(headers: Mapping[str, str]) -> str:
    for name in _HEADERS:
        value = headers.get(name, "")
        if value:
            return value.removeprefix(_BEARER).strip() if value.startswith(_BEARER) else ""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def _check_origin(method: str, headers: Mapping[str, str]) -> None:
    site = headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        raise Refusal(403, f"a page of another origin ({site}) may not change anything here")
    # Where the browser says so, a proxy may have put its own name for this server into the host.
    origin = None if site == "same-origin" else headers.get("origin")
    if origin is not None and (not headers.get("host") or _place_of(origin) != headers["host"]):
        raise Refusal(403, f"a page of {origin!r} may not change anything here")
    if method == "GET" and site != "same-origin":
        # A link or an image could ask for it as well; browsers say of those where they come from, or nothing.
        raise Refusal(403, "GET changes something here only for a page of this server; use PATCH or POST")


def _place_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _check_type(method: str, headers: Mapping[str, str], has_body: bool, wanted: str) -> None:
    """What a page of another site can send without asking first is no JSON; a form it can, where its browser says from
    which page."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_needed = has_body or (method in _SIMPLE and method != "GET")
    if is_needed and kind != wanted:
        raise Refusal(415, f"Content-Type has to be {wanted}, not {kind or 'missing'}")
