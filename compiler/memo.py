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


class MemoOfObject(Generic[T]):
    """Results of one pure function of an object that never changes, by its identity. It keeps the objects alive.

    For values that are slow to compare, or equal although they are shown differently, such as 1 and True.
    """

    def __init__(self, most: int) -> None:
        self._results: Memo[tuple[object, T]] = Memo(most)

    def get(self, value: object, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result for the object. key: what else it depends on"""
        return self._results.get((id(value), key), lambda: (value, compute()))[1]
