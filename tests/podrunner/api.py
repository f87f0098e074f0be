"""The part of a Kubernetes API server that kubectl needs for the emitted scripts: HTTP on a port of this machine.

Supports discovery, create (and its dry run), get, list, watch, merge patch, delete, pod logs and exec. Request bodies
are decoded strictly, against the JSON schema of a real version (schema.py).
"""

from __future__ import annotations

import copy
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from . import schema
from .controller import delete_pod
from .environment import field
from .exec import serve_exec
from .store import Object, now

if TYPE_CHECKING:
    from .runner import PodRunner

KINDS = {  # plural: group and version, kind
    "jobs": ("batch/v1", "Job"),
    "pods": ("v1", "Pod"),
    "services": ("v1", "Service"),
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "events": ("v1", "Event"),
    "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "trainjobs": ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    "trainingruntimes": ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"),
}
GROUPS = tuple(dict.fromkeys(version for version, _ in KINDS.values() if "/" in version))
API_PATHS = ("api/v1", *(f"apis/{version}" for version in GROUPS))
IN_FOREGROUND = ("jobs", "jobsets", "trainjobs")  # deleted by their controllers, after the objects that they created


Query = dict[str, list[str]]


class ApiServer:
    def __init__(self, runner: PodRunner) -> None:
        handler = type("Handler", (_Handler,), {"runner": runner})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class Refusal(Exception):
    """A rejected request. status: HTTP status; reason, message: of a Status object"""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class _Handler(BaseHTTPRequestHandler):
    runner: PodRunner
    protocol_version = "HTTP/1.1"
    _is_lost = False

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        body = json.loads(self._content() or b"{}")
        try:
            if "namespaces" in parts and len(parts) > parts.index("namespaces") + 2:
                at = parts.index("namespaces")
                if parts[at + 1] != self.runner.namespace:  # Kubernetes would list nothing; here it is an error
                    raise Refusal(404, "NotFound", f'namespaces "{parts[at + 1]}" not found')
                self._objects(method, parts[at + 1], parts[at + 2 :], query, body)
            else:
                found = discovery("/".join(parts))
                if found is None:
                    raise Refusal(404, "NotFound", "the server could not find the requested resource")
                self._send(200, found)
        except Refusal as refusal:
            self._send(refusal.status, status(refusal))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _content(self) -> bytes:
        """Return the request's body; `kubectl delete --raw` sends it in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b""
        while length := int(self.rfile.readline(), 16):
            content += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def _objects(self, method: str, namespace: str, parts: list[str], query: Query, body: Object) -> None:
        plural, name, part = [*parts, "", "", ""][:3]
        self._authorize(method, plural, name, part, query)
        if part == "log":
            return self._log(name, query)
        if part == "exec":
            return serve_exec(self, self._process(name, query), query)
        with self.runner.store.changed:
            if method == "POST":
                return self._send(201, self._create(namespace, plural, body, "dryRun" in query))
            if method == "PATCH":
                item = self._item(plural, name)
                merge(item, body)
                self.runner.store.touch(item)
                return self._send(200, item)
            if method == "DELETE":
                return self._send(200, self._delete(plural, name, body))
            if name:
                return self._send(200, self._item(plural, name))
            items = self._list(plural, query)
        if "watch" in query:
            return self._watch(plural, query)
        version, kind = KINDS[plural]
        meta = {"resourceVersion": str(self.runner.store.version)}
        return self._send(200, {"kind": f"{kind}List", "apiVersion": version, "metadata": meta, "items": items})

    def _authorize(self, method: str, plural: str, name: str, part: str, query: Query) -> None:
        """Check RBAC, as defined by the runner's `forbidden`. If `lost` matches, drop the connection after the request
        is done.
        """
        reading = "get" if name else "watch" if "watch" in query else "list"
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "GET": reading}[method]
        verb, resource = ("create", "pods/exec") if part == "exec" else (verb, f"{plural}/{part}" if part else plural)
        asked, runner = f"{verb} {resource}", self.runner
        self._is_lost = asked in runner.lost and "dryRun" not in query and (verb == "create" or runner.was_lost)
        runner.was_lost = runner.was_lost or self._is_lost
        if asked in runner.forbidden or (asked in runner.after_dry_run and "dryRun" not in query):
            group = KINDS[plural][0].rpartition("/")[0]
            about = f"{resource.partition('/')[0]}{'.' if group else ''}{group}" + (f' "{name}"' if name else "")
            said = f'User "ana" cannot {verb} resource "{resource}" in API group "{group}"'
            raise Refusal(403, "Forbidden", f'{about} is forbidden: {said} in the namespace "{runner.namespace}"')

    def _create(self, namespace: str, plural: str, item: Object, dry_run: bool) -> Object:
        version, kind = KINDS[plural]
        problem = schema.problem(item) or schema.invalid(item)
        if problem:
            raise Refusal(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {problem}')
        item = copy.deepcopy(item)
        name = item["metadata"]["name"]
        if self.runner.store.get(plural, name):
            raise Refusal(409, "AlreadyExists", f'{plural} "{name}" already exists')
        item["metadata"]["namespace"] = namespace
        self._webhook(plural, item)
        if plural == "pods":
            item["status"] = {"phase": "Pending"}
        if not dry_run:
            self.runner.store.add(plural, item)
        return item

    def _webhook(self, plural: str, item: Object) -> None:
        """Imitate validator.trainjob.trainer.kubeflow.org, including in a dry run. It reads a cache, which lags a
        little.

        Source Kubeflow Trainer 2.1: pkg/runtime/core/trainingruntime.go (ValidateObjects), manifests/base/webhook
        """
        if plural == "trainjobs":
            name = item["spec"]["runtimeRef"]["name"]
            runtime = self.runner.store.get("trainingruntimes", name)
            if runtime is None or runtime["metadata"]["creationTimestamp"] == now():
                why = f'TrainingRuntime.trainer.kubeflow.org "{name}" not found'
                said = f"{why}: specified trainingRuntime must be created before the TrainJob is created"
                whose = 'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request'
                raise Refusal(403, "Forbidden", f"{whose}: spec.runtimeRef: Invalid value: {said}")

    def _item(self, plural: str, name: str) -> Object:
        item = self.runner.store.get(plural, name)
        if item is None:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found')
        return item

    def _list(self, plural: str, query: Query) -> list[Object]:
        found = self.runner.store.all(plural, query.get("labelSelector", [""])[0])
        wanted = [part.split("=", 1) for part in query.get("fieldSelector", [""])[0].split(",") if part]
        return [item for item in found if all(field(item, path) == value for path, value in wanted)]

    def _delete(self, plural: str, name: str, options: Object) -> Object:
        item = self._item(plural, name)
        for key, wanted in options.get("preconditions", {}).items():
            if wanted != item["metadata"][key]:
                why = f"Precondition failed: {key} in precondition: {wanted}, in object meta: {item['metadata'][key]}"
                raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')
        if plural == "pods":
            if "gracePeriodSeconds" in options:
                item["metadata"]["grace"] = options["gracePeriodSeconds"]
            delete_pod(self.runner.store, item)
        elif plural in IN_FOREGROUND:
            item["metadata"]["deletionTimestamp"] = now()
        else:
            self.runner.store.remove(plural, name)
        return item

    def _watch(self, plural: str, query: Query) -> None:
        """Stream additions, changes and deletions until the client disconnects; existing objects come first if
        requested.
        """
        version, kind = KINDS[plural]
        until = time.monotonic() + float(query.get("timeoutSeconds", ["600"])[0])
        self._start_stream("application/json")

        def event(name: str, item: Object) -> None:
            self._chunk(
                (json.dumps({"type": name, "object": {"kind": kind, "apiVersion": version, **item}}) + "\n").encode()
            )

        known: dict[str, Object] = {}
        initial = "sendInitialEvents" in query
        first = True
        while time.monotonic() < until and not self.runner.is_closing:
            with self.runner.store.changed:
                seen = {item["metadata"]["uid"]: copy.deepcopy(item) for item in self._list(plural, query)}
            for uid, item in seen.items():
                if uid not in known and (initial or not first):
                    event("ADDED", item)
                elif uid in known and known[uid] != item:
                    event("MODIFIED", item)
            for uid in set(known) - set(seen):
                event("DELETED", known[uid])
            if first and initial:
                end = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "1"}
                event("BOOKMARK", {"metadata": end})
            known, first = seen, False
            time.sleep(0.05)
        self._chunk(b"")

    def _process(self, name: str, query: Query) -> Any:
        with self.runner.store.changed:
            running = self.runner.process(self._item("pods", name), query.get("container", [""])[0])
        if running is None:
            raise Refusal(500, "InternalError", "unable to upgrade connection: container not found")
        return running

    def _log(self, name: str, query: Query) -> None:
        with self.runner.store.changed:
            pod = self._item("pods", name)
            container = query.get("container", [pod["spec"]["containers"][0]["name"]])[0]
            file = self.runner.log_file(pod, container)
        if file is None:
            message = f'container "{container}" in pod "{name}" is waiting to start: PodInitializing'
            raise Refusal(400, "BadRequest", message)
        self._start_stream("text/plain")
        lines = int(query.get("tailLines", ["-1"])[0])
        with file.open("rb") as log:
            text = log.read()
            if lines >= 0:
                text = b"".join(text.splitlines(keepends=True)[-lines:])
            while True:
                if text:
                    self._chunk(text)
                ended = self.runner.process(pod, container) is None
                text = log.read()
                if not text and (ended or "follow" not in query):
                    break
                time.sleep(0.05)
        self._chunk(b"")

    def _start_stream(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        """Send one chunk; an empty chunk is the last."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(self, code: int, item: Object) -> None:
        if self._is_lost:
            raise ConnectionResetError
        data = json.dumps(item).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def status(refusal: Refusal) -> Object:
    words = {"reason": refusal.reason, "message": refusal.message, "code": refusal.status}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", **words}


def merge(item: Object, patch: Object) -> None:
    """Apply a JSON merge patch (RFC 7386) in place."""
    for key, value in patch.items():
        if value is None:
            item.pop(key, None)
        elif isinstance(value, dict) and isinstance(item.get(key), dict):
            merge(item[key], value)
        else:
            item[key] = value


def discovery(path: str) -> Object | None:
    """Return the discovery documents that kubectl requests first."""
    if path == "version":
        return {"major": "1", "minor": "36", "gitVersion": f"v{schema.VERSION}"}
    if path == "api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "apis":
        found = [{"name": v.split("/")[0], "versions": [_version(v)], "preferredVersion": _version(v)} for v in GROUPS]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    if path in API_PATHS:
        version = path.split("/", 1)[1]
        verbs = ["create", "delete", "get", "list", "patch", "watch"]
        resources = [
            {"name": plural, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": verbs}
            for plural, (group_version, kind) in KINDS.items()
            if group_version == version
        ]
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
    if path == "openapi/v3":
        return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in API_PATHS}}
    if path.startswith("openapi/v3/"):  # reports that the server itself validates
        return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1"}, "paths": _patches()}
    return None


def _version(text: str) -> Object:
    return {"groupVersion": text, "version": text.split("/")[1]}


def _patches() -> Object:
    found = {}
    for plural, (version, kind) in KINDS.items():
        group, _, number = version.rpartition("/")
        operation = {
            "parameters": [{"name": "fieldValidation", "in": "query"}, {"name": "dryRun", "in": "query"}],
            "x-kubernetes-group-version-kind": {"group": group, "version": number, "kind": kind},
            "responses": {},
        }
        root = f"/apis/{version}" if group else f"/api/{version}"
        found[f"{root}/namespaces/{{namespace}}/{plural}/{{name}}"] = {"patch": operation}
    return found
