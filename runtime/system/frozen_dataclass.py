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
        return _decorate


def _decorate(cls: Any) -> Any:
    cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise, `dataclasses` generates a signature
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls._frozen_fields = {field.name: field for field in dataclasses.fields(cls)}
    for name, function in _METHODS.items():
        if name not in vars(cls):
            setattr(cls, name, function)
    return cls


def _init(self: Any, *positional: Any, **named: Any) -> None:
    if named.keys() == self._frozen_fields.keys() and not positional:
        vars(self).update(named)
        return
    if len(positional) > len(self._frozen_fields):
        raise TypeError(f"{type(self).__name__}() takes {len(self._frozen_fields)} arguments, not {len(positional)}")
    values, arguments = vars(self), iter(positional)
    for name, field in self._frozen_fields.items():
        if len(values) < len(positional):
            values[name] = next(arguments)
        elif name in named:
            values[name] = named.pop(name)
        elif field.default is not dataclasses.MISSING:
            values[name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[name] = field.default_factory()
        else:
            raise TypeError(f"{type(self).__name__}() needs the argument {name}")
    if named:
        raise TypeError(f"{type(self).__name__}() does not take {', '.join(named)}, or has it already")


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self._frozen_fields])


def _repr(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._frozen_fields)})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _setattr(self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}
