"""The engine for the verbs that test a job's nodes."""

from __future__ import annotations

from ..engines.checking import CheckingEngine
from ..engines.engine import Engine
from ..system.failure import Failure


def checking_engine(engine: Engine) -> CheckingEngine:
    """Return the engine. Raises Failure if it cannot check nodes."""
    if not isinstance(engine, CheckingEngine):
        raise Failure(f"backend {engine.job.backend} has no engine that checks its nodes")
    return engine
