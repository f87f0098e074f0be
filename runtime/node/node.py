"""Print a node's variables for launch.sh: the engine's values under jobc's names, the secrets, and the folders.

Usage: jobctl node RANK PAYLOAD     RANK: a number, or a host's name in hosts.txt
Out:   lines of bash such as export NAME='value'. The exit code is 65 if the node lacks something, or 1 if it is already
       live.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from ..exit_codes import CRASHED
from ..run_folder.artifact_copies import JOB_FILE, newest_attempt_from
from ..run_folder.run import Run
from ..run_folder.submitted_values import SubmittedValues
from ..system.values import number_or_none, read_artifact_json, read_keys
from .node_environment import (
    cache_folder,
    code_folder,
    missing_home_variables,
    private_cache_folder,
    require_shared_memory,
)
from .node_failure import NodeAlreadyRunning, NodeFailure, failed_check_line, record_and_print_failure
from .node_settings import NodeSettings

PAYLOADS = ("train", "smoke", "check", "preflight", "shell")
WITH_RANKS = ("train", "smoke")  # payloads that start an attempt
MOST_LISTED = 4  # maximum number of hosts in JOBC_NODE_LIST


def main(argv: list[str]) -> int:
    artifact, words, environ = Path(sys.argv[0]).resolve().parent, argv, dict(os.environ)
    payload = words[1] if len(words) > 1 else "train"
    try:
        variables = node_and_run_variables(artifact, words, environ)
        environ.update(variables)
        read = NodeSettings.read(artifact).settings_for_payload(payload)
        environ["JOBC_NODES"] = str(read.nodes)
        reject_live_node(read, payload, environ)
        variables.update(job_variables(artifact, read, payload, environ))
        # the setup lines see them too; launch.py sets them again, after env of the spec
        environ.update(variables)
        submitted = SubmittedValues.take(environ)
        submitted.set_variables(environ)
        variables.update({name: environ[name] for name in submitted.env})
    except NodeFailure as failure:
        # if jobctl fails, launch.sh prints only stderr and omits the check lines
        return record_and_print_failure(environ, "check" if payload == "preflight" else payload, failure)
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def node_and_run_variables(artifact: Path, words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that identify the node and the run. Raises NodeFailure.

    words: the rank and the payload, as passed to launch.sh.
    environ: variables whose values take precedence.
    """
    rank, payload = (words[0] if words else ""), (words[1] if len(words) > 1 else "train")
    if rank.startswith("-"):
        raise NodeFailure(2, f"unknown option: {rank}", "launch.sh --help")
    if payload not in PAYLOADS:
        raise NodeFailure(2, f"unknown payload: {payload}", "train, smoke, check, preflight or shell")
    known = dict(environ)
    if not known.get("JOBC_RUN_DIR") and payload == "train":  # started by hand
        known.update(run_variables(artifact))
    by_engine = node_variables_from_hosts_file(artifact, rank, known) if (artifact / "hosts.txt").is_file() else {}
    by_engine.update(_engine_variables(artifact, rank, {**known, **by_engine}))
    known.update(by_engine)
    rank = by_engine.get("JOBC_NODE_RANK") or rank or known.get("JOBC_NODE_RANK") or "0"
    known["JOBC_NODE_RANK"] = rank
    if number_or_none(rank) is None:
        raise NodeFailure(2, f"not a node rank: {rank}")
    run = known.get("JOBC_RUN_DIR", "")
    run_id = known.get("JOBC_RUN_ID") or os.path.basename(run)
    node = read_artifact_json(artifact / JOB_FILE).get("node")
    defaults = {
        "JOBC_NODE_RANK": rank,
        "JOBC_RUN_DIR": run,
        "JOBC_RUN_ID": run_id,
        "JOBC_JOB_ID": run_id,
        "JOBC_NODE_LIST": os.uname().nodename,
        "JOBC_HEAD_ADDR": "127.0.0.1",
        "JOBC_HEAD_PORT": str(node["rendezvous"]["port"] if isinstance(node, dict) else 0),
        "JOBC_ATTEMPT": "0",
    }
    known.update({name: value for name, value in defaults.items() if not known.get(name)})
    return {name: value for name, value in known.items() if name in defaults or environ.get(name) != value}


def _engine_variables(artifact: Path, rank: str, environ: Mapping[str, str]) -> dict[str, str]:
    engine = find_spec("jobc_engine")
    if engine is None or not engine.submodule_search_locations or find_spec("jobc_engine.job_variables") is None:
        return {}
    variables: dict[str, str] = import_module("jobc_engine.job_variables").job_variables(environ, artifact, rank)
    return variables


def run_variables(artifact: Path) -> dict[str, str]:
    """Return the variables of the newest attempt that starts from this artifact copy, or {} if no run contains it."""
    run, attempt = artifact.parent.parent, newest_attempt_from(artifact)
    if attempt is None:
        return {}
    variables = {"JOBC_RUN_DIR": str(run), "JOBC_RUN_ID": run.name, "JOBC_JOB_ID": run.name}
    variables["JOBC_ATTEMPT"] = str(attempt)
    variables["JOBC_INIT_FROM"] = read_keys(run / "state/run").get("init_from", "")
    return variables


def node_variables_from_hosts_file(artifact: Path, rank: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return one node's variables, using hosts.txt. rank: the node's number or host name. Raises NodeFailure."""
    hosts = (artifact / "hosts.txt").read_text(errors="replace").splitlines()
    rank = rank or environ.get("JOBC_NODE_RANK", "")
    node = number_or_none(rank)
    if node is None:
        if rank not in hosts:
            raise NodeFailure(2, f"{rank} is not in hosts.txt")
        node = hosts.index(rank)
    listed = [*hosts[:MOST_LISTED], *(["…"] if len(hosts) > MOST_LISTED else [])]
    tree = read_artifact_json(artifact / JOB_FILE)
    return {
        "JOBC_NODE_RANK": str(node),
        "JOBC_HEAD_ADDR": hosts[0].rpartition("@")[2],
        "JOBC_HEAD_PORT": environ.get("JOBC_HEAD_PORT") or str(tree.get("head_port", 0)),
        "JOBC_NODE_LIST": ",".join(listed),
        "JOBC_TIME_LIMIT_S": environ.get("JOBC_TIME_LIMIT_S") or str(tree.get("time_limit_s", 0)),
        "JOBC_GPU_TYPE": str(tree.get("gpu_type") or ""),
    }


def job_variables(artifact: Path, read: NodeSettings, payload: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that follow from the job: sizes, files, secrets and folders. Raises NodeFailure.

    In preflight, missing files, secrets and folders are printed as failed checks, among the lines for bash.
    """
    run = environ.get("JOBC_RUN_DIR", "")
    variables = {
        "JOBC_LAUNCHER": "jobc",  # RANK and similar variables override those of an outer launcher
        "JOBC_JOB_NAME": read.name,
        "JOBC_NODES": str(read.nodes),
        "JOBC_PROCS": str(read.procs),
        "JOBC_GPUS": str(read.gpus),
        "JOBC_GRACE_S": str(read.grace_s),
        "JOBC_LIB": str(artifact / "jobctl"),
        "JOBC_ARTIFACT": str(artifact),
    }
    for name in ("train", "deepspeed"):
        if (artifact / f"{name}.json").is_file():
            variables[f"JOBC_{name.upper()}_JSON"] = str(artifact / f"{name}.json")
    project = environ.get("JOBC_PROJECT") or os.getcwd()
    if read.data:
        variables["JOBC_DATA_DIR"] = os.path.join(project, read.data)
    steps: list[Callable[[], Mapping[str, str]]] = []
    if read.secrets and "JOBC_INSIDE" not in environ:  # in a container, these are inherited
        from .job_secrets import read_job_secrets  # packed only in jobs with secrets

        steps.append(partial(read_job_secrets, read.secrets, environ, payload))
    if read.container is not None:
        steps.append(partial(missing_home_variables, environ))
    if read.downloads:
        downloads = read.downloads
        steps.append(lambda: {"JOBC_DOWNLOADS": cache_folder(project, downloads, "caches.downloads", environ)})
    if read.compiled:
        compiled = read.compiled
        steps.append(lambda: {"JOBC_COMPILED": private_cache_folder(project, compiled, "caches.compiled", environ)})
    if read.shm_bytes:
        steps.append(partial(require_shared_memory, read.shm_bytes))
    steps.append(lambda: {"JOBC_CODE_DIR": code_folder(read, project, run, artifact, payload)})
    lacks = environ.get("JOBC_INSIDE", "0")
    for step in steps:
        try:
            variables.update(step())
        except NodeFailure as failure:
            if payload != "preflight":
                raise
            print(f"printf '%s\\n' {shlex.quote(failed_check_line(failure))}")  # a line of bash
            lacks = "1"
    variables.setdefault("JOBC_CODE_DIR", str(artifact))
    if lacks != "0":
        variables["JOBC_LACKS"] = "1"
    return variables


def reject_live_node(read: NodeSettings, payload: str, environ: Mapping[str, str]) -> None:
    """Raise NodeFailure if this node already has a supervisor in the run, or if there is no run folder.

    Removes the record of this node's failed start, so that the node can be restarted by hand.
    """
    task = environ.get("LOCAL_RANK", "0") if read.launcher == "srun" and payload == "train" else "0"
    if payload not in WITH_RANKS or task != "0":
        return
    path = environ.get("JOBC_RUN_DIR", "")
    if not os.path.isdir(path):
        title = f"no run folder: JOBC_RUN_DIR='{path}'"
        raise NodeFailure(2, title, "jobctl submit creates a run folder and starts launch.sh; see launch.sh --help")
    run, node = Run(Path(path)), int(environ["JOBC_NODE_RANK"])
    if run.statuses().get(node) == "up":
        hint = "stop the run with jobctl stop, or start a new run with jobctl submit without --resume"
        raise NodeAlreadyRunning(CRASHED, f"run {run.id} is live{run.describe_remote_node()}", hint)
    first = Path(path, "exit", environ["JOBC_ATTEMPT"], "first")
    # keep it with srun, because another task of this node may just have written it
    if read.launcher != "srun" and read_keys(first).get("node") == str(node):
        first.unlink()
