"""`pyflink.common.configuration`: a Configuration with a setter per type."""

from __future__ import annotations

from flinkray import config

__all__ = ["Configuration"]


class Configuration(config.Configuration):
    """Unknown options and bad values are refused when they are set, whatever setter is used."""

    def set_string(self, key: str, value: str) -> Configuration:
        self.set(key, value)
        return self

    def set_integer(self, key: str, value: int) -> Configuration:
        self.set(key, value)
        return self

    def set_float(self, key: str, value: float) -> Configuration:
        self.set(key, value)
        return self

    def set_boolean(self, key: str, value: bool) -> Configuration:
        self.set(key, value)
        return self
