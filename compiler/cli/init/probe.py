"""Detect facts about a cluster for `jobc init`. No other compiler module inspects the machine.

In:  `run`, a function that runs a command on this machine or on a host.
Out: a list of `Fact`, each with the command that reported it.

Sources: sinfo, sbatch, scontrol (Slurm 22.05 to 25.11), nvidia-smi, rocm-smi (ROCm 5 to 7), ip (iproute2 5 or newer).
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...spec.value_types import format_duration

Run = Callable[..., "str | None"]  # a command's words -> stdout; None if it does not exist or fails
PATIENCE_S = 10  # timeout of one lookup: a scheduler that does not respond is treated as absent


class Fact(NamedTuple):
    """A detected or given fact."""

    key: str  # in the profile, "" if the fact is only printed
    value: str  # as written in the profile
    by: str  # where the fact comes from


def run_locally(*words: str) -> str | None:
    """Run a command on this machine and return its stdout, or None if the command is missing or fails."""
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S,
            check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def runner_on_host(host: str) -> Run:
    """Return a runner for commands on a host with passwordless ssh. If `host` is empty, it always returns None."""
    options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=5")

    def run_on_host(*words: str) -> str | None:
        return run_locally("ssh", *options, "--", host, shlex.join(words)) if host else None

    return run_on_host


# ---- Slurm ----------------------------------------------------------------------------------------------------------

_SINFO = ("sinfo", "--exact", "--noheader", "--format=%P|%D|%c|%m|%G|%l")  # --exact: no `16+` for nodes that differ


def detect_slurm(run: Run) -> list[Fact]:
    """Return facts from Slurm's clients, or an empty list if there are no clients or slurmctld does not respond."""
    rows = run(*_SINFO)
    if rows is None:
        return []
    facts = [Fact("backend", "slurm", "sinfo answers")]
    if version := re.search(r"(\d+)\.(\d+)", run("sbatch", "--version") or ""):
        facts.append(Fact("backend.version", f"{version[1]}.{version[2]}", "sbatch --version"))
    facts += _parse_slurm_config(run("scontrol", "show", "config") or "")
    return [*facts, *parse_sinfo_partitions(rows)]


def _parse_slurm_config(text: str) -> list[Fact]:
    """Return the facts in `scontrol show config` that affect a job."""
    settings = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", text, re.MULTILINE))
    by, facts = "scontrol show config", []
    if name := settings.get("ClusterName"):
        facts.append(Fact("name", name, f"{by}: ClusterName"))
    if settings.get("SelectType") not in (None, "select/cons_tres"):  # only cons_tres supports --gpus-per-node
        facts.append(Fact("backend.gpus_as", "gres", f"{by}: SelectType={settings['SelectType']}"))
    if "associations" in settings.get("AccountingStorageEnforce", ""):
        facts.append(Fact("site.requires", "[queue.account]", f"{by}: AccountingStorageEnforce"))
    return facts


def parse_sinfo_partitions(rows: str) -> list[Fact]:
    """Return one fact per partition from sinfo's rows `NAME|NODES|CPUS|MIB|GRES|LIMIT`. A `*` marks the default."""
    merged: dict[str, dict[str, list[str]]] = {}
    for row in rows.split("\n"):
        if row.count("|") == 5:
            name, *values = row.split("|")
            columns = merged.setdefault(name, {})
            for column, value in zip(("nodes", "cpus", "mib", "gres", "limit"), values, strict=True):
                columns.setdefault(column, []).append(value)
    default = [Fact("site.partition", name[:-1], "sinfo: the default") for name in merged if name.endswith("*")]
    facts = [Fact(f"site.partitions.{name.rstrip('*')}", _format_partition(c), "sinfo") for name, c in merged.items()]
    return default + facts


def _format_partition(columns: Mapping[str, Sequence[str]]) -> str:
    """Return one partition's facts as YAML. If its nodes differ, use the largest values."""
    gpus = [_parse_gres(gres) for gres in columns["gres"]]
    types = sorted({kind for kinds, _ in gpus for kind in kinds})
    fields = {
        "nodes": str(sum(_leading_numbers(columns["nodes"]))),
        "gpus": str(max(count for _, count in gpus)),
        "gpu_types": f"[{', '.join(types)}]" if types else "",
        "cpus": str(max(_leading_numbers(columns["cpus"]), default="")),
        "mem": f"{max(_leading_numbers(columns['mib']), default=0)}MiB",
        "time": convert_time_limit(columns["limit"][0]),
    }
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields.items() if value not in ("", "0MiB")) + "}"


def _leading_numbers(texts: Sequence[str]) -> list[int]:
    return [int(match[0]) for text in texts if (match := re.match(r"\d+", text))]


def _parse_gres(gres: str) -> tuple[list[str], int]:
    """Return (kinds, count) of a node's GPUs: `gpu:a100:4(S:0-1),gpu:v100:2` is ([a100, v100], 6)."""
    matches = re.findall(r"(?:^|,)gpu(?::([^:(),]+))??:(\d+)", gres)
    return [kind for kind, _ in matches if kind], sum(int(count) for _, count in matches)


def convert_time_limit(text: str) -> str:
    """Convert Slurm's [DAYS-]HOURS:MINUTES:SECONDS or MINUTES:SECONDS to jobc's format, or to "" for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not match:
        return ""
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return format_duration(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


# ---- a machine ------------------------------------------------------------------------------------------------------


def detect_machine(run: Run) -> list[Fact]:
    """Return one machine's GPUs, cores and memory. All nodes of the site are assumed to be alike."""
    facts = []
    if (names := run("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")) is not None:
        kinds = [line.strip() for line in names.split("\n") if line.strip()]
        facts.append(Fact("site.gpus", str(len(kinds)), f"nvidia-smi: {', '.join(sorted(set(kinds)))}"))
    elif (text := run("rocm-smi", "--showid")) is not None:
        facts.append(Fact("site.gpus", str(len(set(re.findall(r"GPU\[(\d+)\]", text)))), "rocm-smi --showid"))
    if (cores := run("nproc")) is not None:
        facts.append(Fact("site.cpus", cores.strip(), "nproc"))
    if total := re.search(r"^MemTotal: +(\d+) kB", run("cat", "/proc/meminfo") or "", re.MULTILINE):
        facts.append(Fact("site.mem", f"{int(total[1]) // 1024}MiB", "/proc/meminfo"))
    return facts


def detect_network_interfaces(run: Run) -> list[Fact]:
    """Return the network interfaces with an address: `ip -oneline -family inet address show up scope global`."""
    rows = run("ip", "-oneline", "-family", "inet", "address", "show", "up", "scope", "global") or ""
    interfaces = re.findall(r"\d+: (\S+) +inet (\S+)", rows)
    return [Fact("", f"{name} {address}", "ip address") for name, address in interfaces]


def detect_python_environment(environment: Mapping[str, str]) -> list[Fact]:
    """Return the active Python environment. Loaded modules are only printed, because not all of them are for Python."""
    facts = []
    for variable, kind in (("VIRTUAL_ENV", "venv"), ("CONDA_PREFIX", "conda")):
        if path := environment.get(variable):
            facts = [Fact("python", kind, f"${variable}"), Fact("python.path", path, f"${variable}")]
            break
    if loaded := environment.get("LOADEDMODULES"):  # Environment Modules 3 or newer, Lmod
        facts.append(Fact("", f"modules loaded here: {loaded.replace(':', ' ')}", "$LOADEDMODULES"))
    return facts


def detect_torch_version(run: Run, interpreter: str) -> list[Fact]:
    """Return an interpreter's torch version without importing torch, which takes seconds."""
    program = "from importlib.metadata import version; print(version('torch').partition('+')[0])"
    version = (run(interpreter, "-c", program) or "").strip()
    return [Fact("site.torch", version, interpreter)] if version else []
