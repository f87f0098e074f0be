"""Bad circumstances (folders, disks, kills, plugins) also cause one clear message, and nothing is lost."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from jobc.compiler.cli import main
from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.emit import artifact_dir
from jobc.compiler.emit.artifact_dir import read_job
from jobc.compiler.emit.folder_lock import lock_folder

from ..diagnosed import Jobc, codes, write

# ---- the artifact directory -----------------------------------------------------------------------------------------

TARGET = Path("artifacts/job/local")


def whole(target: Path = TARGET) -> bool:
    """Nothing is missing or changed, and nothing temporary lies beside it."""
    return main(["verify", str(target)]) == 0 and [p.name for p in target.parent.iterdir()] == [target.name]


def test_a_folder_of_somebody_else_is_left_alone_even_with_force(jobc: Jobc) -> None:
    write(f"{TARGET}/notes.txt", "mine")
    for words in ([], ["--force"]):
        status, printed = jobc(*words)
        assert (status, codes(printed)) == (1, ["JC5001"])
    assert [p.name for p in TARGET.iterdir()] == ["notes.txt"]


def test_a_link_as_target_is_left_alone(jobc: Jobc) -> None:
    assert jobc("--out", "elsewhere")[0] == 0
    TARGET.parent.mkdir(parents=True)
    TARGET.symlink_to(Path("elsewhere/job/local").absolute())
    status, printed = jobc("seed=1")
    assert (status, codes(printed)) == (1, ["JC5001"])
    assert TARGET.is_symlink() and whole(Path("elsewhere/job/local"))


def test_hand_edits_are_kept_without_force_and_replaced_with_it(jobc: Jobc) -> None:
    jobc()
    script = TARGET / "launch.sh"
    lines = script.read_text().splitlines(keepends=True)
    script.write_text("".join([*lines[:3], "echo mine\n", *lines[3:]]))
    write(f"{TARGET}/notes.txt", "mine")
    status, printed = jobc()
    assert (status, codes(printed)) == (1, ["JC5002"])
    assert "launch.sh line 4" in printed and "notes.txt" not in printed and "--force" in printed
    assert "echo mine" in script.read_text()
    assert jobc("--force")[0] == 0
    assert "echo mine" not in script.read_text()
    assert (TARGET / "notes.txt").read_text() == "mine"


def test_files_beside_those_of_jobc_are_kept(jobc: Jobc) -> None:
    jobc()
    write(f"{TARGET}/mine/notes.txt", "mine")
    assert jobc("seed=1")[0] == 0
    assert (TARGET / "mine/notes.txt").read_text() == "mine"


DAMAGED = ["{", "", "[]", '{"checksums": {"launch.sh": {}}}', "[" * 200_000, r'{"checksums": {"\ud800": {}}}']


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:30])
def test_a_damaged_job_file_is_reported_and_force_repairs_it(text: str, jobc: Jobc) -> None:
    jobc()
    write(f"{TARGET}/notes.txt", "mine")
    write(f"{TARGET}/.jobc/job.json", text)
    for words in (["verify", str(TARGET)], ["diff", str(TARGET)], []):
        status, printed = jobc(*words)
        assert status != 0 and codes(printed) == ["JC5011"], printed
        assert f"{TARGET}/.jobc/job.json is damaged" in printed and "--force" in printed
    assert jobc("--force")[0] == 0
    assert (TARGET / "notes.txt").read_text() == "mine"
    (TARGET / "notes.txt").unlink()
    assert whole()


NO_ENTRY = {"sha256": "0"}, {"sha256": 0, "executable": False}, {"sha256": "0", "executable": "no"}
PATHS = "\ud800", "a\0", "../outside", "/etc/passwd", "", "a" * 256
EDITS: list[dict[str, object]] = [
    *({key: None} for key in ("place", "sweep", "digest", "versions", "request", "inputs", "checksums")),
    *({"versions": value} for value in ({}, {"jobc": 1}, {"jobc": "1", "plugin": None})),
    *({"inputs": value} for value in ({"file:\ud800": "0"}, {"file:hosts": 0})),
    *({"checksums": {path: {"sha256": "0", "executable": False}}} for path in PATHS),
    *({"checksums": {"launch.sh": entry}} for entry in NO_ENTRY),
]
REQUESTS: list[dict[str, object]] = [
    *({"words": value} for value in (None, 5, "name=x", [1, None])),
    *({"command": value} for value in (7, "x", ["\ud800"])),
    *({"config_name": 5}, {"config_name": None}, {"strict": "x"}, {"strict": None}),
]


def test_each_value_of_a_job_file_is_one_that_jobc_may_have_written(jobc: Jobc) -> None:
    jobc()
    sound = read_job(TARGET)
    request = sound["request"]
    requests = [{key: request[key] for key in request if key != gone} for gone in request]
    requests += [{**request, **edit} for edit in REQUESTS]
    for tree in (*({**sound, **edit} for edit in EDITS), *({**sound, "request": edited} for edited in requests)):
        write(f"{TARGET}/.jobc/job.json", json.dumps(tree))
        with pytest.raises(CompileError, match="JC5011"):
            read_job(TARGET)


def test_a_folder_without_its_job_file_is_said_to_have_lost_it(jobc: Jobc) -> None:
    jobc()
    assert f"hint: jobc verify {TARGET}\n" in jobc("verify", f"{TARGET}/.jobc")[1]
    (TARGET / ".jobc/job.json").unlink()
    for words in (["verify"], ["diff"], ["status"]):
        status, printed = jobc(*words, str(TARGET))
        assert status != 0 and codes(printed) == ["JC5004"], printed
        assert "the folder's .jobc/job.json" in printed and "is missing" in printed
        assert (
            "hint: move the folder elsewhere and compile the job again; its spec.yaml shows what the job was" in printed
        )
    TARGET.rename("aside")
    assert jobc()[0] == 0 and whole()


def pipe(place: Path) -> None:
    os.mkfifo(place)


def folder(place: Path) -> None:
    write(f"{place}/notes.txt", "mine")


@pytest.mark.parametrize(
    ("path", "make", "because"),
    [
        ("launch.sh", folder, "the path is a folder, but jobc writes a file with this name"),
        ("mine", pipe, "only regular files and symlinks can be kept"),
    ],
)
def test_what_cannot_be_kept_beside_the_files_is_in_the_way(
    path: str, make: Callable[[Path], None], because: str, jobc: Jobc
) -> None:
    jobc()
    place = TARGET / path
    if place.exists():
        place.rename("was")
    make(place)
    status, printed = jobc("--force")
    assert (status, codes(printed)) == (1, ["JC5001"])
    assert f"{place} was not written by jobc" in printed and because in printed and "hint: move it elsewhere" in printed
    place.rename("mine")
    assert jobc("--force")[0] == 0 and whole()


@pytest.mark.parametrize("path", ["artifacts", "artifacts/job", "artifacts/job/local"])
def test_a_file_where_a_folder_should_be_is_left_alone(path: str, jobc: Jobc) -> None:
    write(path, "mine")
    status, printed = jobc()
    assert status == 1 and codes(printed)[0] in ("JC5001", "JC5003")
    assert "--out DIR" in printed and Path(path).read_text() == "mine"


@pytest.fixture
def mounted() -> Iterator[Callable[..., None]]:
    """mount(8) with a clean-up."""
    places: list[str] = []

    def mount(*words: str) -> None:
        subprocess.run(["mount", *words], check=True)
        places.append(words[-1])

    yield mount
    for place in reversed(places):
        subprocess.run(["umount", place], check=False)


def can_mount() -> bool:
    try_it = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return os.geteuid() == 0 and subprocess.run(try_it, capture_output=True, check=False).returncode == 0


MOUNTS = can_mount()


def test_a_read_only_place_is_left_alone(jobc: Jobc, mounted: Callable[..., None]) -> None:
    jobc()
    if MOUNTS:
        mounted("--bind", "artifacts", "artifacts")
        mounted("-o", "remount,ro,bind", "artifacts")
    else:
        TARGET.parent.chmod(0o555)
    try:
        status, printed = jobc("seed=1")
    finally:
        if not MOUNTS:
            TARGET.parent.chmod(0o755)
    assert (status, codes(printed)) == (1, ["JC5003"])
    assert "existing files are unchanged" in printed and whole()


@pytest.mark.parametrize("limit", ["file size", *(["disk"] if MOUNTS else [])])
def test_a_full_disk_leaves_the_old_directory_whole(limit: str, jobc: Jobc, mounted: Callable[..., None]) -> None:
    if limit == "disk":  # it holds this artifact and half of the next one
        jobc("--out", "first")
        size = sum(-(-p.stat().st_size // 4096) * 4 for p in Path("first").rglob("*") if p.is_file())
        Path("artifacts").mkdir()
        mounted("-t", "tmpfs", "-o", f"size={size + size // 2}k", "tmpfs", "artifacts")
    jobc()
    before = (TARGET / "spec.yaml").read_text()
    command = 'ulimit -f 4; exec "$@"' if limit == "file size" else 'exec "$@"'
    done = in_process_of_its_own("seed=1", shell=command)
    assert (done.returncode, codes(done.stderr)) == (1, ["JC5003"]), done.stderr
    assert ("No space left" if limit == "disk" else "File too large") in done.stderr
    assert whole() and (TARGET / "spec.yaml").read_text() == before


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free space, or "),
        (errno.EDQUOT, "remove files until you are within your quota, or "),
        (errno.EACCES, "get permission to write there, or "),
        (errno.ENOTDIR, "move that file elsewhere, or "),
        (errno.EROFS, ""),
    ],
)
def test_the_hint_for_a_failed_write_is_about_its_cause(
    number: int, remedy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: Path) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path))

    monkeypatch.setattr(artifact_dir, "_make_artifacts_folder", fail)
    with pytest.raises(CompileError) as error:
        artifact_dir.write_artifact_dir(tmp_path / TARGET, ())
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.hint == f"{remedy}choose another folder with --out DIR; existing files are unchanged"


@pytest.mark.parametrize(("command", "status"), [(["plan"], 1), (["diff", "nodes=1,2"], 2)])
def test_a_full_disk_behind_the_output_is_named(command: list[str], status: int, jobc: Jobc) -> None:
    done = in_process_of_its_own(*command, shell='exec "$@" >/dev/full')
    assert (done.returncode, codes(done.stderr)) == (status, ["JC1001"])
    assert "No space left on device" in done.stderr and "hint: free space on the output's file system" in done.stderr


def in_process_of_its_own(
    *words: str, shell: str = 'exec "$@"', before: str = "", path: str = ""
) -> subprocess.CompletedProcess[str]:
    """jobc as a program. before: Python run first; path: folder of plugins."""
    start = "from jobc.compiler.cli import main\nsys.exit(main(sys.argv[1:]))"
    program = f"import sys; sys.path.pop(0)\n{dedent(before)}\n{start}"
    import_path = os.pathsep.join(p for p in (path, os.environ.get("PYTHONPATH", "")) if p)
    environment = {**os.environ, "PYTHONPATH": import_path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["bash", "-c", shell, "bash", sys.executable, "-c", program, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


KILLED = """
    import os, signal
    opened = 0
    def watch(event, arguments):
        global opened
        if event == "open" and "/.local." in str(arguments[0]):
            opened += 1
            if opened == {count}:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
"""


@pytest.mark.parametrize("count", [1, 5])
def test_a_compile_killed_while_it_writes_leaves_the_old_directory_whole(count: int, jobc: Jobc) -> None:
    jobc()
    done = in_process_of_its_own("seed=1", before=KILLED.format(count=count))
    assert done.returncode == -9, done.stderr
    assert main(["verify", str(TARGET)]) == 0
    assert len(list(TARGET.parent.iterdir())) == 3, "what the killed compile left, its lock too"
    assert jobc("seed=2")[0] == 0
    assert whole()


@pytest.mark.parametrize("is_there", [True, False])
def test_compiles_of_one_target_at_the_same_time_all_succeed(is_there: bool, jobc: Jobc) -> None:
    jobc()  # imports what the children need
    if not is_there:
        shutil.rmtree(TARGET)
    children = []
    for seed in range(8):
        if (child := os.fork()) == 0:
            os._exit(max(main([f"seed={seed}"]) for _ in range(3)))
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 8
    assert whole()


def test_a_compile_that_another_one_blocks_says_so(jobc: Jobc, monkeypatch: pytest.MonkeyPatch) -> None:
    jobc()
    monkeypatch.setattr("jobc.compiler.emit.folder_lock.LOCK_WAIT_S", 0.1)
    TARGET.parent.chmod(0o755)
    with Path(TARGET.parent, f".{TARGET.name}_lock").open("w") as lock:
        Path(lock.name).chmod(0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, printed = jobc("seed=1")
    assert (status, codes(printed)) == (1, ["JC5003"]) and "has locked it" in printed
    assert jobc("seed=1")[0] == 0 and whole()


def test_a_reader_of_a_lock_file_that_was_left_behind_blocks_no_compile(
    jobc: Jobc, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobc()
    monkeypatch.setattr("jobc.compiler.emit.folder_lock.LOCK_WAIT_S", 0.1)
    TARGET.parent.chmod(0o755)
    lock = Path(TARGET.parent, f".{TARGET.name}_lock")
    lock.touch(0o644)
    with lock.open() as reader:
        fcntl.flock(reader, fcntl.LOCK_EX)
        assert jobc("seed=1")[0] == 0 and whole()


@pytest.mark.parametrize(("folder", "mode"), [(0o755, 0o600), (0o775, 0o640), (0o777, 0o644)])
def test_only_users_who_can_write_to_a_folder_can_open_its_lock_file(tmp_path: Path, folder: int, mode: int) -> None:
    tmp_path.chmod(folder)
    with lock_folder(tmp_path / "local"):
        assert (tmp_path / ".local_lock").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder"])
def test_what_lies_in_the_place_of_the_lock_is_not_written_to(jobc: Jobc, kind: str) -> None:
    jobc()
    lock = Path(TARGET.parent, f".{TARGET.name}_lock")
    target = Path("target").absolute()
    {"symlink": lambda: lock.symlink_to(target), "fifo": lambda: os.mkfifo(lock), "folder": lock.mkdir}[kind]()
    status, printed = jobc("seed=1")
    assert not target.exists()
    assert status == 0 if kind == "fifo" else (status, codes(printed)) == (1, ["JC5003"])


# ---- plugins --------------------------------------------------------------------------------------------------------


def make_plugin(package: str, name: str, module: str) -> str:
    """A package on a path of its own, found without being installed; gives the path."""
    write(f"plugins/{package}/__init__.py", "")
    write(f"plugins/{package}/backend.py", module)
    write(f"plugins/{package}/conf/backend/{name}.yaml", "{}\n")
    write(f"plugins/{package}-1.dist-info/METADATA", f"Name: {package}\nVersion: 1\n")
    write(f"plugins/{package}-1.dist-info/entry_points.txt", f"[jobc.backends]\n{name} = {package}.backend:BACKEND\n")
    return str(Path("plugins").absolute())


@pytest.mark.parametrize("error", ["RuntimeError", "SystemExit"])
def test_a_plugin_that_raises_on_import_does_not_harm_the_others(error: str, jobc: Jobc) -> None:
    path = make_plugin("acme", "acme", f"raise {error}('no licence')")
    assert in_process_of_its_own(path=path).returncode == 0
    listed = in_process_of_its_own("backends", path=path)
    assert "local  (jobc:backends/local)" in listed.stdout and "[JC4003 " in listed.stderr
    used = in_process_of_its_own("backend=acme", path=path)
    assert (used.returncode, codes(used.stderr)) == (1, ["JC4003"])
    assert "no licence" in used.stderr and "Traceback" not in used.stderr


def test_two_plugins_of_one_name_are_both_named(jobc: Jobc) -> None:
    make_plugin("acme", "acme", "BACKEND = None")
    path = make_plugin("other", "acme", "BACKEND = None")
    used = in_process_of_its_own("backend=acme", path=path)
    assert (used.returncode, codes(used.stderr)) == (1, ["JC4002"])
    assert "package acme and package other both provide this backend" in used.stderr


def test_compiling_needs_no_torch(jobc: Jobc) -> None:
    done = in_process_of_its_own("procs=2", before="sys.modules['torch'] = None")
    assert done.returncode == 0, done.stderr


def test_a_missing_home_is_no_mistake(jobc: Jobc, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(os.environ["HOME"])
    assert jobc("check") == (0, "")
