"""Kafka's question for the transactions of a broker (KIP-664), which aiokafka does not have."""

from __future__ import annotations

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

_KEY = 66


class _ResponseV0(Response):
    API_KEY = _KEY
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_state_filters", CompactArray(CompactString("utf-8"))),
        (
            "transaction_states",
            CompactArray(
                ("transactional_id", CompactString("utf-8")),
                ("producer_id", Int64),
                ("transaction_state", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _RequestV0(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = _KEY
    API_VERSION = 0
    RESPONSE_TYPE = _ResponseV0
    SCHEMA = Schema(
        ("state_filters", CompactArray(CompactString("utf-8"))),
        ("producer_id_filters", CompactArray(Int64)),
        ("tags", TaggedFields),
    )


class ListTransactionsRequest(Request[_RequestV0]):
    """The transactions that a broker coordinates, in the given states; none: in all."""

    API_KEY = _KEY

    def __init__(self, states: list[str]) -> None:
        self._states = states

    def build(self, request_struct_class: type[_RequestV0]) -> _RequestV0:
        return request_struct_class(self._states, [], {})
