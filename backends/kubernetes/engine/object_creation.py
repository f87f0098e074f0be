"""Create an artifact's objects in a cluster, or ask the cluster whether it accepts them. Packed into jobctl.

In:  a Cluster; the artifact, with job.yaml; a PodRequest, which describes what the pods will do.
Out: the uid of the created object, which owns its companions. Raises Failure. Existing objects are never deleted.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ....runtime.engines.engine import Answer
from ....runtime.exit_codes import DATA_BROKEN
from ....runtime.system.failure import Failure, print_failure
from .cluster import RUNTIME, TRIES, Cluster, ObjectIdentity, is_already_deleted, live_object_failure

MOST_CODE_BYTES = 600 << 10  # after packing; a ConfigMap may contain 1 MiB, including the base64 overhead
MOST_REASON = 600  # maximum number of characters quoted from the server's reply
KINDS = {"job": "Job", "jobset": "JobSet", "trainjob": "TrainJob"}
_NO_RUNTIME = "must be created before"
UID = "--output=jsonpath={.metadata.uid}"
# kubectl's messages without a reply from the API server (client-go and net/http; kubectl 1.20 to 1.34). A reply may
# quote the same words, if the server could not reach a webhook.
_NO_ANSWER = re.compile(
    "(?is)(?!.*error from server).*("
    "unable to connect to the server|connection refused|connection to the server .* was refused|i/o timeout"
    "|TLS handshake timeout|no such host|no configuration has been provided|context .* does not exist"
    "|did not respond within)"
)


class PodRequest(NamedTuple):
    """Request to create pods: what they are for, and what they receive.

    payload: `train`, `smoke`, `preflight` or `shell`
    suffix: appended to every name
    fork_of: ID of the run from whose checkpoint the new run starts
    submitted: arguments and variables given to `jobctl submit`, as SubmittedValues.encode_for_variable() returns them
    code: packed copy of the user's code to send to the pods, or None to send no copy
    """

    payload: str
    run_id: str = ""
    fork_of: str = ""
    suffix: str = ""
    code: bytes | None = None
    submitted: str = ""


class ObjectCreator:
    def __init__(self, cluster: Cluster, artifact: Path) -> None:
        self.cluster, self.artifact = cluster, artifact
        self._kind = KINDS[cluster.target.kind.partition(".")[0]]
        self.may_be_there = False  # whether the job may exist in the cluster after a failure

    def require_accepted(self, request: PodRequest) -> None:
        """Raise Failure if the cluster would reject the objects. Called before anything is deleted or created."""
        if why := self.rejection_reason(request):
            raise self.rejection_failure("rejects the job", why, "jobctl preflight --queue-only tries again")

    def rejection_failure(self, what: str, why: str, hint: str = "") -> Failure:
        if _NO_ANSWER.match(why):
            hint = "kubectl cluster-info tests the connection; kubectl config get-contexts lists the known clusters"
            return Failure(f"cannot reach the cluster for {self.cluster.target}: {why}", hint)
        return Failure(f"the cluster {what} in {self.cluster.target}: {why}", hint)

    def rejection_reason(self, request: PodRequest) -> str:
        """Return why the cluster would reject the objects, or "" if it accepts them.

        The dry run uses different names, so that existing objects do not conflict.
        """
        try:
            suffix = f"-dry{os.urandom(2).hex()}"
            manifests = self.manifests(request._replace(suffix=suffix))
        except Failure as failure:
            return failure.title
        if self._kind != "TrainJob":
            return self.create_manifests(manifests, "--dry-run=server")
        train_job, others = split_by_kind(manifests, self._kind)
        runtime, _ = split_by_kind(manifests, RUNTIME)
        try:
            # the runtime is created for real, because the TrainJob would be rejected without it
            return (
                self.create_manifests(others, "--dry-run=server")
                or self.create_manifests(runtime)
                or self.create_manifests(train_job, "--dry-run=server")
            )
        finally:
            for companion in self.cluster.list_companions(suffix):
                self.cluster.start_deletion(companion)

    def create(self, request: PodRequest, remember: Callable[[str], None] = lambda uid: None) -> None:
        """Create the job's object and then its companions.

        remember: called with the uid as soon as it is known
        Raises Failure, for example if the object's name is taken, after removing what this call created. If the job may
        still exist in the cluster, may_be_there is True.
        """
        main, companions = split_by_kind(self.manifests(request), self._kind)
        runtimes: list[ObjectIdentity] = []
        if self._kind == "TrainJob":  # its webhook requires the runtime to exist
            runtime, companions = split_by_kind(companions, RUNTIME)
            runtimes = [self._create_runtime(runtime, request)]
        owner = None
        try:
            owner = self._create_object(main, request)
            remember(owner.uid)
            for each in runtimes:
                self._set_runtime_owner(each, owner)
            if why := self.create_manifests(add_owner_reference(companions, owner)):
                raise self.rejection_failure("rejected part of the job", why)
        except BaseException:
            if owner is not None or not self.may_be_there:
                self._delete_created_objects([*([owner] if owner else ()), *runtimes])
            raise

    def _create_object(self, manifest: str, request: PodRequest) -> ObjectIdentity:
        self.may_be_there = True
        answer = self._run_kubectl_create(manifest, UID)
        if answer.code == 0:
            version = re.search("^apiVersion: (.*)", manifest, re.MULTILINE)
            name = self.cluster.target.object + request.suffix
            return ObjectIdentity(version.group(1) if version else "", self._kind, name, answer.text.strip())
        # the connection may have been lost after the object was created
        found = self.cluster.find_object(request.suffix)
        if found.belongs_to_run(request.run_id, ""):
            return found.identity
        self.may_be_there = False
        if found.uid:
            raise live_object_failure(found, self.cluster.target)
        raise self.rejection_failure("rejected the job", _kubectl_error(answer))

    def _create_runtime(self, manifest: str, request: PodRequest) -> ObjectIdentity:
        name = self.cluster.target.object + request.suffix
        answer = self._run_kubectl_create(manifest, UID)
        if "(AlreadyExists)" in answer.errors:
            title = f"TrainingRuntime {name} exists in {self.cluster.target}: another submit is starting this job"
            hint = f"if no other submit is running, delete the runtime: kubectl delete trainingruntime {name}"
            raise Failure(title, hint)
        if answer.code:
            raise self.rejection_failure("rejected the job", _kubectl_error(answer))
        return ObjectIdentity("trainer.kubeflow.org/v1alpha1", RUNTIME, name, answer.text.strip())

    def _set_runtime_owner(self, runtime: ObjectIdentity, owner: ObjectIdentity) -> None:
        """Make the TrainJob own its runtime, so that both are deleted together.

        Raises Failure if another submit has deleted the runtime as a leftover. The patch contains the runtime's uid, so
        the server rejects it for any newer runtime.
        """
        patch = json.dumps({"metadata": {"uid": runtime.uid, "ownerReferences": [_owner_reference(owner)]}})
        words = ("patch", "trainingruntime.trainer.kubeflow.org", runtime.name, "--type=merge", f"--patch={patch}")
        answer = self.cluster.run_kubectl(*words)
        if answer.code and is_already_deleted(answer.errors):
            title = f"another submit has deleted {RUNTIME} {runtime.name} in {self.cluster.target}"
            raise Failure(title, "submit again, unless jobctl status shows that the other submit has started the job")
        if answer.code:
            warning = f"{RUNTIME} {runtime.name} will not be deleted with its TrainJob: {_kubectl_error(answer)}"
            print(f"warning: {warning}", file=sys.stderr)

    def _delete_created_objects(self, created: list[ObjectIdentity]) -> None:
        try:
            for each in created:
                self.cluster.start_deletion(each)
            self.may_be_there = False
        except Failure as failure:
            print_failure(failure)

    def manifests(self, request: PodRequest) -> str:
        """Return this artifact's manifests, filled in for the request. Raises Failure."""
        file, job_object = self.artifact / "job.yaml", self.cluster.target.object
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise Failure(f"cannot read {file}: {error}", "compile the job again", DATA_BROKEN) from error
        name = job_object + request.suffix
        text = re.sub(rf"\b{re.escape(job_object)}\b", name, text)
        text = re.sub(r"(\n *- )name: JOBC_JOB_UID\n", rf"{_request_variables(request)}\g<0>", text)
        text = text.replace('jobc/owner: ""', f'jobc/owner: "{_submitter_name()}, run {request.run_id}"')
        if request.code is None:
            return text
        text = text.replace(f"{{name: {name}-code, optional: true}}", f"{{name: {name}-code}}")  # the pods wait for it
        return _code_config_map(name, request.code) + text

    def create_manifests(self, manifests: str, *words: str) -> str:
        """Create the objects. Return kubectl's error, or ""."""
        return _kubectl_error(self._run_kubectl_create(manifests, *words))

    def _run_kubectl_create(self, manifests: str, *words: str) -> Answer:
        """Run `kubectl create`, for a TrainJob until its webhook has seen the new runtime, which takes a moment.

        Source: Kubeflow Trainer 2, pkg/runtime/core/trainingruntime.go: ValidateObjects.
        """
        for _ in range(TRIES):
            answer = self.cluster.run_kubectl("create", "--filename=-", *words, text=manifests)
            if _NO_RUNTIME not in answer.errors:
                break
            time.sleep(1)
        return answer


def _owner_reference(owner: ObjectIdentity) -> dict[str, str]:
    return {"apiVersion": owner.version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def add_owner_reference(manifests: str, owner: ObjectIdentity) -> str:
    """Return the manifests with an owner reference, so that the objects are deleted with their owner."""
    line = f"metadata:\n  ownerReferences: [{json.dumps(_owner_reference(owner))}]\n"
    return re.sub(r"^metadata:\n", line, manifests, flags=re.MULTILINE)


def split_by_kind(manifests: str, kind: str) -> tuple[str, str]:
    """Return the manifests of that kind, and all others. A ConfigMap's text is indented, so no line in it is `---`."""
    chosen: list[str] = []
    others: list[str] = []
    for text in re.split(r"^---\n", manifests, flags=re.MULTILINE):
        is_chosen = re.search(rf"^kind: {kind}$", text, re.MULTILINE)
        (chosen if is_chosen else others).append(text)
    return "---\n".join(chosen), "---\n".join(others)


def pack_code(run: Path) -> bytes:
    """Pack RUN/code into RUN/code.tar.gz deterministically, and return the archive. Raises Failure."""
    archive = io.BytesIO()
    packer = gzip.GzipFile(fileobj=archive, mode="wb", mtime=0)
    try:
        with packer, tarfile.open(fileobj=packer, mode="w", format=tarfile.GNU_FORMAT) as tar:
            tar.add(run / "code", ".", filter=_strip_owner)
    except OSError as error:
        hint = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
        raise Failure(f"cannot pack the code in {run / 'code'}: {error.strerror or error}", hint) from error
    packed = archive.getvalue()
    if len(packed) > MOST_CODE_BYTES:
        size, most = f"{len(packed) >> 10} KiB", f"{MOST_CODE_BYTES >> 10} KiB"
        title = f"the code is {size} packed, more than the {most} that fit in a ConfigMap"
        hint = "list files that the job does not need in .jobcignore; or use code=git, code=image or code=volume"
        raise Failure(title, hint, DATA_BROKEN)
    (run / "code.tar.gz").write_bytes(packed)
    return packed


def read_packed_code(run: Path) -> bytes:
    try:
        return (run / "code.tar.gz").read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {run / 'code.tar.gz'}: {error.strerror}") from error


def _strip_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _code_config_map(name: str, code: bytes) -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nimmutable: true\nmetadata:\n  name: {name}-code\n"
        f"  labels:\n    jobc/job: {name}\nbinaryData:\n  code.tar.gz: {base64.b64encode(code).decode()}\n---\n"
    )


def _request_variables(request: PodRequest) -> str:
    """Return the request's variables as list entries, to be inserted before the line that the regex matches."""
    values = {"PAYLOAD": request.payload, "RUN_ID": request.run_id, "FORK_OF": request.fork_of}
    values["SUBMITTED"] = request.submitted
    return "".join(rf'\g<1>{{name: JOBC_{name}, value: "{value}"}}' for name, value in values.items() if value)


def _submitter_name() -> str:
    """Return USER@HOST, without characters that YAML or the API would reject."""
    return re.sub("[^A-Za-z0-9@._-]", "", f"{os.environ.get('USER') or os.getuid()}@{os.uname().nodename}")


def _kubectl_error(answer: Answer) -> str:
    """Return why kubectl failed, which is at the end of the server's reply, or "" if it did not fail."""
    return (answer.errors.strip()[-MOST_REASON:] or f"kubectl exited with {answer.code}") if answer.code else ""
