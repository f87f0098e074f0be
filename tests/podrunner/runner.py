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

from .api import ApiServer
from .container import Container
from .controller import JobController, condition, delete_pod
from .environment import NotYet
from .jobset import look_at_job_set, look_at_train_job
from .kubelet import Running
from .store import Object, Store
from .volumes import Volumes

DNS_S = 0.3  # from a pod's start until its name resolves
NAMESPACE = "testbed"
NO_REGISTRY = "missing.example/"  # registry whose images cannot be pulled
INITIALIZING = {"waiting": {"reason": "PodInitializing"}}


class PodRunner:
    """A running cluster. claims: folder behind a PersistentVolumeClaim; exports: folder behind SERVER:/PATH of NFS."""

    namespace = NAMESPACE

    def __init__(
        self, cluster: Cluster, claims: Mapping[str, Path] | None = None, exports: Mapping[str, Path] | None = None
    ) -> None:
        self.store = Store()
        self.claims, self.exports = dict(claims or {}), dict(exports or {})
        # VERB RESOURCE, such as `create pods/exec`: what the user may not do, also in a dry run or only in earnest;
        # what gets no answer, `get` only after a `create` that got none
        self.forbidden: set[str] = set()
        self.after_dry_run: set[str] = set()
        self.lost: set[str] = set()
        self.was_lost = False
        self._hosts: tuple[Host, ...] = cluster.nodes
        self._folder = cluster.shared / f"pods-{time.monotonic_ns()}"
        self._folder.mkdir()
        self._controllers: dict[str, JobController] = {}
        self._running: dict[str, Running] = {}  # by pod uid
        self._folders: dict[str, Path] = {}  # by pod uid; entries of ended pods are kept
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
            running.wait()
        self.server.close()

    # ---- for tests

    def evict(self, pod: str) -> None:
        """Evict a pod as the eviction API does: it gets its grace period, and the condition that a policy may
        ignore.
        """
        with self.store.changed:
            item = self.store.objects["pods", pod]
            condition(item, "DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting")
            delete_pod(self.store, item)

    def pods(self, phase: str = "") -> list[Object]:
        with self.store.changed:
            return [pod for pod in self.store.all("pods") if not phase or pod["status"]["phase"] == phase]

    def log(self, pod: Object, container: str = "") -> str:
        file = self.log_file(pod, container)
        return file.read_text(errors="replace") if file else ""

    # ---- what the server asks; container: its name, else the first one

    def log_file(self, pod: Object, container: str = "") -> Path | None:
        folder = self._folders.get(pod["metadata"]["uid"])
        file = folder / (container or pod["spec"]["containers"][0]["name"]) / "log" if folder else None
        return file if file and file.exists() else None

    def process(self, pod: Object, container: str = "") -> Container | None:
        """Return the pod's container; None if it is not running."""
        running = self._running.get(pod["metadata"]["uid"])
        found = running.container(container) if running else None
        return found if found and found.runs() else None

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
                if deleted:
                    grace_s = pod["spec"].get("terminationGracePeriodSeconds", 30)
                    running.terminate(pod["metadata"].get("grace", grace_s))
                running.look()
                self._report(pod, running)
            elif pod["status"]["phase"] == "Pending" and not deleted:
                self._start(pod)
            elif deleted and pod["status"]["phase"] == "Pending":
                pod["status"]["phase"] = "Failed"
            elif deleted:
                self.store.remove("pods", pod["metadata"]["name"])

    def _start(self, pod: Object) -> None:
        taken = {running.host.hostname for running in self._running.values()}
        gpus = _gpus(pod)
        free = [h for h in self._hosts if h.is_up and h.hostname not in taken and h.gpus >= gpus]
        if not free:
            why = "Insufficient nvidia.com/gpu" if gpus else "Insufficient cpu"
            message = f"0/{len(self._hosts)} nodes are available: {len(self._hosts)} {why}."
            status = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod["status"]["conditions"] = [status]
            return
        pod["status"] = {"phase": "Pending", "podIP": free[0].address}
        pod["spec"]["nodeName"] = free[0].hostname
        named = (_by_name(self.store.all(kind)) for kind in ("configmaps", "secrets"))
        volumes = Volumes(self.claims, self.exports, *named, services=list(self.store.all("services")))
        folder = self._folder / pod["metadata"]["uid"]
        if self._cannot_pull(pod):
            return
        try:
            running = Running(pod, free[0], folder, volumes)
        except NotYet as missing:
            waiting = {"reason": "CreateContainerConfigError", "message": str(missing)}
            name = pod["spec"]["containers"][0]["name"]
            pod["status"]["containerStatuses"] = [{"name": name, "state": {"waiting": waiting}}]
            _remove(folder)
            return
        self._running[pod["metadata"]["uid"]] = running
        self._folders[pod["metadata"]["uid"]] = folder

    def _cannot_pull(self, pod: Object) -> bool:
        """Return whether an image is in a registry that does not exist. Init containers are pulled first, and the
        others wait.
        """
        for kind in ("initContainers", "containers"):
            for container in pod["spec"].get(kind, ()):
                if container["image"].startswith(NO_REGISTRY):
                    why = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{container["image"]}"'}
                    others = [{"name": each["name"], "state": INITIALIZING} for each in pod["spec"]["containers"]]
                    pod["status"]["containerStatuses"] = others
                    waiting = [{"name": container["name"], "state": {"waiting": why}}]
                    pod["status"]["initContainerStatuses" if kind == "initContainers" else "containerStatuses"] = (
                        waiting
                    )
                    return True
        return False

    def _report(self, pod: Object, running: Running) -> None:
        now_is = {"phase": running.phase(), **running.statuses()}
        if {key: pod["status"].get(key) for key in now_is} != now_is:
            pod["status"] |= now_is
            self.store.touch(pod)
        if now_is["phase"] in ("Succeeded", "Failed"):
            del self._running[pod["metadata"]["uid"]]

    def _write_names(self) -> None:
        """Write each pod's /etc/hosts: the pod itself, and what cluster DNS would return for headless Services."""
        published = ""
        for service in self.store.all("services"):
            selector = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
            svc = service["metadata"]["name"]
            for pod in self.store.all("pods", selector):
                running = self._running.get(pod["metadata"]["uid"])
                if running is None or time.monotonic() - running.started < DNS_S:
                    continue
                is_ready = pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
                if not is_ready and not service["spec"].get("publishNotReadyAddresses"):
                    continue
                hostname = pod["spec"].get("hostname")
                hosts = [f"{hostname}.{svc}"] if hostname and pod["spec"].get("subdomain") == svc else []
                published += _names(running.host.address, [*hosts, svc])
        for running in self._running.values():
            spec = running.pod["spec"]
            hostname = spec.get("hostname", running.pod["metadata"]["name"])
            own = f"{hostname}.{spec['subdomain']}.{NAMESPACE}.svc.cluster.local " if "subdomain" in spec else ""
            # with the host's network a pod asks the host's DNS, unless it says otherwise
            asks_cluster = not spec.get("hostNetwork") or spec.get("dnsPolicy") == "ClusterFirstWithHostNet"
            known = published if asks_cluster else ""
            text = f"127.0.0.1\tlocalhost\n{running.host.address}\t{own}{hostname}\n{known}"
            hosts_file = running.folder / "hosts"
            if hosts_file.read_text() != text:
                with hosts_file.open("r+") as file:  # the same file, because it is mounted; never empty in between
                    file.write(text)
                    file.truncate()


def _names(address: str, short: Iterable[str]) -> str:
    ends = ("", f".{NAMESPACE}", f".{NAMESPACE}.svc", f".{NAMESPACE}.svc.cluster.local")
    return f"{address}\t" + " ".join(name + end for name in short for end in ends) + "\n"


def _gpus(pod: Object) -> int:
    """Return the GPUs that the pod needs at once: for its containers and sidecars together, or for one init container
    alone.
    """

    def of(container: Object) -> int:
        return int(container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0))

    init, main = pod["spec"].get("initContainers", ()), pod["spec"]["containers"]
    stay = [each for each in init if each.get("restartPolicy") == "Always"]
    return max(sum(map(of, (*main, *stay))), *map(of, init), 0)


def _by_name(items: Iterable[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in items}


def _remove(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- {{name: testbed, cluster: {{server: "http://127.0.0.1:{port}"}}}}
- {{name: nowhere, cluster: {{server: "http://127.0.0.1:1"}}}}
users: [{{name: nobody, user: {{}}}}]
contexts:
- {{name: testbed, context: {{cluster: testbed, user: nobody, namespace: {namespace}}}}}
- {{name: other, context: {{cluster: nowhere, user: nobody, namespace: elsewhere}}}}
current-context: testbed
"""  # nobody listens on the other one
