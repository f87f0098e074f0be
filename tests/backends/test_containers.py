"""Containers on the test bed's hosts: real Docker, and stand-ins for Apptainer and Pyxis that check and run every word.

The image is made of this machine's own bash, tools and Python, so that nothing is fetched.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobc.backends.slurm.engine.job_variables import first_host
from jobc.compiler.frontend.overrides import to_hydra
from jobc.compiler.pipeline.compile import compile_job, write_compiled_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.testbed import Cluster, Host, wait_for
from jobc.tests.testbed.docker import IMAGE, Docker, root_file_system

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("containers")]  # one worker starts Docker on the hosts

STAND_INS = Path(__file__).parent / "stand_ins" / "containers"
SECRET = "s3cret-canary"  # of no account

PROGRAM = """
import json, os, signal, sys, time
from pathlib import Path
seen = {
    "rank": int(os.environ["RANK"]), "uid": os.getuid(), "arguments": sys.argv[2:], "env": os.environ["GREETING"],
    "token": os.environ.get("TOKEN"), "data": Path("/data/x").read_text(), "host": os.uname().nodename,
    "pid": os.getpid(), "folder": os.getcwd(), "home": os.access(os.environ["HOME"], os.W_OK),
    "in_image": Path("/in/the/image").exists(), "perl": Path("/usr/bin/perl").exists(),
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
}
try:
    Path("/data/y").touch()
    seen["writes data"] = True
except OSError:
    seen["writes data"] = False
Path(os.environ["JOBC_RUN_DIR"], f"seen_{os.environ['RANK']}.json").write_text(json.dumps(seen))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("up", flush=True)
time.sleep(float(sys.argv[1]))
"""

HOSTS = ("hosts=node[1-2]", "nodes=2")
WAYS = {
    "local docker": ("backend=local", "container=docker"),
    "ssh docker": ("backend=ssh", *HOSTS, "container=docker"),
    "pdsh docker": ("backend=pdsh", *HOSTS, "container=docker"),
    "local apptainer": ("backend=local", "container=apptainer"),
    "ssh apptainer": ("backend=ssh", *HOSTS, "container=apptainer"),
    "slurm apptainer": ("backend=slurm", "nodes=2", "container=apptainer"),
    "slurm pyxis": ("backend=slurm", "nodes=2", "container=pyxis"),
}
STEPS = ("before", "per_node", "then", "after")
GREETING = 'a, b\'s "$(id)" ${HOME} `x`\\'


@pytest.fixture(scope="module")
def root(testbed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image as a folder."""
    folder = root_file_system(tmp_path_factory.mktemp("image") / "root")
    (folder / "in/the/image").mkdir(parents=True)
    (folder / "etc/environment").write_text("GREETING=of the image\n")
    return folder


@pytest.fixture(scope="module")
def dockers(cluster: Cluster, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Docker]]:
    """A daemon on each of the first two nodes."""
    kept = tmp_path_factory.mktemp("docker")
    running = [Docker(host, root, kept / host.hostname) for host in cluster.nodes[:2]]
    yield running
    for docker in running:
        docker.close()


@pytest.fixture(scope="module", autouse=True)
def _stand_ins(cluster: Cluster) -> Iterator[None]:
    """First on the PATH of every host."""
    for host in cluster.hosts:
        host.run(["mount", "--bind", STAND_INS, "/usr/local/sbin"], check=True)
    yield
    for host in cluster.hosts:
        host.run(["umount", "/usr/local/sbin"], check=True)


@dataclass
class Job:
    """One artifact in a project that all hosts can access; its scripts are called on `host`."""

    host: Host
    project: Path
    artifact: Path

    def __call__(self, verb: str, *words: str, **env: str) -> tuple[int, str]:
        done = self.host.run([str(self.artifact / "jobctl"), verb, *words], cwd=self.project, env=env, timeout_s=120)
        return done.returncode, done.stdout + done.stderr

    @property
    def run(self) -> Path:
        (run,) = (file.parents[1] for file in self.project.glob("runs/*/*/state/run"))
        return run

    def seen(self) -> list[dict[str, object]]:
        return [json.loads(file.read_text()) for file in sorted(self.run.glob("seen_*.json"))]

    def wait_until_up(self, ranks: int) -> None:
        def up() -> bool:
            logs = [*self.run.glob("logs/rank_*.log")] if list(self.project.glob("runs/*/*/state/run")) else []
            return len([log for log in logs if "up\n" in log.read_text()]) == ranks

        wait_for(up, f"{ranks} ranks")


Make = Callable[..., Job]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(cluster: Cluster, root: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Make:
    """make(way, words…): the job, with data to mount; Docker runs where the way needs it."""

    def make(way: str, *words: str, command: tuple[str, ...] = ("program.py", "0", "it's $x", "")) -> Job:
        if "docker" in way:
            request.getfixturevalue("dockers")
        plain = way in ("pdsh docker", "slurm pyxis")  # both split a path at a comma
        project = tmp_path / ("project" if plain else 'my, "project" $x')
        project.mkdir()
        (project / "program.py").write_text(PROGRAM)
        data = tmp_path / "data"
        data.mkdir()
        (data / "x").write_text("some data")
        base = (
            "name=job", "procs=2", "launcher=spawn", "python=image", "lifecycle.grace=5s",
            f"mounts=[{{kind: host, source: {data}, target: /data, read_only: true}}]",
            f"image={IMAGE if 'docker' in way else root}", "env.GREETING=" + to_hydra(GREETING.replace("${", "\\${")),
        )  # fmt: skip
        compiled = compile_job(CompileRequest((*WAYS[way], *base, *words), command))
        host = cluster.nodes[0] if "local" in way else cluster.login
        return Job(host, project, write_compiled_job(compiled, project / "artifacts"))

    return make


def submit(job: Job, way: str, **env: str) -> tuple[int, str]:
    return job("submit", *(["--wait"] if "slurm" in way else []), **env)


def start(job: Job, way: str, **env: str) -> None:
    code, said = job("submit", *([] if "slurm" in way else ["--detach"]), **env)
    assert code == 0, said
    job.wait_until_up(2 if "local" in way else 4)


def test_ranks_and_steps_run_in_the_image_and_see_what_they_should(make: Make, way: str) -> None:
    job = make(way, *(f"{key}='test -e /in/the/image && echo {key} >>../steps'" for key in STEPS))
    code, said = submit(job, way)
    assert code == 0, said
    assert "done (exit 0)" in job("status")[1]
    ranks = job.seen()
    assert [rank["rank"] for rank in ranks] == list(range(2 if "local" in way else 4))
    for rank in ranks:
        expected = {
            "in_image": True, "perl": False, "arguments": ["it's $x", ""], "env": GREETING, "data": "some data",
            "writes data": False, "folder": str(job.run / "code"), "home": True, "uid": 0,
        }  # fmt: skip
        assert {name: rank[name] for name in expected} == expected
    nodes = 1 if "local" in way else 2
    assert len({rank["host"] for rank in ranks}) == nodes
    steps = ["before", *["per_node"] * nodes, *["then"] * len(ranks), "after"]
    assert (job.run / "steps").read_text().splitlines() == steps


def test_an_export_by_hand_loses_to_the_image(cluster: Cluster, root: Path) -> None:
    pyxis = f"--container-image={root} --container-mounts=/tmp:/tmp"
    said = cluster.login.run(f"GREETING=mine srun {pyxis} bash -c 'echo $GREETING'", check=True)
    assert said.stdout == "of the image\n"


def test_stop_ends_the_container_on_every_node(cluster: Cluster, dockers: list[Docker], make: Make, way: str) -> None:
    job = make(way, "secrets.TOKEN=env:TOKEN", command=("program.py", "300"))
    start(job, way, TOKEN=SECRET)
    assert {rank["token"] for rank in job.seen()} == {SECRET}
    shown = "".join(seen.command for found in cluster.processes().values() for seen in found)
    assert "program.py" in shown and SECRET not in shown
    written = [file for file in job.project.rglob("*") if file.is_file() and not file.name.startswith("seen_")]
    assert not [file for file in written if SECRET.encode() in file.read_bytes()]
    code, said = job("stop")
    assert code == 0 and "stopped by jobctl stop" in said, said
    wait_for(lambda: all_ended(cluster, dockers), "an end of all")
    cluster.wait_idle()


def all_ended(cluster: Cluster, dockers: list[Docker]) -> bool:
    left = cluster.processes("program.py|jobctl launch|^docker run|apptainer exec")
    return not left and not [name for docker in dockers for name in docker.containers()]


@pytest.mark.parametrize("way", ["local docker", "local apptainer"])
@pytest.mark.parametrize(("number", "code"), [("TERM", 75), ("INT", 130), ("HUP", 75)])
def test_a_signal_to_submit_reaches_the_ranks(
    cluster: Cluster, dockers: list[Docker], make: Make, way: str, number: str, code: int
) -> None:
    job = make(way, command=("program.py", "300"))
    submitted = job.host.popen([job.artifact / "jobctl", "submit"], cwd=job.project)
    job.wait_until_up(2)
    submitter = next(seen for seen in job.host.processes("^docker run|apptainer exec") if "launch.sh" in seen.command)
    os.kill(submitter.pid, getattr(signal, f"SIG{number}"))
    assert submitted.wait(120) == code
    wait_for(lambda: all_ended(cluster, dockers), "an end of all", 10)


@pytest.mark.parametrize("way", ["local docker", "ssh docker", "local apptainer"])
def test_nothing_outlives_the_process_that_started_the_container(
    cluster: Cluster, dockers: list[Docker], make: Make, way: str
) -> None:
    job = make(way, command=("program.py", "300"))
    start(job, way)
    node = cluster.nodes[0]
    outside = next(seen for seen in node.processes("^docker run|apptainer exec") if "launch.sh" in seen.command)
    os.kill(outside.pid, signal.SIGKILL)
    wait_for(lambda: all_ended(cluster, dockers), "an end of all")


def test_stop_now_and_a_supervisor_that_is_killed_leave_no_container(
    cluster: Cluster, dockers: list[Docker], make: Make
) -> None:
    job = make("local docker", command=("program.py", "300"))
    start(job, "local docker")
    assert dockers[0].containers()
    code, said = job("stop", "--now")
    assert code == 0, said
    wait_for(lambda: all_ended(cluster, dockers), "an end of all")
    assert job("submit", "--resume", job.run.name, "--detach")[0] == 0
    supervisor = (job.run / "state" / "node_00").read_text().split("pid=")[1].split()[0]
    job.host.run(["kill", "-KILL", supervisor], check=True)
    wait_for(lambda: all_ended(cluster, dockers), "an end of all")
    assert "failed: its supervisor was killed" in job("status")[1]


def test_files_belong_to_the_user_who_submits(dockers: list[Docker], make: Make, tmp_path: Path) -> None:
    job = make("local docker", "shm=64MiB")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    job.host.run(["chown", "-R", "1234:1234", job.project], check=True)
    job.host.run("chmod 666 /run/docker.sock", check=True)
    user = ["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "env", f"HOME={job.project}/none"]
    done = job.host.run([*user, job.artifact / "jobctl", "submit"], cwd=job.project)
    assert done.returncode == 0, done.stderr
    for rank in job.seen():
        assert (rank["uid"], rank["home"], rank["shm"]) == (1234, True, 64 * 1024**2)
    assert {file.stat().st_uid for file in job.run.rglob("*")} == {1234}


@pytest.mark.parametrize("way", ["local docker", "ssh docker", "slurm apptainer", "slurm pyxis"])
def test_a_shell_is_in_the_container(make: Make, way: str) -> None:
    job = make(way, "container.workdir=/in/the/image", command=("sleep", "0"))
    assert submit(job, way)[0] == 0
    command = 'pwd; echo "$GREETING"; type -P perl || echo none; exit 7'
    code, said = job("shell", "--", "bash", "-c", command)
    assert (code, said.splitlines()[:3]) == (7, ["/in/the/image", GREETING, "none"])  # then what srun says


@pytest.mark.parametrize("way", ["ssh docker", "local apptainer", "slurm pyxis"])
def test_preflight_checks_inside(make: Make, way: str) -> None:
    code, said = make(way)("preflight")
    assert code == 0, said
    assert ("ok    python 3" if "local" in way else "ok    node[1-2]  python 3") in said, said


def test_preflight_goes_on_inside_after_what_is_missing_outside(dockers: list[Docker], make: Make) -> None:
    code, said = make("local docker", "secrets.TOKEN=env:TOKEN")("preflight")
    assert code == 1 and "FAIL  secret TOKEN" in said and "ok    python 3" in said, said


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("image=bare:1", "needs bash and Python 3.10 or newer in the image"),
        ("image=shell:1", "python3 not found on node1"),
        ("image=localhost/none:1", "cannot pull the image localhost/none:1 on node1"),
        ("storage.data=/no/such", "/no/such does not exist on node1"),
        ("shm=64MiB container.options=['--shm-size=32m']", "/dev/shm has 32 MiB on node1, required: 64 MiB"),
        ("container.workdir=/no/such", "container.workdir does not exist in the container"),
        ("container.options=[--no-such-option]", "unknown flag: --no-such-option"),
    ],
)
def test_what_is_missing_is_one_clear_line(
    cluster: Cluster, dockers: list[Docker], make: Make, lesser_images: None, word: str, reason: str
) -> None:
    job = make("local docker", *word.split(" "))
    for verb in ("preflight", "submit"):
        code, said = job(verb)
        assert code == (1 if verb == "preflight" else 65), said
        assert reason in said, said
    assert all_ended(cluster, dockers)


@pytest.fixture(scope="module")
def lesser_images(dockers: list[Docker], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("lesser")
    dockers[0].add("bare:1", root_file_system(folder / "bare", tools="cat", python=False))
    dockers[0].add("shell:1", root_file_system(folder / "shell", python=False))


def test_a_host_without_docker_says_so(cluster: Cluster, dockers: list[Docker], make: Make) -> None:
    job = make("ssh docker", "hosts=node[1-3]", "nodes=3")
    code, said = job("preflight")
    assert code == 1 and "FAIL  node3      no answer: docker does not respond on node3: Cannot connect" in said, said
    code, said = job("submit")
    assert code == 65 and "not all of the 3 nodes could be started" in said, said
    wait_for(lambda: all_ended(cluster, dockers), "an end of all")


LISTS = ("a", "a,b", "node[3-4]", "n[07-09,12],x1", "login,node[1-2]", "gpu-a[1,5-6]", "r[1-2]n[3-4]")


@pytest.mark.parametrize("hosts", LISTS)
def test_the_head_is_the_first_host_of_slurms_list(cluster: Cluster, hosts: str) -> None:
    """No image has scontrol, so jobc reads the list itself."""
    said = cluster.login.run(f"scontrol show hostnames '{hosts}' | head -n 1", check=True).stdout
    assert said == first_host(hosts) + "\n"
