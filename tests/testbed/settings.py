"""A cluster's shape, and the files that its hosts find in /etc: names, keys, Slurm's settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .install import PATH

NETWORK = "10.77.0"
HERE = Path(__file__).resolve().parent
# and where it is kept, in the host's folder; /root because others may not enter it on many machines
PRIVATE = {"/tmp": "tmp", "/var/spool": "spool", "/dev/shm": "", "/root": ""}
USER, UID = "ada", 1815  # an unprivileged user, known to all hosts

# Slurm without slurmdbd has partitions, limits and preemption, but no QOS, accounts or sacct.
PARTITIONS = (
    "PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=60 PriorityTier=1",
    "PartitionName=short Nodes=node1 DefaultTime=1 MaxTime=2 PriorityTier=1",
    "PartitionName=urgent Nodes=ALL DefaultTime=10 MaxTime=60 PriorityTier=10",  # preempts and requeues jobs of main
)


@dataclass(frozen=True)
class Shape:
    """The shape of a cluster.

    nodes: node1, node2, … in addition to the login host, on which slurmctld runs
    gpu_type: as in Slurm's gpu:fake:2; a request for gpu:2 also gets these
    shared: one `shared` folder for all hosts; otherwise, each host has its own at the same path
    slurm: lines that are added to slurm.conf or replace ours, such as {"SlurmdTimeout": "300"}
    partitions: complete lines
    visible: folders below /tmp that every host sees nevertheless; the folders that Python needs are always included
    """

    nodes: int = 4
    gpus_per_node: int = 2
    gpu_type: str = "fake"
    shared: bool = True
    slurm: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = PARTITIONS
    visible: tuple[Path, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return ("login", *(f"node{i}" for i in range(1, self.nodes + 1)))

    def address(self, name: str) -> str:
        return f"{NETWORK}.{10 + self.names.index(name)}"


def write(folder: Path, shape: Shape) -> None:
    """Write all files that host.sh expects in the folder."""
    for name in ("etc/ssh", "etc/slurm", "bin", "log", "munge", "shared/home", f"shared/{USER}"):
        (folder / name).mkdir(parents=True)
    for name in shape.names:
        for kind in ("tmp", "spool", *(() if shape.shared else ("shared/home", f"shared/{USER}"))):
            (folder / "hosts" / name / kind).mkdir(parents=True)
        (folder / "hosts" / name / "tmp").chmod(0o1777)
        (folder / "hosts" / name / "hostname").write_text(f"{name}\n")
    shutil.copy(HERE / "nvidia-smi", folder / "bin")
    (folder / "visible").write_text("".join(f"{path}\n" for path in visible(folder, shape)))
    (folder / "munge" / "key").write_bytes(os.urandom(128))
    (folder / "munge" / "key").chmod(0o400)
    (folder / "munge").chmod(0o700)
    write_names(folder, shape)
    write_ssh(folder, shape)
    write_slurm(folder / "etc" / "slurm", shape)


def visible(folder: Path, shape: Shape) -> list[Path]:
    """Return folders that are inside each host's own folders but must be visible nevertheless; outer ones first."""
    wanted = {Path(sys.prefix), Path(sys.base_prefix), HERE.parents[1], *shape.visible}
    if shape.shared:
        wanted.add(folder / "shared")
    return sorted(path for path in wanted if any(path.is_relative_to(place) for place in PRIVATE))


def write_names(folder: Path, shape: Shape) -> None:
    lines = ["127.0.0.1 localhost", *(f"{shape.address(name)} {name}" for name in shape.names)]
    (folder / "etc" / "hosts").write_text("\n".join(lines) + "\n")
    # No DNS: a name that is not in /etc/hosts fails immediately, and no query leaves the machine.
    (folder / "etc" / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    users = f"root:x:0:0:root:{folder}/shared/home:/bin/bash\n{USER}:x:{UID}:{UID}::{home_of(folder, USER)}:/bin/bash\n"
    (folder / "etc" / "passwd").write_text(users + system_users())
    (folder / "etc" / "group").write_text(Path("/etc/group").read_text() + f"{USER}:x:{UID}:\n")


def home_of(folder: Path, user: str = "root") -> Path:
    return folder / "shared" / ("home" if user == "root" else user)


def system_users() -> str:
    """Return the machine's other users as lines of passwd, because sshd looks for a user of its own."""
    return "".join(line for line in Path("/etc/passwd").read_text().splitlines(True) if not line.startswith("root:"))


def write_ssh(folder: Path, shape: Shape) -> None:
    """Write one host key and one user key, both created for this cluster and known to all of its hosts."""
    ssh = folder / "etc" / "ssh"
    for path in (ssh / "ssh_host_ed25519_key", folder / "id_ed25519"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", str(path)]
        subprocess.run(command, check=True, env={"PATH": PATH})
    host_key = (ssh / "ssh_host_ed25519_key.pub").read_text()
    known = [f"{name},{shape.address(name)} {host_key}" for name in shape.names]
    settings = [
        "HostKey /etc/ssh/ssh_host_ed25519_key",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "UseDNS no",
        "StrictModes no",  # home may be below /tmp, where everyone may write
        "MaxStartups 100",
        "PidFile /run/sshd.pid",
        "Subsystem sftp internal-sftp",
    ]
    (ssh / "sshd_config").write_text("\n".join(settings) + "\n")
    # The default is quantum-resistant, and costs a client five times as much as the rest of a connection.
    (ssh / "ssh_config").write_text("KexAlgorithms curve25519-sha256\n")
    for name in shape.names:
        for user, uid in (("root", 0), (USER, UID)):
            home = home_of(folder if shape.shared else folder / "hosts" / name, user)
            (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
            shutil.copy(folder / "id_ed25519", home / ".ssh")
            shutil.copy(folder / "id_ed25519.pub", home / ".ssh" / "authorized_keys")
            (home / ".ssh" / "known_hosts").write_text("".join(known))
            for path in (home, *home.rglob("*")):
                os.chown(path, uid, uid)


def write_slurm(etc: Path, shape: Shape) -> None:
    settings = {
        "ClusterName": "testbed",
        "SlurmctldHost": "login",
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": "cred_expire=5",  # a requeued job waits for one second more than this; the default is 120
        "CredType": "cred/munge",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/linuxproc",  # no cgroups, because all hosts share one tree of cgroups
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "GresTypes": "gpu",
        "SlurmdParameters": "config_overrides",  # a node declares more than this machine has
        "ReturnToService": "2",
        "SlurmctldTimeout": "10",
        "SlurmdTimeout": "10",
        "KillWait": "3",
        "MessageTimeout": "10",
        "TCPTimeout": "2",
        "JobRequeue": "1",
        "MailProg": "/bin/true",
        "StateSaveLocation": "/var/spool/slurmctld",
        "SlurmdSpoolDir": "/var/spool/slurmd",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": "/run/log/slurmctld.log",
        "SlurmdLogFile": "/run/log/slurmd.%n.log",
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": "/run/log/jobcomp.txt",
        "AccountingStorageType": "accounting_storage/none",
        **shape.slurm,
    }
    names = f"node[1-{shape.nodes}]"
    size = "CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000"
    gres = f" Gres=gpu:{shape.gpu_type}:{shape.gpus_per_node}" if shape.gpus_per_node else ""
    nodes = f"NodeName={names} {size}{gres} State=UNKNOWN"
    lines = [*(f"{key}={value}" for key, value in settings.items()), nodes, *shape.partitions]
    (etc / "slurm.conf").write_text("\n".join(lines) + "\n")
    (etc / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # unused, but slurmd loads one; v2 requires systemd
    if shape.gpus_per_node:
        files = f"/run/nvidia[0-{shape.gpus_per_node - 1}]"
        (etc / "gres.conf").write_text(f"NodeName={names} Name=gpu Type={shape.gpu_type} File={files}\n")
