"""What is shown of settings, URIs and texts: whoever may read a log, a plan or a listing must not learn secrets.

One rule for all that is shown. What a program itself gets back, such as the place of its savepoint, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"

_SECRETS = (
    r"passw(?:or)?d|passphrase|secret|token|credential|authorization|basic[_.-]?auth|"
    r"(?:api|access|account|private|service|secret)[_.-]?key"
)
_SECRET_NAME = re.compile(rf"{_SECRETS}|jaas|oauthbearer|(?<![^\W_])key(?![^\W_])", re.IGNORECASE)
"""In the names of settings, `key` as a word of its own counts too; in texts it mostly is the key of a row."""
_SECRET_OPTION = re.compile(rf"{_SECRETS}|jaas|oauthbearer", re.IGNORECASE)
_USER = re.compile(r"://(?:[^\s/?#:@'\"]{0,200}:(?!\d+/)[^\s@'\"]{0,300}|[^\s/?#:@'\"]{1,300})@")
"""Who a URI says to be, as in s3://KEY:SECRET@bucket. A secret may have slashes in it; a port is no secret. The lengths
keep the search from starting over again and again in long texts."""
_PAIR = re.compile(
    rf"((?:(?:{_SECRETS})[\w.-]{{0,40}}|[?&](?:sig|signature|code|key))"
    r"(?:=|['\"]?\s{0,3}=\s{0,3}(?=['\"])|:(?=[^\s/])|['\"]:\s?))"
    r"('[^']*'|\"[^\"]*\"|[^\s,;&'\"()\[\]{}]+)",
    re.IGNORECASE,
)
"""Name and value: `secret_key=…` of a URI or a call, `password:…` of an option, `'password': '…'` of a dict, and
`'password' = '…'` of a statement."""
_HEADER = re.compile(r"\b(bearer|basic) +[\w.~+/=-]{16,}", re.IGNORECASE)
"""What a request says of who sends it."""


def redacted(text: str) -> str:
    """The text without the secrets in it: those of URIs, and values that are given to a name such as `password`."""
    if "://" in text:
        text = _USER.sub(f"://{HIDDEN}@", text)
    return _HEADER.sub(rf"\1 {HIDDEN}", _PAIR.sub(rf"\1{HIDDEN}", text))


def redacted_value(name: str, value: object) -> object:
    """The value of a setting as it may be shown: of one whose name speaks of a secret nothing, of a mapping each of its
    values by its own name."""
    if _SECRET_NAME.search(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: redacted_value(str(key), each) for key, each in value.items()}
    return redacted(value) if isinstance(value, str) else value


def is_secret(name: str, value: str) -> bool:
    """Whether an option of a table, or a part of its value, is a secret. A `key` by itself is the key of rows there.
    Headers of requests are all taken for secrets, as cookies and many that services made up are."""
    return name.startswith("header.") or bool(_SECRET_OPTION.search(name)) or redacted(value) != value
