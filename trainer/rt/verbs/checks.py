"""The engine of the verbs that try the nodes of a job."""

from __future__ import annotations

from ..engines.checking import CheckingEngine
from ..engines.engine import Failure
from .jobs import Place


def checking_engine(place: Place, script: str) -> CheckingEngine:
    """Return the backend's engine. script: what does this for a backend whose engine cannot. Raises Failure."""
    engine = place.engine()
    if not isinstance(engine, CheckingEngine):
        raise Failure(f"backend {engine.job.backend} does not check its nodes with jobctl", f"{script} checks them")
    return engine
