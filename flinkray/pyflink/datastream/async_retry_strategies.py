"""`pyflink.datastream.async_retry_strategies`."""

from __future__ import annotations

from flinkray.functions.asynchronous import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)
from flinkray.pyflink.imported_names import imported

__all__ = [
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NO_RETRY_STRATEGY",
    "NoRetryStrategy",
    "RetryPredicate",
]

__getattr__ = imported(__name__)
