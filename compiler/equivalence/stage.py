"""Runs emitted scripts with bash, where nothing else happens: every other command only records how it was called.

Executing says what bash makes of a script: quoting, arrays, defaults, conditions. A parser would have to be a second
bash to say the same of a file that somebody has edited. PATH has filters such as sed and grep; whatever else a script
calls is noted (stage.sh), the runtime library as well, so that no engine, no interpreter and no file is touched.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .environment import environment
from .reading import ARTIFACT, PROJECT, RUN, Call, Ended, Files, Unreadable

FILTERS = (
    "awk", "basename", "cat", "cut", "date", "dirname", "env", "find", "grep", "head", "id", "mawk", "gawk", "mktemp",
    "paste", "printf", "realpath", "sed", "setsid", "sleep", "sort", "tail", "tr", "uname", "wc", "cksum",
)  # fmt: skip
CLIENTS = (
    "apptainer", "clush", "docker", "kubectl", "mpirun", "pdsh", "python", "python3", "rsync", "sbatch", "scancel",
    "scontrol", "sinfo", "sky", "squeue", "srun", "ssh",
)  # fmt: skip # found by `type -P` and by exec, which a function does not stand in for
TIMEOUT_S = 60
_HEAD = """#!{bash} -p
export JOBC_STAGE={folder} # also for whom `env -i` starts
builtin source "$JOBC_STAGE/stage.sh" # -p: by no BASH_ENV of the job, and although it sets POSIXLY_CORRECT
"""
_RECORDER = """jobc_note "$0" "$@"
"""
_SRUN = """jobc_see
jobc_note "$0" "$@"
exit "${JOBC_STAGE_ENDS:-0}"
"""
_SCONTROL = """jobc_note "$0" "$@"
echo "${JOBC_STAGE_SAYS:-}"
"""
_PYTHON = """jobc_see
jobc_note "$0" "$@"
# depot.py runs what stands behind `--`, when it has brought the run from the bucket.
if [[ ${3:-} == */depot.py && ${4:-} == run ]]; then exec "${@:7}"; fi
# mpirun of node 0 runs its last words for each rank, and so does its daemon on another node.
if [[ ${9:-} == */mpi.py && ${10:-} == --head ]]; then exec "${@: -3}"; fi
if [[ ${9:-} == */mpi.py && ${10:-} == --node ]]; then exec bash -c 'eval "$JOBC_MPI_RANK"'; fi
"""
_KUBECTL = """case " $* " in
  *' kustomize '*) jobc_note "$0" "$@" && exec cat "$JOBC_STAGE/artifact/job.yaml" ;;
  *' --filename=- '*) jobc_note "$0" "$@" "$(cat)" ;; # behind the words the manifests
  *) jobc_note "$0" "$@" ;;
esac
if [[ " $* " == *' get '* ]]; then printf '%b\\n' "${JOBC_STAGE_SAYS:-}"; fi
"""
_HOSTS = """# Behind the words the hosts, which it reads from its input or from a file.
file=/dev/stdin
for word in "$@"; do if [[ $word == --hostfile=* ]]; then file=${word#*=}; fi; done
mapfile -t hosts <"$file"
jobc_note "$0" "$@" "${hosts[@]}"
"""
_CLIENTS = {
    "pdsh": _HOSTS,
    "clush": _HOSTS,
    "python": _PYTHON,
    "srun": _SRUN,
    "scontrol": _SCONTROL,
    "sky": _SCONTROL,
    "squeue": _SCONTROL,
    "kubectl": _KUBECTL,
}
_BASH = """if [[ ! -e $JOBC_STAGE/calls/0 ]]; then jobc_begin; fi
# A script of the artifact is started from the stage, wherever the engine would have put it.
if [[ ${1:-} == */*.sh && ! -f $1 ]]; then set -- "$JOBC_STAGE/artifact/${1##*/}" "${@:2}"; fi
if [[ ${1:-} == */node.sh ]]; then jobc_see && jobc_note node_starts "$@"; fi
if [[ ${1:-} == */node.sh && ! -d ${JOBC_RUN_DIR:-/} ]]; then
  jobc_note run_folder # with JOBC_RUN_DIR as it was meant
  export JOBC_RUN_DIR=$JOBC_STAGE/run
fi
if [[ ${1:-} == */node.sh && -n ${JOBC_STAGE_ENDS:-} ]]; then # ScriptStage.end
  jobc_note "$@"
  exit "$JOBC_STAGE_ENDS"
fi
if [[ ${1:-} == --norc ]]; then jobc_note bash "$@"; fi
exec "$BASH" "$@"
"""


class ScriptStage:
    """files: path -> text of the emitted files, without lib/. Commands start in the folder of the project.

    trace: a file that gets `+SCRIPT:LINE: …` for every command that bash executes
    """

    def __init__(self, folder: Path, files: Files, trace: Path | None = None) -> None:
        self.folder, self.trace = folder, trace
        self.files: Mapping[str, str] = files
        for name in ("artifact", "bin", "calls", "project", "tmp", "run/logs", "run/state"):
            (folder / name).mkdir(parents=True)
        for path, text in files.items():
            if "/" not in path:
                (folder / "artifact" / path).write_text(text, encoding="utf-8")
        (folder / "stage.sh").symlink_to(Path(__file__).with_name("stage.sh"))
        os.mkfifo(folder / "nothing")
        self._make_code(files.get("node.sh", ""))
        bash = shutil.which("bash")
        if bash is None:
            raise Unreadable("bash is not found, and it takes bash to say what a script does")
        for name in FILTERS:
            if (found := shutil.which(name)) is not None:
                (folder / "bin" / name).symlink_to(found)
        head = _HEAD.format(bash=bash, folder=shlex.quote(str(folder)))
        for name in CLIENTS:
            self._script(name, head + _CLIENTS.get(name, _RECORDER))
        for name in ("run", "head", "link"):  # as a node 0 that is up leaves them
            (folder / "run/state" / name).write_text("attempt=0\n", encoding="utf-8")
        self._script("bash", head + _BASH)
        self._bash = bash

    def _make_code(self, node: str) -> None:
        """What submit.sh or node 0 brings, or what lies in the project: node.sh looks whether it is there."""
        said = dict(re.findall(r"^(code_kind|code_root)=(.*)$", node, re.MULTILINE))
        root = "".join(shlex.split(said.get("code_root", "")))
        kind = said.get("code_kind", "")
        if kind in ("snapshot", "rsync"):  # what is sent is what the folder holds, wherever it lies
            (self.folder / "run/code").mkdir(parents=True, exist_ok=True)
        elif not root.startswith("/") and ".." not in root.split("/"):
            (self.folder / ("run/code" if kind == "git" else "project") / root).mkdir(parents=True, exist_ok=True)

    def _script(self, name: str, text: str) -> None:
        file = self.folder / "bin" / name
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)

    def run(self, words: Iterable[str], env: Mapping[str, str] | None = None) -> list[Call]:
        """The calls in the order of time. In words and env <run>, <artifact> and <project> stand for the folders.

        Raises Unreadable when a script does not end, or ends because bash cannot read it.
        """
        return list(self._ended(words, env or {}).calls)

    def end(
        self, words: Iterable[str], env: Mapping[str, str], code: int, there: Mapping[str, str] | None = None
    ) -> Ended:
        """A start whose node.sh, or srun, does nothing but end with that code.

        env: JOBC_STAGE_SAYS is what scontrol says; there: path -> text of files in the run folder
        """
        placed = {self.folder / "run" / path: text for path, text in (there or {}).items()}
        former = {file: file.read_text(encoding="utf-8") for file in placed if file.exists()}
        for file, text in placed.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        try:
            return self._ended(words, {**env, "JOBC_STAGE_ENDS": str(code)})
        finally:
            for file in placed:
                file.unlink()
            for file, text in former.items():
                file.write_text(text, encoding="utf-8")

    def _ended(self, words: Iterable[str], env: Mapping[str, str]) -> Ended:
        calls = self.folder / "calls"
        shutil.rmtree(calls)
        calls.mkdir()
        environment = {
            "PATH": str(self.folder / "bin"), "TMPDIR": str(self.folder / "tmp"), "HOME": "/home/user", "USER": "user",
            "LC_ALL": "C",
            "BASH_ENV": str(self.folder / "stage.sh"), "JOBC_STAGE": str(self.folder),
        }  # fmt: skip
        if self.trace is not None:
            environment["JOBC_TRACE"] = str(self.trace)
        environment |= {name: self._real(value) for name, value in env.items()}
        command = [self._real(word) for word in words]
        if command[0] == "bash":
            command[0] = str(self.folder / "bin/bash")
        streams = [self.folder / name for name in ("stdout", "stderr")]  # files, by which jobc_see knows them
        for file in streams:
            file.write_bytes(b"")
        alive, held = os.pipe()  # by whatever it starts, also in the background
        try:
            with streams[0].open("ab") as out, streams[1].open("ab") as err:
                done = subprocess.run(
                    command,
                    cwd=self.folder / "project",
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    timeout=TIMEOUT_S,
                    check=False,
                    pass_fds=(held,),
                )
        except subprocess.TimeoutExpired:
            raise Unreadable(f"{command[-1]} does not end within {TIMEOUT_S} s") from None
        finally:
            os.close(held)
            select.select([alive], [], [], TIMEOUT_S)
            os.close(alive)
        said, told = (file.read_bytes().decode("utf-8", "replace") for file in streams)
        if done.returncode == 2 and "syntax error" in told:
            raise Unreadable(told.splitlines()[0])
        found = tuple(self._call(file) for file in sorted(calls.iterdir(), key=lambda file: file.name))
        return Ended(done.returncode, said, found, told)

    def _call(self, file: Path) -> Call:
        folder, count, *rest = file.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
        words = tuple(self._plain(word) for word in rest[: int(count)])
        standing, *exported = rest[int(count) :]
        pairs = environment(exported[0]).items() if exported else ()
        stage = ("BASH_ENV", str(self.folder / "stage.sh")), ("JOBC_STAGE", str(self.folder))
        env = {name: self._plain(value) for name, value in pairs if name != "_" and (name, value) not in stage}
        return Call(words, self._plain(folder), env, standing)

    @property
    def real_run(self) -> str:
        return str(self.folder / "run")

    def _real(self, word: str) -> str:
        for name, folder in ((RUN, "run"), (ARTIFACT, "artifact"), (PROJECT, "project")):
            word = word.replace(name, str(self.folder / folder))
        return word

    def _plain(self, word: str) -> str:
        real = os.path.realpath(self.folder)
        for folder in (str(self.folder), real):
            for name, below in ((RUN, "run"), (ARTIFACT, "artifact"), (PROJECT, "project"), ("", "bin")):
                word = word.replace(f"{folder}/{below}", name) if name else word.replace(f"{folder}/bin/", "")
        return word


def refused_by_bash(files: Mapping[str, str]) -> list[str]:
    """FILE:LINE and what is wrong, for each script that bash cannot read, whether or not a start runs it."""
    found = []
    for path, text in files.items():
        if path.endswith((".sh", ".sbatch")):
            script, said_in = text.encode("utf-8", "replace"), {**os.environ, "LC_ALL": "C"}
            done = subprocess.run(["bash", "-n"], input=script, capture_output=True, env=said_in, check=False)
            said = re.search(rb"line (\d+): (.*)", done.stderr)
            if done.returncode:
                found.append(f"{path}:{said[1].decode()}: bash: {said[2].decode(errors='replace')}" if said else path)
    return found


def statements(script: str) -> list[str] | None:
    """The commands of a script as bash prints them again, in its own layout and without comments; nothing runs them.

    None where bash reads no commands. Only a script that it reads to the end is taken for the body of a function.
    """
    function = f"script() {{\n{script}\n}}\ndeclare -f script\n"
    said_in, printed = {**os.environ, "LC_ALL": "C"}, b""
    for words, text in ((["bash", "-pn"], script), (["bash", "-p"], function)):
        done = subprocess.run(words, input=text.encode("utf-8"), capture_output=True, env=said_in, check=False)
        if done.returncode or done.stderr:  # as for a here-document without an end, which bash only warns of
            return None
        printed = done.stdout
    return printed.decode("utf-8", "replace").split("\n")


@contextmanager
def stage(files: Files, trace: Path | None = None) -> Iterator[ScriptStage]:
    """A stage in a temporary folder with a blank in its name, as a user's may have: an expansion without quotes shows.

    Pyxis mounts no such folder, and its script refuses it.
    """
    blank = "-" if "pyxis.sh" in files else " "
    with tempfile.TemporaryDirectory(prefix=f"jobc{blank}stage-") as folder:
        yield ScriptStage(Path(folder), files, trace)
