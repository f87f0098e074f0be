"""Add to each diagnostic the position of the value that the diagnostic is about."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..diagnostics.diagnostic import Diagnostic
from ..diagnostics.origin import COMMAND_LINE, Origin


def add_origins(diagnostics: Sequence[Diagnostic], origin_of: Callable[[str], Origin | None]) -> list[Diagnostic]:
    return [d if d.origin or not d.key else replace(d, origin=_place(d, origin_of)) for d in diagnostics]


def _place(diagnostic: Diagnostic, origin_of: Callable[[str], Origin | None]) -> Origin | None:
    origin = origin_of(diagnostic.key)
    if diagnostic.private and origin is not None and origin.root == COMMAND_LINE:
        return replace(origin, path=f"{diagnostic.key}=…")
    return origin
