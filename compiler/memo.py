"""Remember results of pure functions. Points of a sweep differ in a few values, so most of their parts are equal."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """Results of one pure function by what it depends on. most: number of results that are kept, the oldest go first"""

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: dict[Hashable, T] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result for the key. compute: must depend on nothing but what the key identifies"""
        try:
            return self._results[key]
        except KeyError:
            pass
        result = self._results[key] = compute()
        if len(self._results) > self._most:
            del self._results[next(iter(self._results))]
        return result
