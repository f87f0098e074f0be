"""Interface for a backend's engine.py: the base class, and readers of a run folder.

engine.py is packed into jobctl, so it may import only this module and Python 3.8's standard library.
"""

from ..node.node_start import become_node, run_node
from ..run_folder.run import Progress, Run, worst_code
from ..run_folder.saved_secrets import save_secret
from ..system.failure import Failure
from ..system.streams import printed_lines, stream
from ..system.values import number, numbered, read_keys, read_text, word
from .checking import CheckingEngine
from .engine import Answer, Engine, Job, NodeLine, State, ended
from .hosts_engine import HostsEngine
from .jobs import Place
from .log_files import LogRequest
from .new_run import NewRun, temporary_run
from .one_machine import OneMachineEngine
from .records import ENDED, GONE, LIVE, Record, RecordEngine
from .starting import StartingEngine
from .table import Table

__all__ = [
    "ENDED",
    "GONE",
    "LIVE",
    "Answer",
    "CheckingEngine",
    "Engine",
    "Failure",
    "HostsEngine",
    "Job",
    "LogRequest",
    "NewRun",
    "NodeLine",
    "OneMachineEngine",
    "Place",
    "Progress",
    "Record",
    "RecordEngine",
    "Run",
    "StartingEngine",
    "State",
    "Table",
    "become_node",
    "ended",
    "number",
    "numbered",
    "printed_lines",
    "read_keys",
    "read_text",
    "run_node",
    "save_secret",
    "stream",
    "temporary_run",
    "word",
    "worst_code",
]
