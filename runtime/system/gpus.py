"""List this node's GPUs without torch, using the driver: how many there are, their names, and the processes that use
them.

Source: nvidia-smi(1) of driver 550; rocm-smi of ROCm 6.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TIMEOUT_S = 60  # without persistence mode, the first query starts the driver
NAMES_S = 10  # nvidia-smi hangs if the driver is broken; jobctl preflight reports that
BUSY_MIB = 1024  # a free GPU itself uses a few hundred MiB
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
DEVICES = Path("/dev")
KFD = Path("/sys/class/kfd/kfd/topology/nodes")  # AMD's driver: a folder for each CPU and GPU; gpu_id is 0 for CPUs
DEVICE_FILES = ("nvidia[0-9]*", "kfd", "dxg")  # NVIDIA, AMD, NVIDIA under WSL 2
HINT = "check the driver and CUDA_VISIBLE_DEVICES; to run on the CPU, set gpus=0"


class Gpu(NamedTuple):
    """One GPU. used_mib: memory in use; pids: visible processes that use it."""

    id: str
    name: str
    used_mib: int
    pids: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        return not self.pids and self.used_mib <= BUSY_MIB

    @property
    def use_description(self) -> str:
        by = f" by process {' '.join(self.pids)}" if self.pids else ""
        return f"GPU {self.id} has {self.used_mib} MiB in use{by}"


def compare_gpu_types(found: list[Gpu] | None, wanted: str) -> tuple[bool, str]:
    """Return whether all GPUs are of the wanted type, and a line that describes them."""
    host = os.uname().nodename
    if found is None:
        return False, f"cannot detect the GPU type on {host}: neither nvidia-smi nor rocm-smi works; required: {wanted}"
    kinds = ", ".join(sorted({gpu.name for gpu in found})) or "none"
    good = bool(found) and all(is_gpu_of_type(gpu.name, wanted) for gpu in found)
    return good, f"GPUs of {host}: {kinds}; required: {wanted}"


def is_gpu_of_type(name: str, wanted: str) -> bool:
    """Return whether a product name contains every part of a type: `NVIDIA A100-SXM4-80GB` contains A100 and 80GB.

    Letters and digits are separate words, and a part must end where a part of the name ends: A10 does not match A100,
    L4 and L40 do not match L40S, and RTX3090 matches `GeForce RTX 3090`.
    """
    name = re.sub(r"(MI\d{3})([_ ]OAM)", r"\1X\2", name)  # an MI325X reports itself as MI325 OAM, for example
    part_words = [_split_words(part) for part in _split_name(name)]
    ends = [sum(map(len, part_words[: i + 1])) for i in range(len(part_words))]
    flat = [word for words in part_words for word in words]

    def contains_word(words: list[str]) -> bool:
        return any(flat[end - len(words) : end] == words for end in ends if end >= len(words))

    return all(contains_word(_split_words(part)) for part in _split_name(wanted))


def _split_name(text: str) -> list[str]:
    return re.findall("[A-Za-z0-9]+", text)


def _split_words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", text.lower())


def usable_gpu_count(environ: Mapping[str, str], devices: Path = DEVICES) -> int | None:
    """Return how many GPUs or MIG instances a program may use, or None if only the program itself can tell."""
    visible = next((environ[name] for name in VISIBLE if name in environ), None)
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip() not in ("", "-1")])
    if (gpus := list_gpus(environ)) is not None:
        return max(len(gpus), _mig_instance_count())
    return None if any(next(devices.glob(name), None) for name in DEVICE_FILES) else 0


def _mig_instance_count() -> int:
    try:
        return sum(line.lstrip().startswith("MIG ") for line in _run_command("nvidia-smi", "-L").splitlines())
    except (OSError, subprocess.SubprocessError):
        return 0


def missing_gpus_reason(seen: int | None, wanted: int) -> str:
    """Return why a job that needs `wanted` GPUs cannot run here, and a hint on a second line, or "" if it can."""
    if seen is None or seen >= wanted:
        return ""
    number = f"{seen} GPU{'' if seen == 1 else 's'}" if seen else "no GPU"
    on_cpu = f"gpus=0 procs={wanted} runs {wanted} processes on the CPU" if wanted > 1 else "gpus=0 runs on the CPU"
    hint = f"{on_cpu}; backend=slurm, or ssh with hosts=, runs on other machines"
    if seen:
        hint = f"gpus={seen}; {hint}"
    return f"{os.uname().nodename} has {number} that this shell can use, required: {wanted}\n{hint}"


def describe_usable_gpus(seen: int, wanted: int) -> str:
    return f"GPUs visible to torch: {seen}, required: {wanted}"


def describe_gpus(environ: Mapping[str, str]) -> str:
    """Return the ranks' GPUs, as set by the engine or else as listed by the driver, with their names if known."""
    chosen = next((environ[name] for name in VISIBLE[:2] if environ.get(name)), "")
    listed = chosen.replace(",", " ") or " ".join(map(str, _list_local_gpu_numbers()))
    try:
        names = _run_command("nvidia-smi", "--query-gpu=name", "--format=csv,noheader", timeout_s=NAMES_S).splitlines()
    except (OSError, subprocess.SubprocessError):
        names = []
    return f"{listed} ({', '.join(sorted(set(names)))})" if listed and names else listed


def _list_local_gpu_numbers() -> list[int]:
    """Return the numbers of all GPUs on this node without calling a driver, which might hang."""
    files = [path.name.removeprefix("nvidia") for path in DEVICES.glob("nvidia[0-9]*")]
    amd = [file for file in KFD.glob("*/gpu_id") if file.read_text().strip() not in ("", "0")]
    return sorted(int(number) for number in files if number.isdigit()) or list(range(len(amd)))


def list_gpus(environ: Mapping[str, str]) -> list[Gpu] | None:
    """Return the GPUs that the job may use, or None if there is neither nvidia-smi nor rocm-smi."""
    for tool in (_query_nvidia_gpus, _query_amd_gpus):
        try:
            gpus = list(tool())
        except (OSError, subprocess.SubprocessError, ValueError, KeyError):
            continue
        visible = next((environ[name].split(",") for name in VISIBLE if environ.get(name)), None)
        if visible is not None and all(index.isdigit() for index in visible):
            return [gpu for gpu in gpus if gpu.id in visible]
        return gpus
    return None


def _query_nvidia_gpus() -> Iterator[Gpu]:
    pids: dict[str, list[str]] = {}
    for uuid, pid in _query_rows("nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"):
        pids.setdefault(uuid, []).append(pid)
    fields = "--query-gpu=index,name,memory.used,uuid"
    for index, name, used, uuid in _query_rows("nvidia-smi", fields, "--format=csv,noheader,nounits"):
        yield Gpu(index, name, int(used) if used.isdigit() else 0, tuple(pids.get(uuid, ())))


def _query_amd_gpus() -> Iterator[Gpu]:
    cards = json.loads(_run_command("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json"))
    for card, values in cards.items():
        if card.startswith("card"):
            fields = {key.lower(): value for key, value in values.items()}  # the case differs between versions
            used = int(fields["vram total used memory (b)"]) // 2**20
            yield Gpu(card.removeprefix("card"), fields.get("card series", "AMD GPU"), used)


def _query_rows(*command: str) -> Iterator[list[str]]:
    return (row for row in csv.reader(_run_command(*command).splitlines(), skipinitialspace=True) if row)


def _run_command(*command: str, timeout_s: float = TIMEOUT_S) -> str:
    environ = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_s, env=environ).stdout
