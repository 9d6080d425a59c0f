"""Addresses of PostgreSQL as JDBC's driver takes them."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

_JDBC = "jdbc:"
_OF_LIBPQ = {"ApplicationName": "application_name", "connectTimeout": "connect_timeout"}
"""What parameters of JDBC's addresses are called here."""
_WITHOUT_EFFECT = "reWriteBatchedInserts"
"""How the driver sends rows, which changes none of them."""
_STRING_TYPES = ("varchar", "unspecified")


class JdbcAddress(Struct, frozen=True):
    """What an address says."""

    uri: str
    """As the server's own library takes it."""
    types_texts: bool = True
    """Whether texts are sent as varchar (`stringtype`); False: the server takes them for what their place wants."""

    def __repr__(self) -> str:  # without the address, which may have a password
        return f"JdbcAddress(types_texts={self.types_texts})"


def is_of_postgres(url: str) -> bool:
    """Whether it is an address of a PostgreSQL server, JDBC's or the server's own."""
    return url.removeprefix(_JDBC).startswith(("postgresql://", "postgres://"))


def read_address(url: str, user: str, password: str) -> JdbcAddress:
    """The server's address.

    Args:
        url: of a PostgreSQL server.
        user: asks instead of whom the address names; empty: the address has it, or nobody.
        password: of whoever asks; empty: the address has it, or none is needed.
    Raises:
        ValueError: it has a parameter of the driver that means nothing here.
    """
    found: dict[str, str] = {}
    types_texts = True
    if url.startswith(_JDBC):
        url, _, query = url.removeprefix(_JDBC).partition("?")
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name in ("currentSchema", "options"):
                more = f"-csearch_path={value}" if name == "currentSchema" else value
                found["options"] = f"{found.get('options', '')} {more}".strip()
            elif name == "ssl":
                if value.lower() != "false":
                    found.setdefault("sslmode", "verify-full")
            elif name == "stringtype" and value.lower() in _STRING_TYPES:
                types_texts = value.lower() == _STRING_TYPES[0]
            elif name in _OF_LIBPQ or (name == name.lower() and name != "stringtype"):
                found[_OF_LIBPQ.get(name, name)] = value
            elif name != _WITHOUT_EFFECT:
                raise ValueError(
                    f"parameter {name!r} of 'url' is one of JDBC's driver, which is not used here: leave it out"
                )
    scheme, _, rest = url.partition("://")
    if user:
        rest = re.sub(r"^[^/?]*@", "", rest)  # who it names itself; two would make a host of a password, which is shown
        rest = f"{quote(user, safe='')}{f':{quote(password, safe=str())}' if password else ''}@{rest}"
    elif password:
        found["password"] = password
    parameters = f"{'&' if '?' in rest else '?'}{urlencode(found, quote_via=quote)}" if found else ""
    return JdbcAddress(f"{scheme}://{rest}{parameters}", types_texts)
