"""Floats as texts, as Java writes them."""

from __future__ import annotations

import decimal
import math

import pyarrow as pa


def double_text(value: float) -> str:
    """As Java writes it: with an exponent below 0.001 and from 10**7 on."""
    if not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value)) if "e" not in repr(float(value)) else f"{value:f}"
    digits = decimal.Decimal(repr(value)).normalize()
    mantissa = digits.scaleb(-digits.adjusted())
    shown = str(mantissa) if "." in str(mantissa) else f"{mantissa}.0"
    return f"{shown}E{digits.adjusted()}"


def float_text(value: float) -> str:
    """The shortest text that means the same in 32 bits."""
    for digits in range(1, 10):
        shorter = float(f"{value:.{digits}g}")
        if pa.scalar(shorter, pa.float32()) == pa.scalar(value, pa.float32()):
            return double_text(shorter)
    return double_text(value)
