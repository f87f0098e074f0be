"""Interface for a backend's engine.py: the base class, and readers of a run folder.

engine.py is packed into jobctl, so it may import this module and the standard library of Python 3.8, nothing else.
"""

from .engine import Answer, Engine, Failure, Job, NodeLine, State, ended
from .log_files import LogRequest
from .records import ENDED, GONE, LIVE, Record, RecordEngine
from .run import Progress, Run, worst_code
from .streams import stream
from .values import number, numbered, read_keys, read_text, word

__all__ = [
    "ENDED",
    "GONE",
    "LIVE",
    "Answer",
    "Engine",
    "Failure",
    "Job",
    "LogRequest",
    "NodeLine",
    "Progress",
    "Record",
    "RecordEngine",
    "Run",
    "State",
    "ended",
    "number",
    "numbered",
    "read_keys",
    "read_text",
    "stream",
    "word",
    "worst_code",
]
