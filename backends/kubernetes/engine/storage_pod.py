"""Pods beside the job, through which this machine sees the storage of the runs. Packed into jobctl; Python 3.8.

In   a Cluster; the artifact, whose job.json has a pod with the image and the mounts of the job
Out  a pod in each of the clusters, until close(); Failure if it does not start
"""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import Any

from ....runtime.engines.engine import Job
from ....runtime.system.failure import Failure
from ....runtime.system.text import one_line
from .cluster import Cluster
from .pods import why_waiting
from .sending import Purpose, Sender, documents

QUIET_S = 5  # a pod that has not started after this time is reported
GONE_S = 30  # how long the pod of an earlier call may take to end


class StoragePods:
    """One pod in each context and namespace, created when it is first needed. A context manager that deletes them."""

    def __init__(self, job: Job, start_timeout_s: int) -> None:
        self.job, self.start_timeout_s = job, start_timeout_s
        self._names: dict[tuple[str, str], str | Failure] = {}  # Failure: the pod has not started
        self._created: list[tuple[Cluster, str]] = []  # objects to delete: pod/NAME, configmap/NAME

    def __enter__(self) -> StoragePods:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete the pods, and do not wait until they are gone."""
        created, self._created, self._names = self._created, [], {}
        for cluster, name in created:
            cluster.k("delete", name, "--ignore-not-found", "--wait=false")

    def command(self, cluster: Cluster, *words: str) -> list[str]:
        """Return the words that run a command in the pod. Raises Failure if the pod does not start."""
        return cluster.command("exec", self.pod(cluster), "--container=node", "--", *words)

    def pod(self, cluster: Cluster) -> str:
        """Return the name of the pod, which runs. cluster: what the artifact creates, in the cluster of a run

        Raises Failure.
        """
        key = (cluster.target.context, cluster.target.namespace)
        if key not in self._names:
            try:
                self._names[key] = self._create(cluster)
            except Failure as failure:
                self._names[key] = failure
        name = self._names[key]
        if isinstance(name, Failure):
            raise name
        return name

    def _create(self, cluster: Cluster) -> str:
        """Create the pod and, if it was deleted with the job, the ConfigMap that it mounts."""
        target = cluster.target
        name = f"{target.object}-shell"
        cluster.k("delete", "pod", name, "--ignore-not-found", "--wait=false")
        config_map, _ = documents(Sender(cluster, self.job.artifact).manifests(Purpose("shell")), "ConfigMap")
        if cluster.k("create", "--filename=-", text=config_map).code == 0:
            self._created.append((cluster, f"configmap/{target.object}"))
        self._created.append((cluster, f"pod/{name}"))
        for _ in range(GONE_S):
            answer = cluster.k("create", "--filename=-", text=str(self.job.settings.get("lone_pod")))
            if "(AlreadyExists)" not in answer.errors:
                break
            time.sleep(1)
        if answer.code:
            raise Failure(f"cannot create a pod in {target}: {answer.errors.strip()}")
        return self._started(cluster, name)

    def _started(self, cluster: Cluster, name: str) -> str:
        """Return the name when the pod runs, and print what it waits for. Raises Failure."""
        hint = f"kubectl --namespace={cluster.target.namespace} describe pod {name}"
        said = ""
        for tick in range(self.start_timeout_s + 1):
            answer = cluster.k("get", "pod", name, "--output=json")
            item = _object(answer.text)
            if answer.code == 0 and item.get("status", {}).get("phase", "Pending") != "Pending":
                return name
            waiting = why_waiting(item)
            if waiting.is_stuck:
                raise Failure(f"pod {name} cannot start: {one_line(waiting.text)}", hint)
            if tick >= QUIET_S and waiting.text not in ("", said):
                said = waiting.text
                print(f"waiting for pod {name}: {one_line(said)}", file=sys.stderr, flush=True)
            time.sleep(1)
        raise Failure(f"pod {name} has not started{said and f': {one_line(said)}'}", hint)


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}
