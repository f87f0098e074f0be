"""Cache the results of pure functions, because the points of a sweep have most parts in common."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """Cached results of one pure function, by key. most: maximum number of results; the oldest are dropped first"""

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: dict[Hashable, T] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached result, or compute it. compute: must depend only on the key"""
        try:
            return self._results[key]
        except KeyError:
            pass
        result = self._results[key] = compute()
        if len(self._results) > self._most:
            del self._results[next(iter(self._results))]
        return result


class MemoByIdentity(Generic[T]):
    """Cached results of one pure function of immutable objects, by object identity. Keeps the objects alive.

    For values that are slow to compare, or that are equal but printed differently, such as 1 and True.
    """

    def __init__(self, most: int) -> None:
        self._results: Memo[tuple[object, T]] = Memo(most)

    def get(self, value: object, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result for the object. key: everything else that the result depends on"""
        return self._results.get((id(value), key), lambda: (value, compute()))[1]
