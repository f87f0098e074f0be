"""Cache the results of pure functions, because most parts of a sweep's points are the same."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """Cached results of a pure function, by key. most: how many results are kept; the oldest are dropped first"""

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: dict[Hashable, T] = {}

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached result, or compute it. compute: a function whose result depends only on the key"""
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

    Use it for values that are slow to compare, or that are equal but print differently, such as 1 and True.
    """

    def __init__(self, most: int) -> None:
        self._results: Memo[tuple[object, T]] = Memo(most)

    def get(self, value: object, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result for the object. key: everything else that the result depends on"""
        return self._results.get((id(value), key), lambda: (value, compute()))[1]
