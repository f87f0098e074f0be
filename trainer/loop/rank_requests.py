"""Requests to stop or to save: read on each rank before a step, and added over all ranks beside the step's loss."""

from dataclasses import dataclass

from ..build.build import Training
from ..checkpoint.background_save import Saver
from ..lifecycle.control_files import stop_file
from ..lifecycle.stop_signals import StopSignals
from ..rt import exit_codes


@dataclass(frozen=True)
class Requests:
    """Requests to act on after a step: from one rank before it, from any rank after it.

    give_up  saving failed too often: end the run
    """

    stop: bool = False
    save: bool = False
    give_up: bool = False


def requests_of_rank(training: Training, signals: StopSignals, saver: Saver) -> Requests:
    """Return the requests that this rank knows of. Only rank 0 looks for files, so that each file is seen once."""
    if not training.group.is_first:
        return Requests(stop=signals.received is not None)
    stop = signals.received is not None or stop_file(training.run_dir).exists()
    return Requests(stop=stop, save=saver.request.is_made(), give_up=saver.gives_up)


def stop_exit_code(training: Training, signals: StopSignals, done: int) -> int:
    """Return the exit code of a run that is saved and stops early: done for control/STOP, else preempted.

    All ranks call it and get the same code. They add up who sees control/STOP, because nodes with run folders of
    their own may see it at different times.
    """
    num_stop_files = training.group.start_sum([stop_file(training.run_dir).exists()])()[0]
    code = exit_codes.DONE if num_stop_files else exit_codes.PREEMPTED
    if training.group.is_first:
        cause = signals.received or ("request" if num_stop_files else "a signal sent to another rank")
        purpose = "for good" if code == exit_codes.DONE else "to be resumed"
        print(f"stopped by {cause} after step {done}/{training.total_steps}, {purpose}", flush=True)
    return code
