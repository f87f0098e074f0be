"""The cluster: objects, kubectl's server, one controller per Job, and a kubelet for each host. See __init__.py."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from jobc.tests.testbed import Cluster, Host

from . import kubelet
from .api import ApiServer
from .controller import JobController, condition, delete_pod
from .environment import NotYet
from .jobset import look_at_job_set, look_at_train_job
from .store import Object, Store

DNS_S = 0.3  # from a pod's start until its name is there
NAMESPACE = "testbed"


class PodRunner:
    """Up when made. claims: folder behind a PersistentVolumeClaim; exports: behind SERVER:/PATH of NFS."""

    def __init__(
        self, cluster: Cluster, claims: Mapping[str, Path] | None = None, exports: Mapping[str, Path] | None = None
    ) -> None:
        self.store = Store()
        self.claims, self.exports = dict(claims or {}), dict(exports or {})
        self._hosts: tuple[Host, ...] = cluster.nodes
        self._folder = cluster.shared / f"pods-{time.monotonic_ns()}"
        self._folder.mkdir()
        self._controllers: dict[str, JobController] = {}
        self._running: dict[str, kubelet.Running] = {}  # by pod uid
        self._logs: dict[str, Path] = {}
        self._closing = threading.Event()
        self.server = ApiServer(self)
        self.kubeconfig = self._folder / "kubeconfig"
        self.kubeconfig.write_text(KUBECONFIG.format(port=self.server.port, namespace=NAMESPACE))
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def __enter__(self) -> PodRunner:
        return self

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._closing.set()
        self._thread.join()
        for running in self._running.values():
            running.signal(9)
            running.process.wait()
        self.server.close()

    # ---- what tests do

    def evict(self, pod: str) -> None:
        """As the eviction API does: the pod gets its grace, and the condition that a policy may ignore."""
        with self.store.changed:
            item = self.store.objects["pods", pod]
            condition(item, "DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting")
            delete_pod(self.store, item)

    def pods(self, phase: str = "") -> list[Object]:
        with self.store.changed:
            return [pod for pod in self.store.all("pods") if not phase or pod["status"]["phase"] == phase]

    def log(self, pod: Object) -> str:
        file = self._logs.get(pod["metadata"]["uid"])
        return file.read_text(errors="replace") if file else ""

    # ---- what the server asks

    def log_file(self, pod: Object) -> Path | None:
        return self._logs.get(pod["metadata"]["uid"])

    def process(self, pod: Object) -> kubelet.Running | None:
        return self._running.get(pod["metadata"]["uid"])

    @property
    def is_closing(self) -> bool:
        return self._closing.is_set()

    # ---- the loop

    def _loop(self) -> None:
        while not self._closing.wait(0.05):
            with self.store.changed:
                for train_job in self.store.all("trainjobs"):
                    look_at_train_job(self.store, train_job)
                for job_set in self.store.all("jobsets"):
                    look_at_job_set(self.store, job_set)
                self._look_at_jobs()
                self._look_at_pods()
                self._write_names()

    def _look_at_jobs(self) -> None:
        for job in self.store.all("jobs"):
            uid = job["metadata"]["uid"]
            if uid not in self._controllers:
                self._controllers[uid] = JobController(self.store, job)
            controller = self._controllers[uid]
            if "deletionTimestamp" in job["metadata"]:
                for pod in controller.pods():
                    delete_pod(self.store, pod)
                if not controller.pods():
                    self.store.remove("jobs", job["metadata"]["name"])
            else:
                controller.look()

    def _look_at_pods(self) -> None:
        for pod in list(self.store.all("pods")):
            running = self._running.get(pod["metadata"]["uid"])
            deleted = "deletionTimestamp" in pod["metadata"]
            if running:
                if pod["status"]["phase"] == "Pending" and running.is_up():
                    self._is_up(pod)
                if deleted:
                    running.terminate(
                        pod["metadata"].get("grace", pod["spec"].get("terminationGracePeriodSeconds", 30))
                    )
                if (code := running.exit_code()) is not None:
                    self._ended(pod, code)
            elif pod["status"]["phase"] == "Pending" and not deleted:
                self._start(pod)
            elif deleted and pod["status"]["phase"] == "Pending":
                pod["status"]["phase"] = "Failed"
            elif deleted:
                self.store.remove("pods", pod["metadata"]["name"])

    def _start(self, pod: Object) -> None:
        taken = {running.host.hostname for running in self._running.values()}
        gpus = int(_limits(pod).get("nvidia.com/gpu", 0))
        free = [h for h in self._hosts if h.is_on and h.hostname not in taken and h.gpus >= gpus]
        if not free:
            why = "Insufficient nvidia.com/gpu" if gpus else "Insufficient cpu"
            message = f"0/{len(self._hosts)} nodes are available: {len(self._hosts)} {why}."
            status = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod["status"]["conditions"] = [status]
            return
        pod["status"] = {"phase": "Pending", "podIP": free[0].address}
        pod["spec"]["nodeName"] = free[0].hostname
        name = pod["spec"]["containers"][0]["name"]
        volumes = kubelet.Volumes(
            self.claims, self.exports, _by_name(self.store.all("configmaps")), _by_name(self.store.all("secrets"))
        )
        folder = self._folder / pod["metadata"]["uid"]
        try:
            running = kubelet.start(pod, free[0], folder, volumes)
        except NotYet as missing:
            waiting = {"reason": "CreateContainerConfigError", "message": str(missing)}
            pod["status"]["containerStatuses"] = [{"name": name, "state": {"waiting": waiting}}]
            _remove(folder)
            return
        self._running[pod["metadata"]["uid"]] = running
        self._logs[pod["metadata"]["uid"]] = running.log

    def _is_up(self, pod: Object) -> None:
        name = pod["spec"]["containers"][0]["name"]
        pod["status"] |= {"phase": "Running", "containerStatuses": [{"name": name, "state": {"running": {}}}]}
        self.store.touch(pod)

    def _ended(self, pod: Object, code: int) -> None:
        running = self._running.pop(pod["metadata"]["uid"])
        text = running.log.read_text(errors="replace") if code else ""
        reason = "StartError" if code == 128 else "Error" if code else "Completed"
        state = {"exitCode": code, "reason": reason, "message": "\n".join(text.splitlines()[-80:])[-2048:]}
        name = pod["spec"]["containers"][0]["name"]
        pod["status"]["phase"] = "Failed" if code else "Succeeded"
        pod["status"]["containerStatuses"] = [{"name": name, "state": {"terminated": state}}]
        self.store.touch(pod)

    def _write_names(self) -> None:
        """/etc/hosts of each pod: itself, and what the cluster's DNS would say of headless Services."""
        published = ""
        for service in self.store.all("services"):
            selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
            svc = service["metadata"]["name"]
            for pod in self.store.all("pods", selector):
                running = self._running.get(pod["metadata"]["uid"])
                if running is None or time.monotonic() - running.started < DNS_S:
                    continue
                ending = "deletionTimestamp" in pod["metadata"]
                if ending and not service["spec"].get("publishNotReadyAddresses"):
                    continue
                hostname = pod["spec"].get("hostname")
                hosts = [f"{hostname}.{svc}"] if hostname and pod["spec"].get("subdomain") == svc else []
                published += _names(running.host.address, [*hosts, svc])
        for running in self._running.values():
            spec = running.pod["spec"]
            hostname = spec.get("hostname", running.pod["metadata"]["name"])
            own = f"{hostname}.{spec['subdomain']}.{NAMESPACE}.svc.cluster.local " if "subdomain" in spec else ""
            text = f"127.0.0.1\tlocalhost\n{running.host.address}\t{own}{hostname}\n{published}"
            hosts_file = running.folder / "hosts"
            if hosts_file.read_text() != text:
                with hosts_file.open("r+") as file:  # the same file, for it is mounted; never empty in between
                    file.write(text)
                    file.truncate()


def _names(address: str, short: Iterable[str]) -> str:
    ends = ("", f".{NAMESPACE}", f".{NAMESPACE}.svc", f".{NAMESPACE}.svc.cluster.local")
    return f"{address}\t" + " ".join(name + end for name in short for end in ends) + "\n"


def _limits(pod: Object) -> dict[str, str]:
    found: dict[str, str] = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return found


def _by_name(items: Iterable[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in items}


def _remove(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: testbed, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: nobody, user: {{}}}}]
contexts: [{{name: testbed, context: {{cluster: testbed, user: nobody, namespace: {namespace}}}}}]
current-context: testbed
"""
