"""How a rank ends when something went wrong: what it says last, and its exit code. Standard library only.

A known cause is one short message. A lost peer is one line too, since the cause is in the other rank's log.
Anything else keeps its full traceback.
"""

import os
import re
import sys
import traceback
from typing import NoReturn

from .errors import PeerLost, StoppedEarly, TrainerError, lost_worker
from .rt import exit_codes

# What gloo and NCCL say when the other end is gone; torch raises these as plain RuntimeError or
# DistBackendError.
LOST_PEER = re.compile(
    r"gloo.*(connection (reset|closed|refused)|timed out|timeout|broken pipe|socket|no route)"
    r"|application timeout caused pair closure"
    r"|nccl.*(remote error|remote process|timeout|unhandled system error|aborted)"
    r"|(connection (reset|closed) by peer|timed out waiting)",
    re.IGNORECASE | re.DOTALL,
)

# What torch.utils.data (2.13) says of a worker process that is gone.
LOST_WORKER = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (?:is (killed by signal: [\w ]+)|exited)")


def leave(error: BaseException) -> NoReturn:
    """Print `error` and end this process without any teardown, which could wait for a rank that is gone."""
    if isinstance(error, SystemExit):
        raise error
    known = known_cause(error)
    sys.stdout.flush()
    if known is None:
        traceback.print_exception(error)
    else:
        print(known if isinstance(known, StoppedEarly) else f"error: {known}", file=sys.stderr)
    sys.stderr.flush()
    os._exit(exit_codes.CRASHED if known is None else known.code)


def known_cause(error: BaseException) -> TrainerError | None:
    """`error` as a TrainerError, or None when it is a surprise."""
    if isinstance(error, TrainerError):
        return error
    if isinstance(error, RuntimeError) and (died := LOST_WORKER.search(str(error))):
        return lost_worker(died[1], died[2] or "it exited")
    if isinstance(error, RuntimeError) and LOST_PEER.search(str(error)):
        said = re.sub(r"^\[\S+\] ", "", str(error).strip().splitlines()[0])  # without the place in gloo's source
        said = said.split(". This is typically")[0]
        return PeerLost(f"rank {os.environ.get('RANK', '0')} lost a peer: {said}; the first rank that failed says why")
    return None
