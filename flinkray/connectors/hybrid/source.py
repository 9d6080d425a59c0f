"""A source that reads several sources, one after another."""

from __future__ import annotations

from typing import Any

from flinkray.connectors.hybrid.enumerator import HybridEnumerator, SourceFactory
from flinkray.connectors.hybrid.messages import HybridEnumeratorState
from flinkray.connectors.hybrid.reader import HybridReader
from flinkray.connectors.source import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkray.errors import InvalidProgramError
from flinkray.types.records import RecordType


class HybridSource(Source):
    """Rows of several sources, one after another: the past from files, then what goes on from a log, say.

    ```python
    history = FileSource("s3://orders/2025/", format="parquet")
    live = KafkaSource("orders", ..., start=Offsets.timestamp(NEW_YEAR))
    orders = env.from_source(HybridSource(history, live), watermarks, "orders")
    ```

    The next source begins when all subtasks have read the one before to its end, so all but the last must be bounded.
    Rows of all should have the same columns and types. Exactly once as each source is: a checkpoint holds which one is
    read, and how far.

    Args:
        sources: each a source, or, but for the first, a function that makes one when the one before it has been read
            (after Flink's SourceFactory). It is called at the JobMaster, and again after a restart, with the enumerator
            of that one as it ended, and should make the same source then.
        boundedness: of the last source, where a function makes that.
    """

    def __init__(self, *sources: Source | SourceFactory, boundedness: Boundedness = Boundedness.UNBOUNDED) -> None:
        if not sources:
            raise InvalidProgramError("HybridSource: give it at least one source")
        first = sources[0]
        if not isinstance(first, Source):
            raise InvalidProgramError(f"HybridSource: the first source must be a Source, not {first!r}")
        for number, source in enumerate(sources[:-1], 1):
            if isinstance(source, Source) and source.boundedness is Boundedness.UNBOUNDED:
                raise InvalidProgramError(
                    f"HybridSource: source {number} of {len(sources)}, {type(source).__name__}, never ends, so those "
                    "behind it would not be read; say where it ends, or put it last"
                )
        for number, source in enumerate(sources, 1):
            if not isinstance(source, Source) and not callable(source):
                raise InvalidProgramError(
                    f"HybridSource: source {number} must be a Source or a function that makes one, not {source!r}"
                )
        self._sources = tuple(sources)
        self._boundedness = boundedness

    @property
    def _known(self) -> list[Source]:
        return [source for source in self._sources if isinstance(source, Source)]

    @property
    def boundedness(self) -> Boundedness:
        last = self._sources[-1]
        return last.boundedness if isinstance(last, Source) else self._boundedness

    @property
    def may_end(self) -> bool:  # type: ignore[override]
        return getattr(self._sources[-1], "may_end", False)

    @property
    def is_stoppable(self) -> bool:  # type: ignore[override]
        return all(source.is_stoppable for source in self._known)

    @property
    def is_parallel(self) -> bool:
        return all(source.is_parallel for source in self._known)

    @property
    def is_changelog(self) -> bool:
        return any(source.is_changelog for source in self._known)

    @property
    def output_type(self) -> RecordType | None:
        types = [source.output_type for source in self._known]
        return types[0] if len(types) == len(self._sources) and all(each == types[0] for each in types) else None

    def prepare(self) -> Source:
        prepared = [source.prepare() if isinstance(source, Source) else source for source in self._sources]
        return HybridSource(*prepared, boundedness=self._boundedness)

    def create_enumerator(self, context: SplitEnumeratorContext, restored: Any = None) -> SplitEnumerator:
        assert restored is None or isinstance(restored, HybridEnumeratorState)
        return HybridEnumerator(context, self._sources, restored)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return HybridReader(context, len(self._sources))
