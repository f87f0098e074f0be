"""Decide whether Slurm should restart a job, and requeue it without the nodes that do not respond. Packed into jobctl.

In:  scontrol's output about the job, its nodes and the configuration.
Out: the requeued job.
Source: Slurm manual page scontrol, 22.05 to 25.11; _slurm_rpc_requeue in src/slurmctld/proc_req.c.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ....runtime.engines.engine import Engine
from ....runtime.exit_codes import MEANING, PEER_LOST, PREEMPTED

ANSWER_S, MOST_ASKED = 10.0, 64  # timeout for a slurmd to accept a connection; number of nodes contacted simultaneously
_NODE = re.compile(r"^NodeName=(\S+) .*?\bNodeAddr=(\S+)", re.MULTILINE)


def decide_next_start(shown: str, code: int, asked: str, restarts: int, most_restarts: int, is_stopped: bool) -> str:
    """Return "queued" if Slurm has already requeued the job, "ask" if Slurm should be asked to requeue it, else "".

    A job is requeued near its time limit (asked is "time"), in a preemption's GraceTime, and after a lost node, but not
    after a manual scancel or jobctl stop.
    shown: output of `scontrol show job`
    """
    match = re.search("Restarts=([0-9]{1,18})", shown)
    if match and int(match[1]) > restarts:
        return "queued"
    if "JobState=RUNNING" not in shown or is_stopped or restarts >= most_restarts:
        return ""
    is_early = asked == "time" or re.search("PreemptTime=[0-9]", shown)
    return "ask" if code == PEER_LOST or (code == PREEMPTED and is_early) else ""


def describe_end(shown: str, code: int, asked: str, restarts: int) -> str:
    """Return why the ranks ended early, as far as Slurm's answer shows it. Arguments: as for decide_next_start()"""
    if asked == "time":
        limit = re.search("TimeLimit=([0-9:-]+)", shown)
        return f"time limit of {limit[1]} reached" if limit else "time limit reached"
    if re.search("PreemptTime=[0-9]", shown):
        return "preempted"
    is_over = "JobState=" in shown and "JobState=RUNNING" not in shown and f"Restarts={restarts} " in f"{shown} "
    return "cancelled" if asked == "term" and is_over and code == PREEMPTED else MEANING[code]


def lost_nodes(engine: Engine, nodes: str) -> list[str]:
    """Return the names of the nodes whose slurmd accepts no connections. nodes: as in SLURM_JOB_NODELIST"""
    config = engine.ask(["scontrol", "show", "config"]).text
    port = re.search("^SlurmdPort *= *([0-9]{1,5})", config, re.MULTILINE)
    if port is None:
        return []
    addresses = dict(_NODE.findall(engine.ask(["scontrol", "--oneliner", "show", "node", nodes]).text))
    with ThreadPoolExecutor(MOST_ASKED) as pool:
        answers = {name: pool.submit(_accepts_connections, host, int(port[1])) for name, host in addresses.items()}
    return [name for name, answer in answers.items() if not answer.result()]


def _accepts_connections(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), ANSWER_S).close()
    except OSError:
        return False
    return True


def requeue_without_lost_nodes(engine: Engine, folder: Path, job_id: str, nodes: str, lost: Sequence[str]) -> bool:
    """Requeue this job without its lost nodes. Return False if Slurm rejects the requeue.

    Slurm would restart the job on the lost nodes, or wait until it considers them down (SlurmdTimeout, 300 s). So
    the lost nodes are removed from the job first, and excluded from the next start. The node that runs this program
    cannot be removed from the job. If that node is lost, Slurm itself requeues the job after SlurmdTimeout.
    folder: becomes the working directory. scontrol writes a script for interactive shells there, which is removed.
    """
    excluded = ""
    if lost:
        names = engine.ask(["scontrol", "show", "hostnames", nodes]).text.split()
        kept = ",".join(name for name in names if name not in lost)
        os.chdir(folder)
        engine.ask(["scontrol", "update", f"jobid={job_id}", f"nodelist={kept}"])
        for script in folder.glob("slurm_job_*_resize.*"):
            script.unlink()
        match = re.search(r"\bExcNodeList=(\S*)", engine.ask(["scontrol", "show", "job", job_id]).text)
        excluded = match[1] if match and match[1] != "(null)" else ""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a requeue ends this job: it has KillWait (30 s) to finish
    if engine.ask(["scontrol", "requeue", job_id]).code:
        return False
    if lost:  # only a pending job accepts this; a job that requires a lost node then waits for that node
        without = ",".join(filter(None, [excluded, *lost]))
        engine.ask(["scontrol", "update", f"jobid={job_id}", f"excnodelist={without}"])
    return True
