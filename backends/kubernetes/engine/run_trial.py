"""Run a job's pods for a different purpose: smoke or preflight. Packed into jobctl; Python 3.8.

Their names differ from those of the job's own pods. These pods print the exit code of the check, and always exit with
0, because Kubernetes could delete a failed pod and its output.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

from ....runtime.system.failure import Failure
from ....runtime.system.text import printable
from .cluster import Cluster
from .object_creation import ObjectCreator, PodPurpose

LONGER_S = 300  # time after backend.start_timeout by which all pods must have ended
_PREFIX = re.compile(r"\[pod/\S*-([0-9]+)-[^-\s]*/node\] (.*)")
_EXIT = "jobc: payload exit code: "


class TrialOutput(NamedTuple):
    """Output of the pods.

    lines: (node, line) pairs, sorted by node
    is_good: whether all pods passed
    """

    lines: list[tuple[int, str]]
    is_good: bool


def run_trial(sender: ObjectCreator, purpose: PodPurpose, start_timeout_s: int) -> TrialOutput:
    """Create the pods, wait until they have ended, and delete them. Raises Failure."""
    cluster = sender.cluster
    sender.require_accepted(purpose)
    cluster.delete(purpose.suffix)
    with sender.created(purpose):
        _wait(cluster, purpose.suffix, start_timeout_s + LONGER_S)
        log = cluster.k("logs", f"--selector=jobc/job={cluster.target.object}{purpose.suffix}", "--tail=-1", "--prefix")
    cluster.delete(purpose.suffix)
    lines = sorted(_lines(log.text), key=lambda line: line[0])
    codes = [line[len(_EXIT) :] for _, line in lines if line.startswith(_EXIT)]
    return TrialOutput([line for line in lines if not line[1].startswith(_EXIT)], codes == ["0"] * cluster.target.nodes)


def _wait(cluster: Cluster, suffix: str, most_s: int) -> None:
    until, selector = time.monotonic() + most_s, f"--selector=jobc/job={cluster.target.object}{suffix}"
    while not cluster.look(suffix).has_ended:
        if time.monotonic() >= until:
            print(printable(cluster.k("get", "pods", selector, "--output=wide").text))
            raise Failure(f"the pods have not ended after {most_s} s")
        time.sleep(1)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (node, line) for each line of `kubectl logs --prefix`.

    Lines without a prefix are skipped, because kubectl itself printed them.
    """
    for line in text.split("\n"):
        match = _PREFIX.fullmatch(printable(line))
        if match and len(match.group(1)) < 10:
            yield int(match.group(1)), match.group(2)
