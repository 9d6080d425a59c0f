"""`pyflink.datastream.connectors.base`."""

from __future__ import annotations

from flinkray.connectors.delivery_guarantee import DeliveryGuarantee
from flinkray.connectors.sink import Sink
from flinkray.connectors.source import Source
from flinkray.pyflink.unavailable import unavailable

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

__getattr__ = unavailable(
    __name__,
    "StreamTransformer SupportsPreprocessing",
    "a sink does not change the program before it; call the operation on the stream, then sink_to(sink)",
)
