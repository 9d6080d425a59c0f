"""DataStreamSink: the end of a stream, which takes settings of its operator."""

from __future__ import annotations

from flinkray.streams.settings.operator_settings import OperatorSettings
from flinkray.transformations.transformation import PhysicalTransformation


class DataStreamSink(OperatorSettings):
    """A sink that was added to a stream: takes settings, and nothing follows it."""

    def __init__(self, transformation: PhysicalTransformation) -> None:
        self._transformation = transformation

    def _operator(self, setting: str) -> PhysicalTransformation:
        return self._transformation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transformation.name!r}>"
