"""`dataclass(frozen=True)` whose methods are shared by all classes.

`dataclasses.dataclass` compiles six functions for every class (Python 3.8 to 3.12). For the hundred classes of jobc's
compiler, that would take a fifth of a compile's time. Type checkers see the standard library's decorator.
`fields`, `replace` and `asdict` of `dataclasses` work. __post_init__, ClassVar, and fields that are not arguments are
not supported.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool) -> Any:
        """Return the decorator. frozen: must be True"""
        if not frozen:
            raise TypeError("use dataclasses.dataclass for objects that change")
        return _make_frozen_class


def _make_frozen_class(cls: Any) -> Any:
    cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise, `dataclasses` generates a signature
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls._frozen_fields = {field.name: field for field in dataclasses.fields(cls)}
    for name, function in vars(_FrozenMethods).items():
        if callable(function) and name not in vars(cls):
            setattr(cls, name, function)
    return cls


class _FrozenMethods:
    """Methods that the decorator adds to each class."""

    _frozen_fields: dict[str, dataclasses.Field[Any]]

    def __init__(self, *positional: Any, **named: Any) -> None:
        fields, name = self._frozen_fields, type(self).__name__
        values = dict(zip(fields, positional, strict=False), **named)
        if len(values) < len(positional) + len(named) or not values.keys() <= fields.keys():
            raise TypeError(f"{name}() takes each of {', '.join(fields)} once, and no other arguments")
        for key, field in fields.items():
            if key in values:
                continue
            if field.default_factory is not dataclasses.MISSING:
                values[key] = field.default_factory()
            elif field.default is not dataclasses.MISSING:
                values[key] = field.default
            else:
                raise TypeError(f"{name}() needs the argument {key}")
        vars(self).update(values)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._frozen_fields)
        return f"{type(self).__qualname__}({values})"

    def __eq__(self, other: object) -> Any:
        return _field_values(self) == _field_values(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(_field_values(self))

    def __setattr__(self, name: str, _value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _field_values(instance: Any) -> tuple[Any, ...]:
    return tuple([getattr(instance, name) for name in instance._frozen_fields])
