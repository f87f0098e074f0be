"""A job's infra values with their keys and kinds, shared by the rules on `infra`."""

from __future__ import annotations

from collections.abc import Iterator

from .. import schema
from ..config import PODS, SITES
from ..options import SkypilotOptions


def infras(options: SkypilotOptions) -> Iterator[tuple[str, str]]:
    """Yield (key, infra) for each infra that is set."""
    if options.infra is not None:
        yield "backend.infra", options.infra
    for name in ("any_of", "ordered"):
        yield from (
            (f"backend.{name}", alternative.infra)
            for alternative in getattr(options, name)
            if alternative.infra is not None
        )


def can_parse(infra: str) -> bool:
    """Return whether SkyPilot can parse the infra, even if it does not exist."""
    return not schema.problems({"resources": {"infra": infra}})


def is_site(infra: str) -> bool:
    return _word(infra) in ("k8s", *SITES)


def has_pods(infra: str) -> bool:
    return _word(infra) in ("k8s", *PODS)


def _word(infra: str) -> str:
    return infra.partition("/")[0].lower()
