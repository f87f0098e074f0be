"""Track reads of frozen values through views. A view records the dotted key of a leaf when the leaf is read.

`lower` reads the spec through a view; templates and documents read the plan through a view. These reads link plan keys
to spec keys, and lines to plan keys, so no table has to be maintained. A tuple is one leaf. A mapping has one leaf per
entry. Testing whether a mapping is empty records the key of the mapping itself.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

Note = Callable[[str], None]
SCALARS = frozenset({str, int, float, bool, type(None)})


def track_reads(value: Any, key: str, note: Note) -> Any:
    """Return a view of a dataclass, a mapping or a tuple of dataclasses. Record the read of any other value."""
    if type(value) in SCALARS:  # most values
        note(key)
        return value
    if dataclasses.is_dataclass(value):
        return TrackedFields(value, key, note)
    if isinstance(value, Mapping):
        return TrackedMapping(value, key, note)
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return tuple(track_reads(item, f"{key}.{i}", note) for i, item in enumerate(value))
    note(key)
    return value


@cache
def _property_functions(cls: type) -> dict[str, Callable[[Any], Any]]:
    members = ((name, getattr(cls, name, None)) for name in dir(cls))
    return {name: member.fget for name, member in members if isinstance(member, property) and member.fget is not None}


class TrackedFields:
    """A view of a dataclass that records attribute reads."""

    def __init__(self, target: Any, key: str, note: Note) -> None:
        self._target, self._key, self._note = target, key, note

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield the names and values of all fields."""
        return ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self._target))

    def __getattr__(self, name: str) -> Any:
        target = object.__getattribute__(self, "_target")
        if name.startswith("__"):
            raise AttributeError(name)
        cls: type = type(target)
        if derive := _property_functions(cls).get(name):
            return derive(self)  # a property: evaluate it on the view, so that its reads are recorded
        value = getattr(target, name)
        part = name.rstrip("_")
        return track_reads(value, f"{self._key}.{part}" if self._key else part, self._note)


class TrackedMapping(Mapping[str, Any]):
    """A view of a mapping. Records reads of entries; a read of its truth value or length records its own key."""

    def __init__(self, target: Mapping[str, Any], key: str, note: Note) -> None:
        self._target, self._key, self._note = target, key, note

    def __getitem__(self, name: str) -> Any:
        value = self._target[name]
        return track_reads(value, f"{self._key}.{name}" if self._key else name, self._note)

    def __iter__(self) -> Iterator[str]:
        return iter(self._target)

    def __len__(self) -> int:
        self._note(self._key)
        return len(self._target)

    def __bool__(self) -> bool:
        self._note(self._key)
        return bool(self._target)
