"""Requests to stop or save. Each rank reads its own requests before a step. They are summed over ranks together with
the loss.
"""

from ...runtime import exit_codes
from ...runtime.system.frozen_dataclass import dataclass
from ..build.build import Training
from ..checkpoint.background_save import BackgroundSaver
from ..lifecycle.control_files import stop_file
from ..lifecycle.stop_signals import StopSignals


@dataclass(frozen=True)
class StopAndSaveRequests:
    """Requests to act on after a step. Before the step, they are this rank's requests; after it, those of any rank.

    give_up: end the run because saving failed too often.
    """

    stop: bool = False
    save: bool = False
    give_up: bool = False


def read_rank_requests(training: Training, signals: StopSignals, saver: BackgroundSaver) -> StopAndSaveRequests:
    """Return the requests of this rank. Only rank 0 reads control files, so that each file counts once."""
    if not training.group.is_first:
        return StopAndSaveRequests(stop=signals.received is not None)
    stop = signals.received is not None or stop_file(training.run_dir).exists()
    return StopAndSaveRequests(stop=stop, save=saver.request.is_made(), give_up=saver.gives_up)


def stop_exit_code(training: Training, signals: StopSignals, done: int) -> int:
    """Return the exit code of a run that has saved and is stopping early: DONE for control/STOP, else PREEMPTED.

    All ranks call this function and get the same code. The ranks count the nodes on which control/STOP exists, because
    without a shared run folder it may appear on the nodes at different times.
    """
    num_stop_files = training.group.start_sum([stop_file(training.run_dir).exists()])()[0]
    code = exit_codes.DONE if num_stop_files else exit_codes.PREEMPTED
    if training.group.is_first:
        cause = signals.received or ("request" if num_stop_files else "a signal sent to another rank")
        purpose = "for good" if code == exit_codes.DONE else "to be resumed"
        print(f"stopped by {cause} after step {done}/{training.total_steps}, {purpose}", flush=True)
    return code
