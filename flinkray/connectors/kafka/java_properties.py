"""Properties of Java's Kafka clients as options of librdkafka, most of which have the same names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flinkray.errors import InvalidProgramError

_JAAS = re.compile(r"""(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;]+))""")
_OTHER_NAMES = {
    "max.request.size": "message.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""What librdkafka calls otherwise, with the same unit."""
_CHECK_OF_NAMES = "ssl.endpoint.identification.algorithm"
_MSK = "AWS_MSK_IAM"


def as_librdkafkas(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties by librdkafka's names, with user and password where Java's `sasl.jaas.config` has them.

    Raises:
        InvalidProgramError: it has none, and so is a login that only Java has.
    """
    if properties.get("sasl.mechanism") == _MSK or "software.amazon.msk" in properties.get("sasl.jaas.config", ""):
        raise InvalidProgramError(
            f"sasl.mechanism {_MSK} is a class of Java's client. Give the cluster users of its own "
            "(sasl.mechanism=SCRAM-SHA-512, sasl.username, sasl.password); or log in with OAUTHBEARER, which Amazon "
            "MSK takes as well: client_options={'sasl.mechanism': 'OAUTHBEARER', 'oauth_cb': ...} of "
            "flinkray.KafkaSource and KafkaSink, with tokens of the package aws-msk-iam-sasl-signer-python"
        )
    left = {_OTHER_NAMES.get(name, name): value for name, value in properties.items()}
    if left.get(_CHECK_OF_NAMES) == "":
        left[_CHECK_OF_NAMES] = "none"
    for name in ("socket.send.buffer.bytes", "socket.receive.buffer.bytes"):
        if left.get(name) == "-1":
            left[name] = "0"  # both mean what the system has by custom
    jaas = left.pop("sasl.jaas.config", None)
    if jaas is not None:
        found = {match[1]: match[2] or match[3] or match[4] for match in _JAAS.finditer(jaas)}
        if set(found) != {"username", "password"}:
            raise InvalidProgramError(
                "sasl.jaas.config is Java's; of it username and password are taken, and one is missing: give "
                "sasl.username and sasl.password, or what librdkafka takes for another login"
            )
        left.update({"sasl.username": found["username"], "sasl.password": found["password"]})
    return left
