"""Interface for a backend's engine.py: the base class, and readers of a run folder.

engine.py is packed into jobctl, so it may import only this module and Python 3.8's standard library.
"""

from ..node.node_start import exec_node, run_node
from ..run_folder.run import LastProgress, Run, worst_code
from ..run_folder.run_secrets import save_secret
from ..system.failure import Failure
from ..system.streams import client_output_lines, print_client_output
from ..system.values import number_or_none, numbers_of_files, read_keys, read_text, word_or_empty
from .artifact_location import Place
from .check_table import Table
from .engine import Answer, Engine, Job, NodeLine, State, state_of_ended_run
from .hosts_engine import HostsEngine
from .log_files import LogRequest
from .new_run import NewRun, temporary_run
from .one_machine import OneMachineEngine
from .record_engine import ENDED, GONE, LIVE, Record, RecordEngine
from .starting_engine import StartingEngine

__all__ = [
    "ENDED", "GONE", "LIVE", "Answer", "Engine", "Failure", "HostsEngine", "Job", "LastProgress", "LogRequest",
    "NewRun", "NodeLine", "OneMachineEngine", "Place", "Record", "RecordEngine", "Run", "StartingEngine", "State",
    "Table", "client_output_lines", "exec_node", "number_or_none", "numbers_of_files", "print_client_output",
    "read_keys", "read_text", "run_node", "save_secret", "state_of_ended_run", "temporary_run", "word_or_empty",
    "worst_code",
]  # fmt: skip
