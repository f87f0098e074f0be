"""Exit a failed rank with a message and an exit code. Standard library only.

If the cause is known, one short message is printed; for a lost peer, it points to the other rank's log. Any other
exception is printed with its full traceback.
"""

import os
import re
import sys
import traceback
from typing import NoReturn

from ...runtime import exit_codes
from ..files import Unreadable
from . import errors
from .errors import BrokenInput, PeerLost, StoppedBeforeTraining, TrainerError

# Messages of torch 2.13 when a peer is lost. gloo raises plain RuntimeErrors that begin with a position in gloo's
# source; a later message between the same two ranks fails with the second text. NCCL raises DistBackendErrors.
GLOO = re.compile(
    r"\[\S*/gloo/\S+:\d+\] .*(connection (reset|closed|refused)|timed out|timeout|broken pipe|socket|no route)"
    r"|application timeout caused pair closure",
    re.IGNORECASE | re.DOTALL,
)
NCCL = re.compile(
    r"nccl.*(remote error|remote process|timeout|unhandled system error|aborted)", re.IGNORECASE | re.DOTALL
)
OF_TORCH = "torch.distributed"  # module of DistBackendError, DistNetworkError and DistStoreError

# Message of torch.utils.data (torch 2.13) about a dead worker process.
LOST_WORKER = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (?:is (killed by signal: [\w ]+)|exited)")

# CUDA's text for cudaErrorAssert, in an AcceleratorError of torch 2.13. A later call raises this error, so the
# traceback is misleading; the assertion itself is printed to stderr, for example by nll_loss
# (aten/src/ATen/native/cuda/Loss.cu).
GPU_ASSERTION = "device-side assert triggered"

# Message of DDP in torch 2.13 after a step in which a parameter got no gradient on this rank.
UNUSED = "Expected to have finished reduction in the prior iteration"
ALLOWED = "`find_unused_parameters=True` is enabled"  # also in that message if an output does not affect the loss

PRINTED = "_jobc_printed"  # attribute that contains the exit code of an error that has been printed


def exit_with_error(error: BaseException) -> NoReturn:
    """Print `error` and exit without teardown, because teardown could wait for a lost rank."""
    os._exit(print_error_once(error))


def exit_without_teardown(code: int) -> NoReturn:
    """Exit a finished process without teardown, because torch's threads could abort it during teardown."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def print_error_once(error: BaseException) -> int:
    """Print `error` unless already printed, and return the exit code. Called before a rank waits for its disk."""
    attributes = vars(error)  # stored in the error itself because a user's exception may be unhashable
    if PRINTED not in attributes:
        sys.stdout.flush()
        attributes[PRINTED] = _print_exit(error) if isinstance(error, SystemExit) else _print_error(error)
        sys.stderr.flush()
    return int(attributes[PRINTED])


def _print_error(error: BaseException) -> int:
    cause = known_cause(error)
    if cause is None:
        traceback.print_exception(error)
        return exit_codes.CRASHED
    print(cause if isinstance(cause, StoppedBeforeTraining) else f"error: {cause}", file=sys.stderr)
    return cause.code


def _print_exit(error: SystemExit) -> int:
    """Return the exit code after sys.exit() in user code. 0 becomes 1 because training has not finished."""
    code = error.code & 0xFF if isinstance(error.code, int) else 0
    if isinstance(error.code, str):
        print(error.code, file=sys.stderr)
    elif not code:
        traceback.print_exception(error)
        print("error: sys.exit() was called before training finished", file=sys.stderr)
    return code or exit_codes.CRASHED


def known_cause(error: BaseException) -> TrainerError | None:
    """Return the TrainerError that explains `error`, or None if the cause is unknown."""
    if isinstance(error, TrainerError):
        return error
    if isinstance(error, Unreadable):
        return errors.unreadable_checkpoint_error(str(error))
    if not isinstance(error, RuntimeError):
        return None
    text, rank = str(error), os.environ.get("RANK", "0")
    if died := LOST_WORKER.search(text):
        return errors.dead_worker_error(died[1], died[2] or "it exited")
    if GPU_ASSERTION in text and not os.environ.get("CUDA_LAUNCH_BLOCKING"):
        hint = "usual causes are a target >= the number of classes, or a token outside the vocabulary;"
        hint += " set env.CUDA_LAUNCH_BLOCKING=1 for a traceback with the right line"
        return BrokenInput(f"rank {rank}: an assertion failed on its GPU (see the lines above)", hint=hint)
    if UNUSED in text and ALLOWED not in text:
        hint = "parallel.find_unused_parameters=true; in your own script, pass that option to DistributedDataParallel"
        title = "unused parameters: part of the model does not affect the loss of a batch"
        return BrokenInput(f"rank {rank}: {title}", hint=hint)
    if is_lost_peer(error):
        line = (text.strip() or type(error).__name__).splitlines()[0]
        message = re.sub(r"^\[\S+\] ", "", line).split(". This is typically")[0]  # without gloo's source position
        return PeerLost(f"rank {rank} lost a peer: {message}; see the log of the first rank that failed")
    return None


def is_lost_peer(error: RuntimeError) -> bool:
    """Return whether torch.distributed raised the error. (Data sets lose connections too.) False with a single rank."""
    if os.environ.get("WORLD_SIZE") == "1":
        return False
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__ == OF_TORCH}
    if kinds & {"DistNetworkError", "DistStoreError"}:  # the store is lost, or another rank did not write to it
        return True
    return bool(NCCL.search(str(error)) if "DistBackendError" in kinds else GLOO.match(str(error)))
