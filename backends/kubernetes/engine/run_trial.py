"""Run a job's pods for a different purpose: smoke or preflight. Packed into jobctl; Python 3.8.

Their names differ from those of the job's own pods. These pods print the exit code of the check, and always exit with
0, because Kubernetes could delete a failed pod and its output.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

from ....runtime.system.failure import Failure
from ....runtime.system.text import printable
from .object_creation import ObjectCreator, PodRequest

LONGER_S = 300  # time after backend.start_timeout by which all pods must have ended
_PREFIX = re.compile(r"\[pod/\S*-([0-9]+)-[^-\s]*/node\] (.*)")
_EXIT = "jobc: payload exit code: "


def run_trial(creator: ObjectCreator, request: PodRequest, start_timeout_s: int) -> tuple[list[tuple[int, str]], bool]:
    """Create the pods, wait until they have ended, and delete them. Raises Failure.

    Returns (node, line) pairs of the pods' output, sorted by node, and whether all pods passed.
    """
    cluster, suffix = creator.cluster, request.suffix
    selector = f"--selector=jobc/job={cluster.target.object}{suffix}"
    creator.require_accepted(request)
    cluster.delete_with_companions(suffix)
    creator.create(request)
    try:
        until = time.monotonic() + start_timeout_s + LONGER_S
        while not cluster.find_object(suffix).has_ended:
            if time.monotonic() >= until:
                print(printable(cluster.run_kubectl("get", "pods", selector, "--output=wide").text))
                raise Failure(f"the pods have not ended after {start_timeout_s + LONGER_S} s")
            time.sleep(1)
        log = cluster.run_kubectl("logs", selector, "--tail=-1", "--prefix").text
    except BaseException:  # such as Ctrl-C
        with contextlib.suppress(Failure):
            cluster.delete_with_companions(suffix)
        raise
    cluster.delete_with_companions(suffix)
    lines = sorted(_split_prefixed_lines(log), key=lambda line: line[0])
    codes = [line[len(_EXIT) :] for _, line in lines if line.startswith(_EXIT)]
    return [line for line in lines if not line[1].startswith(_EXIT)], codes == ["0"] * cluster.target.nodes


def _split_prefixed_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (node, line) for each line of `kubectl logs --prefix`. Lines without a prefix are kubectl's own."""
    for line in text.split("\n"):
        match = _PREFIX.fullmatch(printable(line))
        if match and len(match.group(1)) < 10:
            yield int(match.group(1)), match.group(2)
