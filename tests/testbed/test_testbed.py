"""The test bed meets the assumptions of its tests: separate hosts that can fail like real hosts, and leave nothing
behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from jobc.tests.testbed import USER, Cluster, Host, Shape, wait_for

pytestmark = pytest.mark.engine

NODES = ["node1", "node2", "node3", "node4"]
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=2"


def connects(host: Host, target: Host, within_s: float = 2.0) -> bool:
    """Return whether target's sshd accepts a connection from host."""
    attempt = host.run(
        ["timeout", str(within_s), "bash", "-c", f"exec 3<>/dev/tcp/{target.hostname}/22 && read -u 3 -r"]
    )
    return attempt.returncode == 0


# ---- Slurm ---------------------------------------------------------------------------------------------------------


def test_srun_runs_on_every_node(cluster: Cluster) -> None:
    assert sorted(cluster.login.run("srun -N 4 hostname", check=True).stdout.split()) == NODES


def test_sbatch_runs_and_its_log_is_seen_everywhere(cluster: Cluster) -> None:
    script = "#!/bin/bash\nsrun hostname\necho done\n"
    job = cluster.login.run("sbatch --parsable -N 4 --output=job.log", stdin=script, check=True).stdout.strip()
    log = cluster.login.home / "job.log"
    wait_for(lambda: log.exists() and "done" in log.read_text(), f"job {job}")
    assert sorted(log.read_text().split()) == ["done", *NODES]
    assert cluster.nodes[3].run("cat job.log").stdout == log.read_text()


def test_two_fake_gpus_per_node_can_be_had(cluster: Cluster) -> None:
    command = "srun -N 2 --gres=gpu:2 bash -c 'echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L | wc -l'"
    assert sorted(cluster.login.run(command, check=True).stdout.split()) == ["0,1", "0,1", "2", "2"]
    one = cluster.login.run("srun --gres=gpu:fake:1 bash -c 'echo $CUDA_VISIBLE_DEVICES'", check=True)
    assert one.stdout == "0\n"
    refused = cluster.login.run("srun --gres=gpu:3 true")
    assert refused.returncode != 0 and "not available" in refused.stderr
    assert cluster.login.run("nvidia-smi").returncode == 127


def test_an_urgent_job_takes_the_nodes_of_another_which_is_requeued(cluster: Cluster) -> None:
    sbatch = "sbatch --parsable -N 4 --exclusive --output=/dev/null"
    job = cluster.login.run(f"{sbatch} --wrap 'sleep 60'", check=True).stdout.strip()
    state = ["squeue", "--noheader", "--format=%T", f"--jobs={job}"]
    wait_for(lambda: cluster.login.run(state).stdout == "RUNNING\n", "the first job")
    cluster.login.run(f"{sbatch} --partition=urgent --wrap 'sleep 60'", check=True)
    wait_for(lambda: cluster.login.run(state).stdout == "PENDING\n", "the requeue")
    assert "Restarts=1" in cluster.login.run(["scontrol", "show", "job", job], check=True).stdout


def test_a_partition_limits_the_time(cluster: Cluster) -> None:
    cluster.login.run("sbatch --partition=short --time=10 --output=/dev/null --wrap true", check=True)
    assert cluster.login.run("squeue --noheader --format=%r").stdout.startswith("Partition")


def test_a_user_who_is_not_root_has_slurm_ssh_and_python(cluster: Cluster) -> None:
    command = f"srun -N 2 id -un; {SSH} node1 id -un; {sys.executable} -c 'import torch, jobc' && touch mine && pwd"
    done = cluster.login.run(command, user=USER)
    assert done.stdout.split() == [USER] * 3 + [str(cluster.login.home_of_user)], done.stderr
    assert (cluster.login.home_of_user / "mine").stat().st_uid > 0
    assert cluster.login.run(["ls", cluster.login.home / ".ssh"], user=USER).returncode != 0


# ---- ssh, pdsh, clush ----------------------------------------------------------------------------------------------


def test_ssh_asks_nothing(cluster: Cluster) -> None:
    for target in cluster.nodes:
        assert cluster.login.run(f"{SSH} {target.hostname} hostname", check=True).stdout == f"{target.hostname}\n"
    assert cluster.nodes[0].run(f"{SSH} {cluster.nodes[1].address} hostname", check=True).stdout == "node2\n"
    assert cluster.login.run(f"{SSH} node9 hostname").returncode == 255


@pytest.mark.parametrize("client", ["pdsh -R ssh -S", "clush -S"])
def test_a_parallel_shell_gives_output_and_the_worst_exit_code(cluster: Cluster, client: str) -> None:
    result = cluster.login.run(f"{client} -w node[1-4] 'hostname; [[ $HOSTNAME != node3 ]] || exit 7'")
    assert sorted(line for line in result.stdout.splitlines()) == [f"{name}: {name}" for name in NODES]
    assert result.returncode == 7


# ---- what a host has of its own, and what not ----------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/run", "/var/spool"])
def test_a_host_has_its_own(cluster: Cluster, folder: str) -> None:
    cluster.nodes[0].run(f"echo mine >{folder}/mark", check=True)
    for other in (cluster.nodes[1], cluster.login):
        assert other.run(f"ls {folder}/mark").returncode != 0
    assert not Path(folder, "mark").exists()
    if folder in ("/tmp", "/var/spool"):
        assert cluster.nodes[0].outside(f"{folder}/mark").read_text() == "mine\n"


def test_a_host_sees_its_own_processes_and_network(cluster: Cluster) -> None:
    seen = cluster.nodes[0].run("ps -e -o comm=; ls /sys/class/net; hostname; ip route", check=True).stdout.split("\n")
    assert {"slurmd", "sshd", "eth0", "lo", "node1"} <= set(seen)
    assert "slurmctld" not in seen
    assert not any(line.startswith("default") for line in seen), "a way out of the test bed"


def test_the_shared_folder_and_tmp_path_are_one_for_all(cluster: Cluster, tmp_path: Path) -> None:
    for folder in (cluster.shared, tmp_path):
        for host in cluster.hosts:
            host.run(f"hostname >>{folder}/names", check=True)
        assert cluster.login.outside(folder / "names").read_text().split() == ["login", *NODES]


def test_without_a_shared_file_system_each_host_has_its_own(make_cluster: Callable[[Shape], Cluster]) -> None:
    cluster = make_cluster(Shape(nodes=1, gpus_per_node=0, shared=False))
    for host in cluster.hosts:
        host.run(f"hostname >>{cluster.shared}/names && cp {cluster.shared}/names .", check=True)
        assert host.outside(cluster.shared / "names").read_text() == f"{host.hostname}\n"
    assert cluster.login.run(f"{SSH} node1 cat names", check=True).stdout == "node1\n"


def test_the_python_of_the_tests_runs_on_every_node(cluster: Cluster) -> None:
    program = "import torch, jobc, os; print(os.uname().nodename)"
    assert cluster.nodes[2].run([sys.executable, "-c", program], check=True).stdout == "node3\n"


def test_nothing_of_the_callers_environment_comes_along(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBC_CANARY", "1")
    assert "CANARY" not in cluster.login.run("srun env", check=True).stdout
    assert "CANARY=2" in cluster.login.run("srun env", env={"CANARY": "2"}, check=True).stdout


def test_a_console_is_a_session_of_its_own(cluster: Cluster) -> None:
    ids = cluster.login.run("ps -o pid=,pgid=,sid= -p $$", check=True).stdout.split()
    assert len(set(ids)) == 1 and int(ids[0]) > 1


def test_a_signal_reaches_the_process_on_the_host(cluster: Cluster) -> None:
    process = cluster.nodes[0].popen("trap 'exit 5' TERM; sleep 1234 & echo $! >/tmp/pid; wait")
    wait_for(lambda: "node1" in cluster.processes("^sleep 1234"), "the process")
    process.terminate()
    assert process.wait(timeout=60) == 5
    ((name, seen),) = cluster.processes("^sleep 1234").items()
    os.kill(seen[0].pid, signal.SIGKILL)
    assert name == "node1" and len(seen) == 1
    assert cluster.nodes[0].outside("/tmp/pid").read_text() == f"{seen[0].own_pid}\n"


# ---- faults --------------------------------------------------------------------------------------------------------


def test_a_cut_link_silences_a_host_and_a_short_cut_is_survived(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    session = cluster.login.popen(f"{SSH} node1 'while sleep 0.1; do echo .; done'", stdout=subprocess.PIPE)
    assert session.stdout is not None and session.stdout.readline() == ".\n"
    node.cut_link()
    assert not connects(cluster.login, node, 1) and not connects(cluster.nodes[1], node, 1)
    assert not connects(node, cluster.login, 1)
    assert connects(cluster.login, cluster.nodes[1])
    node.restore_link()
    assert connects(cluster.login, node)
    for _ in range(30):  # more than the second or so that was cut, so new ones too
        assert session.stdout.readline() == ".\n"
    session.kill()


def test_delay_and_loss(cluster: Cluster) -> None:
    node = cluster.nodes[1]
    whole = "head -c 20000000 /dev/urandom >/tmp/bytes; sha256sum </tmp/bytes"
    digest = node.run(whole, check=True).stdout
    node.delay(50)
    begin = time.monotonic()
    assert connects(cluster.login, node)
    assert time.monotonic() - begin >= 0.2, "ARP, and the handshake, then sshd's first line: each a round trip of 0.1 s"
    node.delay(1, loss=0.01)
    assert cluster.login.run(f"{SSH} node2 cat /tmp/bytes | sha256sum", check=True).stdout == digest
    node.delay(0, loss=1.0)
    assert not connects(cluster.login, node, 1)
    node.delay(0)
    assert connects(cluster.login, node)


def test_a_power_off_ends_all_at_once_and_sends_no_packet(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    node.run("echo kept >/tmp/kept; echo lost >/dev/shm/lost; setsid sleep 4321 >/dev/null 2>&1 &", check=True)
    session = cluster.login.popen(f"{SSH} node3 sleep 4321")
    wait_for(lambda: len(cluster.processes("^sleep 4321").get("node3", ())) == 2, "both processes")
    pids = [seen.pid for seen in node.processes()]
    node.power_off()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not connects(cluster.login, node, 1)
    assert session.poll() is None, "the peer was told"
    node.power_on()
    assert node.run("cat /tmp/kept; ls /dev/shm/lost").stdout == "kept\n"
    session.kill()
    cluster.wait_idle()


@pytest.mark.slow
def test_slurm_requeues_the_job_of_a_lost_node_onto_the_spare(make_cluster: Callable[[Shape], Cluster]) -> None:
    cluster = make_cluster(Shape(nodes=3, slurm={"SlurmdTimeout": "3", "MessageTimeout": "2"}))
    script = (
        "#!/bin/bash\necho $SLURM_RESTART_COUNT $SLURM_JOB_NODELIST >>names\nsrun sleep ${SLURM_RESTART_COUNT:-99}\n"
    )
    cluster.login.run("sbatch -N 2 --requeue --open-mode=append", stdin=script, check=True)
    names = cluster.login.home / "names"
    wait_for(lambda: "node2" in cluster.processes("^.*/?sleep 99"), "the job on node2")
    cluster.nodes[1].power_off()
    wait_for(lambda: len(names.read_text().splitlines()) == 2, "the second start")
    assert names.read_text().split() == ["node[1-2]", "1", "node[1,3]"]
    assert cluster.states()["node2"] == "down*"


# ---- the end -------------------------------------------------------------------------------------------------------

OWNER = """
import sys
from pathlib import Path
from jobc.tests.testbed import Cluster, Shape
cluster = Cluster(Path(sys.argv[1]), Shape(nodes=2))
cluster.login.popen("srun -N 2 sleep 999")
cluster.nodes[0].popen("setsid --fork sleep 999")
cluster.nodes[1].delay(1)
cluster.nodes[1].cut_link()
print("up", flush=True)
sys.stdin.readline()
if sys.argv[2] == "raises":
    raise SystemExit(3)
cluster.close()
"""


def descendants(pid: int) -> set[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid}.union(*(descendants(int(child)) for child in children))


def namespaces(pids: Iterable[int | str]) -> set[str]:
    """Return the namespaces of those processes that still exist."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= {os.readlink(link) for link in Path(f"/proc/{pid}/ns").iterdir()}
    return found


@pytest.mark.parametrize("end", ["closes", "raises", "killed"])
def test_nothing_is_left_however_the_owner_ends(testbed: None, tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path / "rack"), end]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None and owner.stdout.readline() == "up\n"
    pids = descendants(owner.pid)
    theirs = namespaces(pids) - namespaces([os.getpid()])
    known = [
        path.name for path in Path("/proc").glob("[0-9]*")
    ]  # a test bed made later may get the numbers of this one
    assert len(pids) > 20 and len(theirs) > 15
    if end == "killed":
        owner.kill()
    owner.communicate("go on\n" if end != "killed" else None)
    assert owner.returncode == {"closes": 0, "raises": 3, "killed": -signal.SIGKILL}[end]
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the processes to end", 10)
    assert not theirs & namespaces(known)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not [name for name in os.listdir("/sys/class/net") if name.startswith(("port-", "near-", "far-"))]
