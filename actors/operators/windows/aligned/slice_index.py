"""What a slice index is: it gives each key in each slice the number of its accumulator, and finds those of a slice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from actors.keys.index import Ids
from actors.operators.aggregates.accumulators import Accumulators, Selection
from actors.operators.windows.aligned.accumulator_runs import AccumulatorRun, Counts, Starts


class SliceIndex(ABC):
    """Numbers the accumulators of slices. For a while a key may have several accumulators in a slice.

    A *dense index* computes the number from key and slice; a *sparse index* numbers accumulators in order of arrival.
    """

    is_dense: ClassVar[bool]
    """Whether numbers are computed, and those of slices that were released are used again. Otherwise accumulators are
    numbered in the order in which they are asked for, and no number is used twice."""

    @property
    @abstractmethod
    def size(self) -> int:
        """A number above those of all accumulators."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many accumulators are in use."""

    @property
    @abstractmethod
    def most_keys(self) -> int:
        """How many accumulators the largest one had of the slices that were released last; 0: it is not known."""

    @property
    def is_worth_looking_up(self) -> bool:
        """Whether many rows were of a key and slice that already had an accumulator."""
        return False

    @property
    def has_repeats(self) -> bool:
        """Whether a key may have several accumulators in a slice."""
        return False

    # -- rows

    @abstractmethod
    def is_suitable(self, starts: Sequence[int], keys: int, rows: int) -> bool:
        """Whether `accumulators` may be called for that many rows; otherwise another index is better.

        May find accumulators that repeat.
        """

    @abstractmethod
    def accumulators(
        self, key_ids: Ids, starts: Sequence[int], slice_indices: npt.NDArray[Any] | None, keys: int
    ) -> Accumulators:
        """The accumulator of each key in its slice; they are in use from now on.

        Args:
            key_ids: may be written over.
            starts: the distinct slices of the rows, ascending.
            slice_indices: for each row the index of its slice in `starts`; None: they are all in the only one.
            keys: a number above all key numbers so far.
        """

    def reused(self) -> list[slice]:
        """Accumulators that were used before, to be cleared before anything is added; each is given once."""
        return []

    def repeated(self) -> list[tuple[Accumulators, Accumulators]]:
        """Accumulators that are not in use any more, and for each the one to which what it has is to be added.

        To be asked for after all that may find some. Each is given once.
        """
        return []

    def merge_repeated(self) -> None:
        """From now on each key has one accumulator in a slice."""
        return

    # -- slices

    @abstractmethod
    def starts(self) -> list[int]:
        """The starts of the slices, ascending."""

    @abstractmethod
    def sizes(self, starts: Starts) -> Counts:
        """How many accumulators each of these slices has at most."""

    @abstractmethod
    def read(self, starts: Starts) -> AccumulatorRun:
        """The accumulators of those of these slices that there are, each key with one.

        Args:
            starts: ascending.
        """

    def read_changed(self, starts: Starts) -> None:
        """Reads those of these slices, which ascend, that have got accumulators since they were read."""
        return

    @abstractmethod
    def read_unmerged(self) -> AccumulatorRun:
        """All accumulators, by slice; a key may have several in one. Quick."""

    def accumulators_of(self, slice_start: int) -> Selection:
        """The accumulators of a slice, ascending, one for each key; none if there is no such slice."""
        return self.read(np.array([slice_start], np.int64)).accumulators

    @abstractmethod
    def key_ids(self, accumulators: Selection) -> Ids | slice:
        """The key of each of these accumulators, in whichever form is at hand."""

    # -- letting go

    @abstractmethod
    def release(self, starts: Sequence[int], cleared: Collection[int] = ()) -> None:
        """Forgets slices that are not needed any more; should one come again, it is a new one.

        Args:
            starts: ascending.
            cleared: those of them whose accumulators have all been cleared.
        """

    @abstractmethod
    def recent(self) -> Accumulators:
        """The accumulators in use, and those that were released last."""

    @abstractmethod
    def is_wasteful(self) -> bool:
        """Whether it is worth numbering anew what is left."""
