"""preflight: the table of what nodes say, and checks that no test bed can fake: clock, drivers, limits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jobc.runtime.engines.check_table import Table, fold_node_names
from jobc.runtime.preflight import network_test
from jobc.runtime.preflight.code_digest import compute_code_digest
from jobc.runtime.preflight.node_checks import CheckResult, SameOnAllNodes, check_gpus, result_as_line
from jobc.runtime.preflight.peer_checks import check_clock, check_head, check_memlock
from jobc.runtime.system import gpus
from jobc.runtime.system.gpus import Gpu, is_gpu_of_type
from tests.packed import write_program

MIB = 2**20


def table(nodes: list[str], said: dict[str, list[str]]) -> tuple[int, list[str]]:
    """The exit code and the lines of the table for what nodes say."""
    made = Table(nodes)
    for node, of_node in said.items():
        for line in of_node:
            made.add(f"{node}: {line}")
    good, lines = made.lines()
    return (0 if good else 1), lines


def says(*found: CheckResult | SameOnAllNodes) -> list[str]:
    return [*map(result_as_line, found), "end"]


def test_equal_nodes_are_one_row_and_the_worst_is_first() -> None:
    nodes = [f"gpu{n:02}" for n in range(1, 65)]
    said = {
        node: says(CheckResult(True, "cores", "96 CPU cores"), SameOnAllNodes("torch", "torch 2.13.0", "mend it"))
        for node in nodes
    }
    said["gpu07"] = said["gpu40"] = says(
        CheckResult(False, "cores", "1 CPU core", "ask for more"), SameOnAllNodes("torch", "torch 2.12.0", "mend it")
    )
    del said["gpu64"]
    code, lines = table(nodes, said)
    assert code == 1
    assert lines[0].split(maxsplit=2) == ["FAIL", "gpu64", "no answer"]
    assert lines[2].split(maxsplit=2) == ["FAIL", "gpu[07,40]", "1 CPU core"]
    assert lines[3].strip() == "hint: ask for more"
    assert lines[4].split(maxsplit=2) == [
        "FAIL",
        "gpu[07,40]",
        "torch 2.12.0, but torch 2.13.0 on gpu[01-06,08-39,41-63]",
    ]
    assert lines[6].split(maxsplit=2) == ["ok", "gpu[01-06,08-39,41-63]", "96 CPU cores"]
    assert lines[7:] == ["not ready: 3 of 4 checks failed"]


def test_of_numbers_the_least_is_shown() -> None:
    said = {f"n{i}": says(CheckResult(True, "space", f"{i} GiB free", "", i)) for i in (9, 10, 11)}
    assert table(["n9", "n10", "n11"], said) == (
        0, ["ok    n[9-11]  9 GiB free, the minimum is on n9", "ready: 3 nodes"]
    )  # fmt: skip


def test_the_value_of_most_nodes_is_right() -> None:
    values = {"a": "code 1", "b": "code 2", "c": "code 2"}
    code, lines = table(
        list(values), {node: says(SameOnAllNodes("code", value, "bring it")) for node, value in values.items()}
    )
    assert (code, lines[0]) == (1, "FAIL  a  code 1, but code 2 on b,c")
    same = {node: says(SameOnAllNodes("code", "code 1", "bring it")) for node in values}
    assert table(list(values), same) == (0, ["ok    a,b,c  the same on all nodes: code 1", "ready: 3 nodes"])


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("me@n1: Permission denied (publickey).", "ssh-copy-id me@n1"),
        ("Host key verification failed.", "ssh-keyscan n1"),
        ("ssh: connect to host n1 port 22: No route to host", "check that the host is up"),
        ("bash: line 1: exec: bash: not found", "ssh n1 true"),
    ],
)
def test_a_host_that_is_not_reached_says_why_and_what_to_do(line: str, hint: str) -> None:
    code, lines = table(["n1", "n2"], {"n1": [line], "n2": says(CheckResult(True, "cores", "2 CPU cores"))})
    assert code == 1 and lines[0] == f"FAIL  n1  no answer: {line}" and hint in lines[1]


def test_an_end_by_node_sh_is_told_with_its_hint() -> None:
    said = [
        "module: loaded cuda",
        "error: python not found: python3.13",
        "  hint: set python.interpreter names another one",
    ]
    code, lines = table(["10.0.0.7", "10.0.0.8"], {"10.0.0.7": said})
    assert code == 1
    assert lines[:2] == [
        "FAIL  10.0.0.7  no answer: python not found: python3.13",
        "      hint: set python.interpreter names another one",
    ]


def test_names_given_as_user_at_host_and_strange_lines_are_understood() -> None:
    said = {"n1": ["", "a: b: c", *says(CheckResult(True, "x", "fine"))], "clush": ["n1: exited with exit code 1"]}
    assert table(["me@n1"], said) == (0, ["ok    fine", "ready: 1 node"])


@pytest.mark.parametrize(
    ("names", "list_of_nodes"),
    [
        ("n9 n10 n11", "n[9-11]"),
        ("n09 n10 n11", "n[09-11]"),
        ("n9 n010", "n[9,010]"),
        ("gpu1.site gpu2.site login", "gpu[1-2].site,login"),
        ("10.0.0.7 10.0.0.8 10.0.1.9", "10.0.0.[7-8],10.0.1.9"),
        ("0 1 2", "[0-2]"),
        ("a99999999999999999999 a100000000000000000000", "a[99999999999999999999,100000000000000000000]"),
        (
            " ".join(f"host-{n}-x" for n in "abcdefghij"),
            "host-a-x,host-b-x,host-c-x,host-d-x,host-e-x,host-f-x and 4 more",
        ),
    ],
)
def test_a_list_of_nodes_is_folded(names: str, list_of_nodes: str) -> None:
    assert fold_node_names(names.split()) == list_of_nodes


def test_a_node_cannot_write_to_the_terminal_through_the_table(tmp_path: Path) -> None:
    lines = b"n1: ok\tx\t\x1b]0;title\x07fine\xff\t\t\n\nn1: end\n"
    command = [sys.executable, "-I", "-S", write_program(tmp_path), "check_table", "n1"]
    done = subprocess.run(command, input=lines, capture_output=True, check=True)
    assert done.stdout.decode() == "ok    ]0;titlefine\ufffd\nready: 1 node\n"


def test_a_clock_that_is_off_is_refused_and_told_how_far(tmp_path: Path) -> None:
    meeting_of_two = network_test.serve_network_test(tmp_path, 2, 0, clock=lambda: 1000.0)
    next(meeting_of_two)
    seen: list[network_test.NetworkTestResult] = []
    other = threading.Thread(
        target=lambda: (
            seen.append(network_test.run_network_test(tmp_path, 1, "127.0.0.1")),
            network_test.report_network_test_done(tmp_path, 1),
        )
    )
    other.start()
    port = int((tmp_path / "head").read_text().split("=")[1])
    ahead = network_test.clock_difference("127.0.0.1", port, clock=lambda: 1007.5)
    assert list(meeting_of_two) == []
    other.join()
    assert ahead == (-7.5, 0.0)
    assert seen[0][:3] == (None, None, None) and seen[0].clock_s is not None
    assert check_clock(*ahead)[:3] == (False, "clock", "clock 7.5 s ahead of node 0's")
    assert check_clock(0.4, 0.1).good and check_clock(2.5, 1.0).good and not check_clock(2.5, 0.1).good


def test_a_folder_that_node_0_does_not_share_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_test, "MEET_S", 0.3)
    storage = network_test.run_network_test(tmp_path / "other", 1, "127.0.0.1").storage
    assert storage is not None and "found no files from node 0" in storage and "different storage" in storage


def test_free_gpus_count_not_those_in_use() -> None:
    free, busy = Gpu("0", "H100", 3), Gpu("1", "H100", 40000, ("123",))
    assert [found.good for found in check_gpus([free, free], 2) if isinstance(found, CheckResult)] == [True]
    (check, same) = check_gpus([free, busy], 2)
    assert isinstance(check, CheckResult) and not check.good and isinstance(same, SameOnAllNodes)
    assert check.text == "free GPUs: 1 of 2, required: 2: GPU 1 has 40000 MiB in use by process 123"
    assert [found.good for found in check_gpus([free, busy], 1) if isinstance(found, CheckResult)] == [True]
    (check, same) = check_gpus([free], 2)
    assert isinstance(check, CheckResult) and check.text == "GPUs visible to the driver: 1, required: 2"
    assert list(check_gpus(None, 2)) == []


NVIDIA_SMI = """#!/bin/sh
case $1 in
  --query-compute-apps*) printf 'GPU-b, 123\\n' ;;
  *) printf '0, NVIDIA H100, 4, GPU-a\\n1, NVIDIA H100, 70000, GPU-b\\n' ;;
esac
"""
ROCM_SMI = """#!/bin/sh
echo '{"card0": {"Card Series": "MI300X", "VRAM Total Memory (B)": "200", "VRAM Total Used Memory (B)": "10485760"},
       "system": {"Driver version": "6.7"}}'
"""


@pytest.mark.parametrize(("program", "text"), [("nvidia-smi", NVIDIA_SMI), ("rocm-smi", ROCM_SMI)])
def test_what_the_drivers_programs_say_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, text: str
) -> None:
    (tmp_path / program).write_text(text)
    (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if program == "nvidia-smi":
        assert gpus.list_gpus({}) == [Gpu("0", "NVIDIA H100", 4), Gpu("1", "NVIDIA H100", 70000, ("123",))]
        assert gpus.list_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == [Gpu("1", "NVIDIA H100", 70000, ("123",))]
    else:
        assert gpus.list_gpus({}) == [Gpu("0", "MI300X", 10)]


@pytest.mark.parametrize(
    ("name", "types", "others"),
    [
        (
            "NVIDIA H100 80GB HBM3",
            ("H100", "h100", "H100-80GB", "NVIDIA-H100-80GB-HBM3"),
            ("H10", "H200", "A100", "GH100"),
        ),
        ("NVIDIA A100-SXM4-80GB", ("A100", "A100-80GB"), ("A10", "A100-40GB")),
        ("NVIDIA L40S", ("L40S",), ("L4", "L40", "L40-48GB")),
        ("NVIDIA H100 NVL", ("H100", "H100-NVL"), ("H100-PCIe",)),
        ("NVIDIA GeForce RTX 3090", ("RTX3090", "rtx-3090"), ("RTX30", "RTX3090Ti")),
        ("AMD Instinct MI300X", ("MI300X",), ("MI30", "MI300", "MI250")),
        ("AMD_Instinct_MI355_OAM", ("MI355X",), ("MI355", "MI35")),
    ],
)
def test_a_type_of_gpu_is_found_in_the_name_that_the_driver_gives(
    name: str, types: tuple[str, ...], others: tuple[str, ...]
) -> None:
    assert all(is_gpu_of_type(name, wanted) for wanted in types)
    assert not any(is_gpu_of_type(name, wanted) for wanted in others)
    two = [Gpu("0", name, 0), Gpu("1", "Tesla T4", 0)]
    assert not gpus.compare_gpu_types(two, types[0])[0] and not gpus.compare_gpu_types(None, types[0])[0]


def test_memory_that_may_be_locked_must_be_enough() -> None:
    assert check_memlock(-1).good and check_memlock(2048 * MIB).good
    assert not check_memlock(8 * MIB).good and "8192 KiB" in check_memlock(8 * MIB).text


def test_the_digest_of_code_knows_contents_names_and_modes_but_no_rubbish(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    first = compute_code_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("x")
    assert compute_code_digest(tmp_path) == first and first.endswith("(1 files)")
    digests = {first}
    for change in (lambda f: f.write_text("2"), lambda f: f.chmod(0o755), lambda f: f.rename(tmp_path / "b.py")):
        change(tmp_path / "a.py")
        digests.add(compute_code_digest(tmp_path))
    os.symlink("/nowhere", tmp_path / "dangling")
    assert len({*digests, compute_code_digest(tmp_path)}) == 5


def test_a_node_0_that_refuses_is_there_and_one_without_a_name_is_not() -> None:
    assert check_head("127.0.0.1").good
    assert "does not resolve" in check_head("node-0.invalid").text


@pytest.mark.parametrize(
    ("environ", "files", "seen"),
    [
        ({}, [], 0),
        ({}, ["nvidia0"], None),  # nvidia-smi is missing
        ({}, ["kfd"], None),
        ({}, ["nvidiactl"], 0),
        ({"CUDA_VISIBLE_DEVICES": ""}, ["nvidia0"], 0),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ["nvidia0"], 0),
        ({"CUDA_VISIBLE_DEVICES": "MIG-8a, MIG-8b"}, ["nvidia0"], 2),
        ({"HIP_VISIBLE_DEVICES": "0,1"}, [], 2),
    ],
)
def test_the_gpus_of_this_machine_are_counted_without_torch(
    environ: dict[str, str], files: list[str], seen: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in files:
        (tmp_path / name).touch()
    assert gpus.usable_gpu_count(environ, tmp_path) == seen


def test_the_parts_of_a_gpu_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = "GPU 0: H100 (UUID: GPU-a)\\n  MIG 3g.40gb Device 0: (UUID: MIG-a)\\n  MIG 3g.40gb Device 1: (UUID: MIG-b)"
    one = f"case $1 in -L) printf '{parts}\\n' ;; --query-gpu*) echo '0, NVIDIA H100, 4, GPU-a' ;; esac"
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{one}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert gpus.usable_gpu_count({}, tmp_path / "dev") == 2


def test_too_few_gpus_lead_to_what_this_machine_can_do() -> None:
    assert gpus.missing_gpus_reason(None, 2) == gpus.missing_gpus_reason(2, 2) == ""
    title, hint = gpus.missing_gpus_reason(0, 2).split("\n")
    assert title.endswith(" has no GPU that this shell can use, required: 2")
    assert hint.startswith("gpus=0 procs=2 runs 2 processes on the CPU; ")
    title, hint = gpus.missing_gpus_reason(1, 4).split("\n")
    assert " has 1 GPU that " in title and hint.startswith("gpus=1; gpus=0 procs=4 ")
