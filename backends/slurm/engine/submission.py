"""Queue jobs with sbatch in a clean environment, and explain rejected jobs. Packed into jobctl.

In:  sbatch options; the output of sbatch, squeue, scontrol and sinfo.
Out: a job ID. If this raises Failure, no job is left in the queue.
Source: Slurm manual pages sbatch, squeue, scontrol, sinfo; 22.05 to 25.11.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ....runtime.engines.engine import Answer, Engine
from ....runtime.system.failure import Failure
from ....runtime.system.text import one_line, printable
from ....runtime.system.values import number_or_none

SUBMIT_S = 3600.0  # timeout of sbatch, which retries for minutes if the controller is busy
# Slurm stores a job's environment, so the job gets only these variables. For example, an outer allocation's
# SLURM_CPU_BIND would restrict the job's cores.
_KEPT = (
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TZ", "MODULEPATH", "MODULESHOME", "LMOD_CMD",
    "SLURM_CONF", "JOBC_RUN_ROOT", "JOBC_SECRETS_ROOT",
)  # fmt: skip
_DEPENDENCY = re.compile(r"singleton|after(any|ok|notok|corr|burstbuffer)?(:[0-9]+([_+][0-9]+)?)+")
_HINTS = (  # part of sbatch's output, in lower case -> what to check
    ("invalid partition", "queue.name; sinfo lists the partitions"),
    ("node configuration", "no node satisfies gpus, gpu_type, cpus and mem together: sinfo --format='%P %D %c %m %G'"),
    ("feature", "backend.constraint; sinfo --format='%N %f' lists the features"),
    ("node name", "hosts, queue.nodelist or queue.exclude; sinfo --Node lists the nodes"),
    ("job array", "the site allows fewer array elements: scontrol show config | grep MaxArraySize"),
    ("reservation", "queue.reservation; scontrol show reservation lists all reservations"),
    ("account", "queue.account; sacctmgr show associations lists your accounts"),
    ("qos", "queue.qos; sacctmgr show qos lists all QOS"),
    ("time limit", "time, or another queue.name; sinfo lists the limits"),
    (", and partition ", "nodes, cpus or time, or another queue.name; sinfo lists the partitions"),
    ("", "sinfo -l lists the partitions and their limits; sinfo -R explains why nodes are down"),
)
_NO_NODES = "node configuration is not available"
# sbatch's messages without an answer from the controller (slurm_errno.c, slurm_protocol_api.c; 22.05 to 25.11)
_NO_ANSWER = re.compile(
    "unable to contact slurm controller|socket timed out|connection (refused|timed out)|configuration source"
    "|zero bytes were transmitted|did not respond within",
    re.IGNORECASE,
)


def require_client(name: str = "sbatch") -> None:
    if shutil.which(name) is None:
        hint = "run jobctl where you run sbatch: on a login node of the cluster"
        raise Failure(f"{name} not found on {os.uname().nodename}", hint)


def dependency_from_after_option(text: str) -> str:
    """Return a value of --after in sbatch's syntax. A plain ID means that the job must succeed. Raises Failure."""
    value = f"afterok:{text.replace(',', ':')}" if re.match("[0-9]", text) else text
    if not _DEPENDENCY.fullmatch(value):
        hint = "valid kinds are afterok, afterany, afternotok and aftercorr"
        raise Failure(f"--after takes ID, KIND:ID or singleton, not {text}", hint, 2)
    return value


def dependency_option(after: Sequence[str], given: str) -> list[str]:
    """Return the --dependency option for --after (and queue.after: `given`) that overrides the one in job.sbatch."""
    return [f"--dependency={','.join(filter(None, [given, *after]))}"] if after else []


def require_known_jobs(engine: Engine, after: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise Failure if Slurm does not know a job in --after. It would start the new job at once, without a message."""
    for job_id in re.findall(r"(?<=:)[0-9]+(?:[_+][0-9]+)?", " ".join(after)):
        answer = engine.ask(["scontrol", "show", "job", job_id], environment=environment)
        if answer.code and "nvalid job id" in answer.errors:
            hint = "squeue --me lists your jobs; if that job ended long ago, omit --after"
            raise Failure(f"--after: Slurm does not know job {job_id}", hint)


def sbatch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables to pass to sbatch, which Slurm stores with the job."""
    return {name: environ[name] for name in _KEPT if environ.get(name)}


class SlurmQueue:
    """Slurm's queue. engine: runs Slurm's clients; environment: variables that select the cluster"""

    def __init__(self, engine: Engine, environment: Mapping[str, str]) -> None:
        self._engine, self._environment = engine, environment

    @contextlib.contextmanager
    def submitted_job(self, words: Sequence[str]) -> Iterator[str]:
        """Queue a job with these words for sbatch, and yield its ID. Raises Failure.

        If the job can never start, or if the block raises an exception, the job is cancelled.
        """
        job_id = self._submit_job(words)
        try:
            if why := self.permanent_pending_reason(job_id):
                raise rejection_failure(why)
            yield job_id
        except BaseException:
            self._engine.ask(["scancel", job_id], environment=self._environment)
            raise

    def test_submission(self, script: Path) -> str:
        """Return Slurm's message that it would accept the job. Raises Failure.

        `sbatch --test-only` rejects a job that has to wait for a node that is down or drained with the same words as a
        job that can never start.
        """
        answer = self._run_sbatch("--test-only", str(script))
        lines = f"{answer.text}{answer.errors}".splitlines()
        text = re.sub("^sbatch: ", "", "; ".join(map(printable, lines)))
        if not answer.code:
            return text
        if _NO_NODES in text and (nodes := self._unavailable_nodes(script)):
            hint = "jobctl submit queues the job, or reports that it can never start; sinfo -R explains these nodes"
            raise Failure(f"Slurm cannot start the job now: {text}; nodes not available now: {nodes}", hint)
        raise rejection_failure(text)

    def _unavailable_nodes(self, script: Path) -> str:
        """Return the nodes of the job's partition, or of all, that are down, drained or reserved."""
        partition = re.findall(rb"^#SBATCH (--partition=.*)$", script.read_bytes(), re.MULTILINE)
        words = ["--states=down,drain,fail,maint,reserved", "--format=%N", *map(os.fsdecode, partition[:1])]
        return one_line(self._capture_output("sinfo", "--noheader", *words).strip())

    def _run_sbatch(self, *words: str) -> Answer:
        environ = sbatch_environment(os.environ)
        return self._engine.ask(["sbatch", *words], SUBMIT_S, self._environment, inherited=environ)

    def _submit_job(self, words: Sequence[str]) -> str:
        answer = self._run_sbatch("--parsable", *words)
        if answer.code:
            raise rejection_failure(f"{answer.text}{answer.errors}")
        ids = re.findall("^[0-9]{1,18}", answer.text, re.MULTILINE)  # possibly among a site's own warnings
        if not ids:
            hint = "squeue --me shows whether the job is queued"
            raise Failure(f"sbatch printed no job ID: {one_line(answer.text)}", hint)
        return str(ids[-1])

    def permanent_pending_reason(self, job_id: str) -> str:
        """Return why a job would be queued forever (it requests more than its partition has), or "" if it may start."""
        lines = self._capture_output("squeue", "--noheader", f"--jobs={job_id}", "--format=%r %P %D %c %l").splitlines()
        fields = lines[0].split() if lines else []
        reason, partition, nodes, cores, limit, *_ = [*fields, *[""] * 5]
        if not re.match("Partition|BadConstraints$", reason) or "," in partition:
            return ""
        shown = self._capture_output("scontrol", "show", "partition", partition)
        for most in re.findall("(?:MaxNodes|TotalNodes)=([0-9]{1,18})", shown):
            if (number_or_none(nodes) or 0) > int(most):
                return f"{nodes} nodes, but partition {partition} has or allows only {most}"
        match = re.search("MaxTime=([0-9:-]+)", shown)
        if match and time_limit_seconds(limit) > time_limit_seconds(match[1]):
            return f"a time limit of {limit}, but partition {partition} allows only {match[1]}"
        sizes = self._capture_output("sinfo", "--noheader", f"--partition={partition}", "--format=%c").split()
        numbers = (number_or_none(size.replace("+", "")) for size in sizes)
        largest = max((number for number in numbers if number is not None), default=None)
        if largest is not None and (number_or_none(cores) or 0) > largest:
            return f"{cores} cores per node, but nodes of partition {partition} have at most {largest}"
        return ""

    def _capture_output(self, *words: str) -> str:
        return self._engine.ask(words, environment=self._environment).text


def time_limit_seconds(text: str) -> int:
    """Convert a time limit (D-HH:MM:SS or its trailing parts) to seconds. Return 0 for any other text."""
    parts = re.split("[-:]", text)
    if len(parts) > 4 or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        return 0
    days, hours, minutes, rest = [0, 0, 0, *map(int, parts)][-4:]
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def rejection_failure(printed: str) -> Failure:
    """Return the Failure for a job that Slurm has not accepted.

    printed: sbatch's output, or why the job can never start
    """
    prefix = re.compile("^sbatch: (error: )?(Batch job submission failed: )?")
    why = "; ".join(prefix.sub("", line) for line in printed.splitlines())
    if _NO_ANSWER.search(why):
        hint = "sinfo shows whether the controller is up; squeue --me shows whether the job was queued nevertheless"
        return Failure(f"Slurm does not respond: {why}", hint)
    hint = next(hint for part, hint in _HINTS if part in why.lower())
    return Failure(f"Slurm rejects the job: {why}", hint)
