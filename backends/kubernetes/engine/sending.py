"""Create the objects of an artifact in a cluster, or ask the cluster whether it accepts them. Packed into jobctl.

In   a Cluster; the artifact with job.yaml; a Purpose: what the pods are to do
Out  the uid of the created object, to which its companions belong; or Failure, with nothing left in the cluster
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import os
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ....runtime.engines.engine import Answer
from ....runtime.exit_codes import DATA_BROKEN
from ....runtime.system.failure import Failure
from .cluster import Cluster

MOST_CODE_BYTES = 600 << 10  # packed: a ConfigMap holds 1 MiB, in base64
MOST_REASON = 600  # characters of what the server answers
TRIES = 10  # to create a TrainJob
TRAIN_JOB = "TrainJob"
_NO_RUNTIME = "must be created before"
_UID = '--output=jsonpath={.apiVersion}{"\\t"}{.kind}{"\\t"}{.metadata.uid}'


class Purpose(NamedTuple):
    """Task of the pods. payload: train, smoke, preflight or shell

    suffix: is appended to every name; fork_of: ID of the run with whose checkpoint the new one begins
    code: packed copy of the user's code, which is sent along; None = none
    """

    payload: str
    run_id: str = ""
    fork_of: str = ""
    suffix: str = ""
    code: bytes | None = None


class Sender:
    """Creates the objects of an artifact."""

    def __init__(self, cluster: Cluster, artifact: Path) -> None:
        self.cluster, self.artifact = cluster, artifact
        self._has_train_job = cluster.target.kind.startswith("trainjob.")

    def require_accepted(self, purpose: Purpose) -> None:
        """Raise Failure if the cluster would refuse the objects: before anything is deleted for them or created."""
        if why := self.why_refused(purpose):
            title = f"the cluster refuses the job in {self.cluster.target}: {shortened(why)}"
            raise Failure(title, "jobctl preflight --queue-only asks again")

    def why_refused(self, purpose: Purpose) -> str:
        """Return why the cluster would refuse the objects; "" if it accepts them.

        They have names of their own in this question: the existing ones would be in the way.
        """
        try:
            manifests = self.manifests(purpose._replace(suffix="-dry"))
        except Failure as failure:
            return failure.title
        if not self._has_train_job:
            return self._create(manifests, "--dry-run=server")
        train_job, others = documents(manifests, TRAIN_JOB)
        runtime, _ = documents(manifests, "TrainingRuntime")
        self.cluster.delete_companions("-dry")
        try:
            # no dry run of the runtime: the TrainJob would be refused without it
            return (
                self._create(others, "--dry-run=server")
                or self._create(runtime)
                or self._create_train_job(train_job, "--dry-run=server")
            )
        finally:
            self.cluster.delete_companions("-dry")

    @contextlib.contextmanager
    def created(self, purpose: Purpose) -> Iterator[str]:
        """Create the objects, and delete them if the block raises. Raises Failure.

        Yields the uid of the job's object, with which its ConfigMap and its Service are deleted.
        """
        manifests = self.manifests(purpose)
        try:
            if self._has_train_job:
                train_job, others = documents(manifests, TRAIN_JOB)
                why = self._create(others) or self._create_train_job(train_job)
            else:
                why = self._create(manifests)
            if why:
                raise Failure(f"the cluster refused the job in {self.cluster.target}: {shortened(why)}")
            yield self._own_companions(purpose.suffix)
        except BaseException:  # such as Ctrl-C
            with contextlib.suppress(Failure):
                self.cluster.delete(purpose.suffix)
            raise

    def _own_companions(self, suffix: str) -> str:
        cluster, target = self.cluster, self.cluster.target
        name = target.object + suffix
        answer = cluster.k("get", target.kind, name, _UID)
        version, kind, uid = [*answer.text.split("\t"), "", "", ""][:3]
        if answer.code or not uid:
            raise Failure(f"cannot read {target.kind} {name} in {target}: {_reason(answer)}")
        owner = {"apiVersion": version, "kind": kind, "uid": uid, "name": name}
        patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
        companions = cluster.k("get", target.companions, f"--selector=jobc/job={name}", "--output=name")
        for companion in companions.text.split():
            answer = cluster.k("patch", companion, "--type=merge", f"--patch={patch}")
            if answer.code:
                raise Failure(f"cannot patch {companion} in {target}: {_reason(answer)}")
        return uid

    def manifests(self, purpose: Purpose) -> str:
        """Return the manifests of this artifact for a purpose. Raises Failure."""
        file = self.artifact / "job.yaml"
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise Failure(f"cannot read {file}: {error}", "compile the job again", DATA_BROKEN) from error
        own_object = self.cluster.target.object
        name = own_object + purpose.suffix
        text = re.sub(rf"\b{re.escape(own_object)}\b", name, text)
        for variable, value in (
            ("PAYLOAD", purpose.payload),
            ("RUN_ID", f'"{purpose.run_id}"'),
            ("FORK_OF", f'"{purpose.fork_of}"'),
        ):
            text = re.sub(rf"(name: JOBC_{variable}\n *value: ).*", rf"\g<1>{value}", text)
        text = re.sub(r"jobc/owner: .*", f"jobc/owner: {_owner()}", text)
        files, others = documents(text, "ConfigMap")  # first, so that no pod waits for its files
        text = f"{files}---\n{others}"
        return text if purpose.code is None else _code_map(name, purpose.code) + text

    def _create_train_job(self, manifest: str, *words: str) -> str:
        """Create the TrainJob and return why it is refused.

        A webhook refuses it, also in a dry run, until it has seen its runtime, some moments after that was created.
        Source Kubeflow Trainer 2, pkg/runtime/core/trainingruntime.go: ValidateObjects
        """
        for _ in range(TRIES):
            why = self._create(manifest, *words)
            if _NO_RUNTIME not in why:
                break
            time.sleep(1)
        return why

    def _create(self, manifests: str, *words: str) -> str:
        """Create the objects and return what kubectl reports against them."""
        answer = self.cluster.k("create", *words, "--filename=-", text=manifests)
        return (_reason(answer) or f"kubectl exited with {answer.code}") if answer.code else ""


def shortened(why: str) -> str:
    """Return the end of what the server answers, where the reason is."""
    return why[-MOST_REASON:]


def documents(manifests: str, kind: str) -> tuple[str, str]:
    """Return the manifests of that kind, and all others. No line of a ConfigMap's text is ---: they are indented."""
    chosen: list[str] = []
    others: list[str] = []
    for text in re.split(r"^---\n", manifests, flags=re.MULTILINE):
        is_chosen = re.search(rf"^kind: {kind}$", text, re.MULTILINE)
        (chosen if is_chosen else others).append(text)
    return "---\n".join(chosen), "---\n".join(others)


def pack_code(run: Path) -> None:
    """Pack RUN/code into RUN/code.tar.gz: the same files give the same bytes. Raises Failure."""
    packed = io.BytesIO()
    try:
        with gzip.GzipFile("", "wb", 9, packed, 0) as file:
            _write_archive(run / "code", file)
    except OSError as error:
        hint = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
        raise Failure(f"cannot pack the code in {run / 'code'}: {error.strerror or error}", hint) from error
    size = len(packed.getvalue())
    if size > MOST_CODE_BYTES:
        raise Failure(
            f"the code is {size >> 10} KiB packed, more than the {MOST_CODE_BYTES >> 10} KiB"
            " that a ConfigMap can carry",
            "list what the job does not read in .jobcignore; or code=git, code=image, or code=volume",
            DATA_BROKEN,
        )
    (run / "code.tar.gz").write_bytes(packed.getvalue())


def packed_code(run: Path) -> bytes:
    """Return what pack_code() wrote. Raises Failure."""
    try:
        return (run / "code.tar.gz").read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {run / 'code.tar.gz'}: {error.strerror}") from error


def _write_archive(folder: Path, file: gzip.GzipFile) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(folder, ".", filter=_without_owner)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def _code_map(name: str, code: bytes) -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nimmutable: true\nmetadata:\n  name: {name}-code\n"
        f"  labels:\n    jobc/job: {name}\nbinaryData:\n  code.tar.gz: {base64.b64encode(code).decode()}\n---\n"
    )


def _owner() -> str:
    """Return USER@HOST, without characters that YAML or the API would not take."""
    return re.sub("[^A-Za-z0-9@._-]", "", f"{os.environ.get('USER') or os.getuid()}@{os.uname().nodename}")


def _reason(answer: Answer) -> str:
    return answer.errors.strip()
