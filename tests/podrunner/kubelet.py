"""Run one pod on one host, like Kubernetes' kubelet: start its containers in order, and end them.

Init containers run one after the other, and each must succeed. One with restartPolicy Always is a sidecar: it only has
to start, is restarted whenever it ends, and ends last, in reverse order. Then all other containers run together.
Source: Kubernetes 1.36 manual, "Init Containers", "Sidecar Containers", "Pod Lifecycle"; observed on v1.36.2: init
        containers. Sidecars follow the manual.
"""

from __future__ import annotations

import time
from pathlib import Path

from jobc.tests.testbed import Host

from .container import NEVER, Container
from .store import Object
from .volumes import Volumes

RESTART_S = 0.5  # delay before a sidecar is restarted; Kubernetes: 10 s, then doubled


class Running:
    """A pod on its host. Raises NotYet if something that it refers to does not exist. folder: for logs and volumes"""

    def __init__(self, pod: Object, host: Host, folder: Path, volumes: Volumes) -> None:
        self.pod, self.host, self.folder = pod, host, folder
        self.started = time.monotonic()
        folder.mkdir(parents=True)
        (folder / "hosts").write_text("")
        spec = pod["spec"]
        self.init, self.main = (
            [Container(pod, each, host, folder, volumes) for each in spec.get(kind, ())]
            for kind in ("initContainers", "containers")
        )
        self._kill_at = NEVER
        self._again: dict[str, float] = {}  # sidecar -> when it is restarted
        self.look()

    def container(self, name: str = "") -> Container:
        """Return the container with that name, by default the first that is not an init container, as kubectl does."""
        return next(each for each in (*self.main, *self.init) if name in ("", each.name))

    def terminate(self, grace_s: float) -> None:
        """End all containers, sidecars last; SIGKILL ends whatever remains after the grace period."""
        self._kill_at = min(self._kill_at, time.monotonic() + grace_s)

    def signal(self, number: int) -> None:
        for container in (*self.main, *self.init):
            if container.runs():
                container.signal(number)

    def wait(self) -> None:
        for container in (*self.main, *self.init):
            container.wait()

    def phase(self) -> str:
        """Return the phase: Pending until all of `init` are done and another container is up; then it depends on the
        others.
        """
        if not self._is_over():
            return "Running" if any(each.is_up() for each in self.main) else "Pending"
        good = not self._failed_init() and all(each.exit_code() == 0 for each in self.main)
        return "Succeeded" if good else "Failed"

    def statuses(self) -> Object:
        found = {"containerStatuses": [each.status() for each in self.main]}
        return found | ({"initContainerStatuses": [each.status() for each in self.init]} if self.init else {})

    def look(self) -> None:
        """Do the next step; the runner repeats this."""
        if self._is_finishing():
            self._end_sidecars()
        elif self._kill_at < NEVER:
            for container in (*self.main, *self.init):
                if container.runs() and not container.stays:
                    container.terminate(self._kill_at)
        else:
            self._keep_sidecars()
            self._begin()

    def _begin(self) -> None:
        """Start the next init container, or the other containers when all init containers are done."""
        for container in self.init:
            if not container.has_begun:
                container.start()
            if not (container.is_up() if container.stays else container.exit_code() == 0):
                return
        for container in self.main:
            if not container.has_begun:
                container.start()

    def _keep_sidecars(self) -> None:
        for container in self.init:
            if not container.stays or container.exit_code() is None:
                continue
            if time.monotonic() >= self._again.setdefault(container.name, time.monotonic() + RESTART_S):
                del self._again[container.name]
                container.start()

    def _is_finishing(self) -> bool:
        """Return whether only sidecars are running, and nothing else will start."""
        others = [each for each in (*self.init, *self.main) if not each.stays]
        if any(each.runs() for each in others):
            return False
        told = self._kill_at < NEVER
        return told or self._failed_init() or all(each.exit_code() is not None for each in self.main)

    def _failed_init(self) -> bool:
        return any(each.exit_code() for each in self.init if not each.stays)

    def _end_sidecars(self) -> None:
        """End the sidecars in reverse order, each after the next one has ended."""
        self.terminate(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
        for container in reversed(self.init):
            if container.stays and container.runs():
                container.terminate(self._kill_at)
                return

    def _is_over(self) -> bool:
        return self._is_finishing() and not any(each.runs() for each in self.init)
