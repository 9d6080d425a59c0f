"""`pyflink.common.config_options`: typed keys, as `ConfigOptions.key("a.b").int_type().default_value(1)` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

__all__ = ["ConfigOption", "ConfigOptions"]


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A key, with what it is where nothing is set."""

    key: str
    type: type
    default: T | None = None


class ConfigOptions:
    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        return ConfigOptions.OptionBuilder(key)

    @dataclass(frozen=True)
    class OptionBuilder:
        option_key: str

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            return ConfigOptions.TypedConfigOptionBuilder(self.option_key, bool)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self.option_key, int)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return self.int_type()

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self.option_key, float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return self.float_type()

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            return ConfigOptions.TypedConfigOptionBuilder(self.option_key, str)

    @dataclass(frozen=True)
    class TypedConfigOptionBuilder(Generic[T]):
        option_key: str
        type: type

        def default_value(self, value: T) -> ConfigOption[T]:
            return ConfigOption(self.option_key, self.type, value)

        def no_default_value(self) -> ConfigOption[T]:
            return ConfigOption(self.option_key, self.type)
