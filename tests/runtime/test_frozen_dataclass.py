"""Classes of frozen_dataclass behave as those of `dataclasses`, which the same cases describe."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from jobc.runtime.system import frozen_dataclass


def variant(dataclass: Any, name: str) -> Any:
    @dataclass(frozen=True)
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list)
        label: str = dataclasses.field(default="p", metadata={"shown": True})

    @dataclass(frozen=True)
    class Named(Point):
        """A point with a text of its own."""

        size: int = 1

        def __repr__(self) -> str:
            return "mine"

    for cls in (Point, Named):
        cls.__module__, cls.__qualname__ = __name__, f"{name}.{cls.__name__}"
        setattr(globals()[name], cls.__name__, cls)
    return Point, Named


class Shared:
    pass


class Generated:
    pass


VARIANTS = [variant(frozen_dataclass.dataclass, "Shared"), variant(dataclasses.dataclass, "Generated")]


def outcome(function: Callable[[Any, Any], Any], classes: Any) -> Any:
    try:
        return function(*classes)
    except (TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize(
    "use",
    [
        lambda point, named: vars(point(1)),
        lambda point, named: vars(named(1, [2], size=3)),
        lambda point, named: vars(named(label="a", x=1)),
        lambda point, named: point(1, [2]).y is not point(1).y,
        lambda point, named: point(1) == point(1) != point(2),
        lambda point, named: point(1) == named(1),
        lambda point, named: hash(point(1, (), "a")) == hash(point(1, (), "a")),
        lambda point, named: hash(point(1)),
        lambda point, named: repr(point(1)).partition(".")[2],
        lambda point, named: repr(named(1)),
        lambda point, named: dataclasses.asdict(named(1, [2])),
        lambda point, named: dataclasses.replace(named(1), x=2).x,
        lambda point, named: [(field.name, dict(field.metadata)) for field in dataclasses.fields(named)],
        lambda point, named: pickle.loads(pickle.dumps(point(1, [2]))) == point(1, [2]),
        lambda point, named: copy.deepcopy(point(1, [2])) == point(1, [2]),
        lambda point, named: setattr(point(1), "x", 2),
        lambda point, named: delattr(point(1), "x"),
        lambda point, named: point(),
        lambda point, named: point(1, [], "a", 2),
        lambda point, named: point(1, x=2),
        lambda point, named: point(1, z=2),
        lambda point, named: named.__doc__,
    ],
)
def test_it_is_as_the_standard_one(use: Callable[[Any, Any], Any]) -> None:
    assert outcome(use, VARIANTS[0]) == outcome(use, VARIANTS[1])


def test_a_class_that_changes_is_refused() -> None:
    with pytest.raises(TypeError, match=r"use dataclasses.dataclass"):
        frozen_dataclass.dataclass(frozen=False)
