"""TLS as options say: certificate and key are looked at as a client would, before anybody connects."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from pathlib import Path

from flinkray.config.configuration import Configuration
from flinkray.config.rest_options import REST_ADDRESS, REST_BIND_ADDRESS, REST_SSL_CERTIFICATE, REST_SSL_KEY
from flinkray.errors import ConfigurationError

log = logging.getLogger(__name__)

_EVERY_ADDRESS = ("0.0.0.0", "::")

# What OpenSSL calls them (X509_V_ERR_…).
_NOT_YET_VALID, _EXPIRED, _OTHER_NAME, _OTHER_ADDRESS = 9, 10, 62, 64


class Tls:
    """What a server speaks TLS with: a certificate and its key, which are read again once their files change.

    Belongs to the thread that accepts connections.

    Args:
        name: under which clients connect; empty: that is not known.

    Raises:
        ConfigurationError: certificate and key are not there, do not belong together, or no client would accept them.
    """

    def __init__(self, certificate: str, key: str, name: str) -> None:
        self._certificate = certificate
        self._key = key
        self._name = name
        self._seen = self._stamps()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """For the next connection. As long as new files cannot be used, as while one of them has yet to be written, it
        is as before, and the log says why."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            try:
                self._context = self._read()
            except (ConfigurationError, OSError) as error:  # OSError: gone between two looks, or refused by OpenSSL
                log.warning("the REST server goes on with the certificate that it had: %s", error)
            else:
                log.info("the REST server has read the certificate in %r again", self._certificate)
        return self._context

    def _read(self) -> ssl.SSLContext:
        context = _loaded(self._certificate, self._key)
        _check(context, self._certificate, self._name)
        return context

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_stamp, (self._certificate, self._key)))


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What differs once a file, or a link to one, has changed; None: it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def tls_of(configuration: Configuration) -> Tls | None:
    """What the server speaks TLS with; None: it speaks plain HTTP.

    Raises:
        ConfigurationError: certificate and key are not there, do not belong together, or no client would accept them.
    """
    certificate, key = configuration.get(REST_SSL_CERTIFICATE), configuration.get(REST_SSL_KEY)
    if not certificate:
        if key:
            raise ConfigurationError(f"{REST_SSL_KEY.key} is set, and {REST_SSL_CERTIFICATE.key} is not: it needs both")
        return None
    address = configuration.get(REST_ADDRESS) or configuration.get(REST_BIND_ADDRESS)
    return Tls(certificate, key or certificate, "" if address in _EVERY_ADDRESS else address)


def _loaded(certificate: str, key: str) -> ssl.SSLContext:
    for option, path in ((REST_SSL_CERTIFICATE, certificate), (REST_SSL_KEY, key)):
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{option.key} {path!r} cannot be read: {error.strerror}") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    is_encrypted = False

    def password() -> str:
        nonlocal is_encrypted
        is_encrypted = True  # else OpenSSL would ask for it on the terminal
        return ""

    try:
        context.load_cert_chain(certificate, key, password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        if is_encrypted:
            text = f"the key in {key!r} is encrypted; give one without a password, which only this user can read"
        elif reason == "KEY_VALUES_MISMATCH":
            text = f"the key in {key!r} is not that of the certificate in {certificate!r}"
        else:
            text = f"{certificate!r} and {key!r} are no certificate and key in PEM ({reason})"
        raise ConfigurationError(f"the REST server cannot speak TLS: {text}") from error
    return context


def _check(context: ssl.SSLContext, certificate: str, name: str) -> None:
    """
    Args:
        name: under which clients connect; empty: that is not known.
    """
    error = _complaint(context, certificate, name)
    if error is None:
        return
    text = f"the certificate in {certificate!r}"
    match error.verify_code:
        case code if code in (_OTHER_NAME, _OTHER_ADDRESS):
            # Whoever connects through a tunnel or a proxy may use another name.
            log.warning(
                "%s is not for %r, so clients that verify it refuse to connect there: set %s to a name that it has",
                text,
                name,
                REST_ADDRESS.key,
            )
        case code if code == _EXPIRED:
            raise ConfigurationError(f"{text} has expired, so no client that verifies it would connect: renew it")
        case code if code == _NOT_YET_VALID:
            raise ConfigurationError(f"{text} is not valid yet, by the clock of this machine")
        case _:
            raise ConfigurationError(f"{text} would be refused by clients: {error.verify_message}")


def _complaint(context: ssl.SSLContext, certificate: str, name: str) -> ssl.SSLCertVerificationError | None:
    """What a client that trusts this very certificate has against it: both shake hands in memory."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.load_verify_locations(certificate)
    client_context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client_context.check_hostname = bool(name)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name or None)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):  # more than any version takes in each direction
        for side in (client, server):
            try:
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
            except ssl.SSLCertVerificationError as error:
                return error
    return None
