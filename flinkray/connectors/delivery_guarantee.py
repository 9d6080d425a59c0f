"""What a sink promises about rows when a job fails and starts again."""

from __future__ import annotations

import enum


class DeliveryGuarantee(enum.Enum):
    """What a failure may do to what a sink has written (Flink's DeliveryGuarantee)."""

    EXACTLY_ONCE = "exactly-once"
    """Each row is seen once by those who read what was written, whatever fails."""
    AT_LEAST_ONCE = "at-least-once"
    """No row is lost; those since the last complete checkpoint are written again after a failure."""
    NONE = "none"
    """Rows may be lost or doubled."""
