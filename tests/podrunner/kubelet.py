"""Runs one pod on one host: its containers in their order, and its end. What Kubernetes' kubelet does.

Init containers run one after the other, each to its good end; one with restartPolicy Always is a sidecar, which need
only have begun, is started again whenever it ends, and goes last, in reverse order. Then all others run together.
Source: Kubernetes 1.36 manual, "Init Containers", "Sidecar Containers", "Pod Lifecycle"; observed on v1.36.2: init
        containers. Sidecars as the manual says.
"""

from __future__ import annotations

import time
from pathlib import Path

from jobc.tests.testbed import Host

from .container import NEVER, Container
from .store import Object
from .volumes import Volumes

RESTART_S = 0.5  # until a sidecar is started again; Kubernetes: 10 s, then double


class Running:
    """A pod on its host. Raises NotYet when something that it names is not there. folder: of logs and volumes"""

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
        self._again: dict[str, float] = {}  # sidecar: when it is started again
        self.look()

    def container(self, name: str = "") -> Container:
        """That one, else the first of those that are no init containers, as kubectl chooses."""
        return next(each for each in (*self.main, *self.init) if name in ("", each.name))

    def terminate(self, grace_s: float) -> None:
        """All of it, sidecars last; SIGKILL for whatever is there after the grace."""
        self._kill_at = min(self._kill_at, time.monotonic() + grace_s)

    def signal(self, number: int) -> None:
        for container in (*self.main, *self.init):
            if container.runs():
                container.signal(number)

    def wait(self) -> None:
        for container in (*self.main, *self.init):
            container.wait()

    def phase(self) -> str:
        """Pending until all of `init` are done and one of the others is up; then by the others alone."""
        if not self._is_over():
            return "Running" if any(each.is_up() for each in self.main) else "Pending"
        good = not self._failed_init() and all(each.exit_code() == 0 for each in self.main)
        return "Succeeded" if good else "Failed"

    def statuses(self) -> Object:
        found = {"containerStatuses": [each.status() for each in self.main]}
        return found | ({"initContainerStatuses": [each.status() for each in self.init]} if self.init else {})

    def look(self) -> None:
        """What is to be done next; the runner repeats it."""
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
        """The next init container, or when all are done the others."""
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
        """Nothing but sidecars runs, and nothing else will."""
        others = [each for each in (*self.init, *self.main) if not each.stays]
        if any(each.runs() for each in others):
            return False
        told = self._kill_at < NEVER
        return told or self._failed_init() or all(each.exit_code() is not None for each in self.main)

    def _failed_init(self) -> bool:
        return any(each.exit_code() for each in self.init if not each.stays)

    def _end_sidecars(self) -> None:
        """The last one first, each when the one after it has gone."""
        self.terminate(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
        for container in reversed(self.init):
            if container.stays and container.runs():
                container.terminate(self._kill_at)
                return

    def _is_over(self) -> bool:
        return self._is_finishing() and not any(each.runs() for each in self.init)
