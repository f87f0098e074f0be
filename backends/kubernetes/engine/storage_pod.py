"""Start extra pods through which this machine accesses the runs' storage. Packed into jobctl; Python 3.8.

In:  a Cluster; the artifact, whose job.json contains a pod with the job's image and mounts.
Out: one pod per cluster, kept until close(). Raises Failure if the pod does not start.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Sequence

from ....runtime.engines.engine import Job
from ....runtime.system.failure import Failure
from ....runtime.system.text import one_line
from .cluster import Cluster, ObjectIdentity
from .object_creation import UID, ObjectCreator, PodRequest, add_owner_reference, split_by_kind
from .pods import why_pod_is_waiting

CONFIG_MAP_S = 2  # how long the pod's status may say that its ConfigMap, created after it, is missing
QUIET_S = 5  # a pod that has not started after this time is reported
LABEL = "jobc/shell"  # label of the pods; its value is the name of the job's object
# A pod may be left behind: if the program that created it was killed, it ends after an hour; it also ends when its
# node is lost.
HAS_ENDED = tuple(f'?(@.status.phase=="{phase}")' for phase in ("Succeeded", "Failed"))
MOST_NAME = 63  # maximum length of a pod's name, which is also a label value of its ConfigMap


class StoragePods:
    """One pod per context and namespace, created when it is first needed. The context manager deletes the pods."""

    def __init__(self, job: Job, start_timeout_s: int) -> None:
        self.job, self.start_timeout_s = job, start_timeout_s
        self._names: dict[tuple[str, str], str | Failure] = {}  # Failure: why the pod has not started
        self._created: list[tuple[Cluster, ObjectIdentity]] = []

    def __enter__(self) -> StoragePods:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the pods without waiting until they are gone."""
        created, self._created, self._names = self._created, [], {}
        for cluster, pod in created:
            with contextlib.suppress(Failure):
                cluster.start_deletion(pod)

    def command_in_pod(self, cluster: Cluster, *words: str, options: Sequence[str] = ()) -> list[str]:
        """Return the kubectl command that runs `words` in the pod. Raises Failure if the pod does not start."""
        return cluster.exec_command(self.running_pod(cluster), *words, options=options)

    def running_pod(self, cluster: Cluster) -> str:
        """Return the name of the running pod. Raises Failure.

        cluster: a Cluster for the artifact's objects, with the context and namespace in which to run the pod
        """
        key = (cluster.target.context, cluster.target.namespace)
        if key not in self._names:
            try:
                self._names[key] = self._create_pod(cluster)
            except Failure as failure:
                self._names[key] = failure
        name = self._names[key]
        if isinstance(name, Failure):
            raise name
        return name

    def _create_pod(self, cluster: Cluster) -> str:
        """Create the pod, and the ConfigMap that it mounts and owns, both under the same new name."""
        target = cluster.target
        for condition in HAS_ENDED:
            for ended in cluster.list_objects("pods", f"{LABEL}={target.object}", condition):
                cluster.start_deletion(ended)
        end = f"-shell-{os.urandom(3).hex()}"
        name = f"{target.object[: MOST_NAME - len(end)].rstrip('-.')}{end}"
        manifest = json.loads(str(self.job.settings.get("lone_pod")))
        manifest["metadata"] = {"name": name, "labels": {LABEL: target.object}}
        files = next(volume for volume in manifest["spec"]["volumes"] if volume["name"] == "files")
        files["configMap"] = {"name": name}
        answer = cluster.run_kubectl("create", "--filename=-", UID, text=json.dumps(manifest))
        if answer.code:
            raise Failure(f"cannot create a pod in {target}: {answer.errors.strip()}")
        pod = ObjectIdentity("v1", "Pod", name, answer.text.strip())
        self._created.append((cluster, pod))
        creator = ObjectCreator(cluster, self.job.artifact)
        config_map, _ = split_by_kind(creator.manifests(PodRequest("shell")), "ConfigMap")
        line = re.compile(rf"^( +(?:name|labels: {{jobc/job): ){target.object}\b", re.MULTILINE)
        config_map = line.sub(rf"\g<1>{name}", config_map)
        if why := creator.create_manifests(add_owner_reference(config_map, pod)):
            raise Failure(f"cannot create a ConfigMap in {target}: {why}")
        return self._wait_until_started(cluster, name)

    def _wait_until_started(self, cluster: Cluster, name: str) -> str:
        """Wait until the pod is running, print what it is waiting for, and return its name. Raises Failure."""
        hint = f"kubectl --namespace={cluster.target.namespace} describe pod {name}"
        shown = ""
        for tick in range(self.start_timeout_s + 1):
            try:
                item = json.loads(cluster.run_kubectl("get", "pod", name, "--output=json").text)
            except ValueError:  # kubectl has failed
                item = {}
            if item.get("status", {}).get("phase", "Pending") != "Pending":
                return name
            why, is_stuck = why_pod_is_waiting(item)
            if is_stuck and tick >= CONFIG_MAP_S:
                raise Failure(f"pod {name} cannot start: {one_line(why)}", hint)
            if tick >= QUIET_S and why not in ("", shown):
                shown = why
                print(f"waiting for pod {name}: {one_line(why)}", file=sys.stderr, flush=True)
            time.sleep(1)
        raise Failure(f"pod {name} has not started{shown and f': {one_line(shown)}'}", hint)
