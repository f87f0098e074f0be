"""Analyze a command line: find the program after `env X=1` or `uv run`, a rank launcher, or a training script."""

import re
import shlex
from collections.abc import Mapping, Sequence

from ....runtime.system.frozen_dataclass import dataclass

TOOLS = (
    "cat", "chmod", "cp", "date", "df", "echo", "env", "free", "hostname", "kill", "ls", "mkdir", "mv", "nvidia-smi",
    "pkill", "printenv", "printf", "rm", "rocm-smi", "rsync", "scp", "tar", "touch", "true", "uname",
)  # fmt: skip
_NOT_THE_JOB = ("", "ensurepip", "pip", "setup.py", "venv")  # Python's arguments: no file, or one that only does setup
# Program or Python module -> pattern of the arguments that launch ranks; "" for any. axolotl starts accelerate,
# llamafactory-cli (for several GPUs) and torchtune's tune (with a torchrun option) start torchrun, and
# fabric and lightning call it as a function.
_LAUNCHERS = {
    "torchrun": "", "deepspeed": "", "mpirun": "", "mpiexec": "", "srun": "", "horovodrun": "",
    "accelerate": "launch", "accelerate-launch": "", "colossalai": "run", "composer": "",
    "torch.distributed.run": "", "torch.distributed.launch": "", "deepspeed.launcher.runner": "",
    "accelerate.commands.launch": "", "accelerate.commands.accelerate_cli": "launch", "composer.cli": "",
    "axolotl": r"train(?!.* --(no-accelerate|launcher[= ]python))", "llamafactory-cli": "train", "tune": r"run -\S+",
    "fabric": "run", "lightning": "run model",
}  # fmt: skip
_OF_ANYTHING = ("horovodrun", "mpiexec", "mpirun", "srun")  # launchers that also start other programs
_HOLDERS = ("apptainer", "docker", "enroot", "podman", "singularity", "ssh", "strace")  # run another command
_KEYWORDS = ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "(")
_GIVEN = re.compile(r"\w+=.*", re.DOTALL)
_BY_NAME = re.compile(r"(\$\(|`)\s*(?:which|command\s+-v|type\s+-[pP])\s+([\w./-]+)\s*[)`]")  # `$(which torchrun)`
SEARCHED = 1000  # maximum number of words searched for the program; the search is quadratic
_SPLIT = re.compile(r"(-[iv0]*)S(.*)|--split-string(?:=(.*))?", re.DOTALL)  # env -S, its text in this word or the next


@dataclass(frozen=True)
class _ProgramStarter:
    """A program that starts another program, whose words follow its own options."""

    valued: str = ""  # options that take the next word as their value
    sub: str = ""  # subcommand that starts the other program, "" for none
    others: int = 0  # arguments before the program that are not options


# Manuals of bash 5.2, coreutils 9.1, util-linux 2.38, numactl 2.0, uv 0.13 (its --help), conda 26.1, pixi 0.81,
# poetry 2 (python-poetry.org/docs/cli), Nsight Systems 2022.1 (its long options want `=`).
# Not looked up: options of dbus-run-session, dumb-init, gosu, pdm, pipenv, su-exec, tini, unbuffer and xvfb-run.
_OF_CONDA = "-n --name -p --prefix --cwd -r --root-prefix -a --attach -e --env --label"
_STARTERS: Mapping[str, _ProgramStarter] = {
    **dict.fromkeys(("command", "nohup", "setsid", "unbuffer"), _ProgramStarter()),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _ProgramStarter(_OF_CONDA, "run")),
    **dict.fromkeys(("gosu", "su-exec", "taskset"), _ProgramStarter(others=1)),
    "chrt": _ProgramStarter("-T -P -D", others=1),
    "dbus-run-session": _ProgramStarter("--config-file --dbus-daemon"),
    "dumb-init": _ProgramStarter("-r --rewrite"),
    "env": _ProgramStarter("-u -C --unset --chdir"),
    "exec": _ProgramStarter("-a"),
    "flock": _ProgramStarter("-w -E --wait --timeout --conflict-exit-code", others=1),
    "ionice": _ProgramStarter("-c -n"),
    "ncu": _ProgramStarter(
        "-o --export -k --kernel-name -c --launch-count -s --launch-skip --set --section --metrics --target-processes"
        " --replay-mode --nvtx-include --nvtx-exclude --log-file --config-file-path --cache-control --clock-control"
    ),
    "nice": _ProgramStarter("-n --adjustment"),
    "nsys": _ProgramStarter(
        "-b -c -d -e -f -n -o -p -s -t -w -x -y --output --trace --sample --cpuctxsw --capture-range --force-overwrite"
        " --delay --duration --stats --kill --wait --cuda-graph-trace --gpu-metrics-devices --python-sampling",
        "profile",
    ),
    "numactl": _ProgramStarter("-i -p -m -M -N -C -l"),
    "pdm": _ProgramStarter("-p --project --venv", "run"),
    "pipenv": _ProgramStarter("--python", "run"),
    "pixi": _ProgramStarter("-e --environment -p --platform --manifest-path --config-file", "run"),
    "poetry": _ProgramStarter("-C --directory -P --project", "run"),
    "prlimit": _ProgramStarter("-o -p --output --pid"),
    "stdbuf": _ProgramStarter("-i -o -e"),
    "sudo": _ProgramStarter("-u -g -C -p"),
    "time": _ProgramStarter("-f -o"),
    "timeout": _ProgramStarter("-k -s --kill-after --signal", others=1),
    "tini": _ProgramStarter("-e -p"),
    "uv": _ProgramStarter(
        "-C -P -f -i -p -w --cache-dir --config-file --config-setting --default-index --directory --env-file"
        " --exclude-newer --extra --extra-index-url --find-links --group --index --index-url --link-mode --no-extra"
        " --no-group --only-group --package --prerelease --project --python --resolution --with --with-editable"
        " --with-requirements",
        "run",
    ),
    "xvfb-run": _ProgramStarter(
        "-e -f -n -p -s -w --error-file --auth-file --server-num --xauth-protocol --server-args --wait"
    ),
}


def program_name(command: Sequence[str]) -> str:
    """Return the program's name without its folder, even for `$(which NAME)`. Return "" if there are no words."""
    first = command[0] if command else ""
    match = _BY_NAME.fullmatch(first)
    return (match[2] if match else first).rpartition("/")[2]


def strip_command_prefix(words: Sequence[str]) -> Sequence[str]:
    """Return the program and its arguments, without prefixes such as `then`, `X=1`, `timeout -k 9 1h` or `uv run`."""
    words, tail = words[:SEARCHED], words[SEARCHED:]
    while words:
        if words[0] in _KEYWORDS or _GIVEN.fullmatch(words[0]):
            words = words[1:]
        elif starter := _STARTERS.get(program_name(words)):
            remaining = _strip_options(words[1:], starter)
            if starter.sub:
                if list(remaining[:1]) != [starter.sub]:
                    break
                remaining = _strip_options(remaining[1:], starter)
            words = remaining[starter.others :]
        else:
            break
    return (*words, *tail)


def leading_assignments(words: Sequence[str]) -> Sequence[str]:
    """Return assignments such as `X=1` before the program, with or without `env`."""
    front = split_env_string(words)
    return [word for word in front[: len(front) - len(strip_command_prefix(front))] if _GIVEN.fullmatch(word)]


def _strip_options(words: Sequence[str], starter: _ProgramStarter) -> Sequence[str]:
    while words and (words[0].startswith("-") or _GIVEN.fullmatch(words[0])):
        if starter is _STARTERS["uv"] and words[0] in ("-m", "--module"):
            return ("python", "-m", *words[1:])
        if starter is _STARTERS["env"] and (split := _SPLIT.fullmatch(words[0])):
            words = _split_env_option(split, words[1:])
            continue
        words = words[2 if words[0] in starter.valued.split() else 1 :]
    return words


def split_env_string(words: Sequence[str]) -> Sequence[str]:
    """Return the command with the text of `env -S TEXT` split into words."""
    behind_env = False
    for index, word in enumerate(words[:SEARCHED]):
        if behind_env and (split := _SPLIT.fullmatch(word)):
            flags = (split[1],) if (split[1] or "-") != "-" else ()
            return (*words[:index], *flags, *_split_env_option(split, words[index + 1 :]))
        behind_env |= program_name((word,)) == "env"
    return words


def _split_env_option(option: re.Match[str], rest: Sequence[str]) -> Sequence[str]:
    """Return the words into which `env -S TEXT …` is split."""
    text = option[2] or option[3]
    if not text:
        text, rest = "".join(rest[:1]), rest[1:]
    try:
        return (*shlex.split(text), *rest)
    except ValueError:  # env rejects it too
        return ()


def rank_launcher_name(words: Sequence[str]) -> str:
    """Return the name of a launcher in these words that itself starts ranks, or "" if there is none."""
    name, arguments = _python_program(words) if _is_python(words) else (program_name(words), words[1:])
    name = program_name((name,))  # for `python $(which torchrun)`
    pattern = _LAUNCHERS.get(name)
    return name if pattern == "" or (pattern and re.match(rf"({pattern})( |$)", " ".join(arguments[:SEARCHED]))) else ""


def starts_training(words: Sequence[str]) -> bool:
    """Return whether the words seem to start training: a Python file or module, or a launcher command."""
    words = words[:SEARCHED]
    starts_another = program_name(words) in (*_OF_ANYTHING, *_HOLDERS)
    return any(_trains_itself(words[start:]) for start in range(len(words) if starts_another else 1))


def _trains_itself(words: Sequence[str]) -> bool:
    """Return whether the program itself trains, not a command passed to `ssh` or `docker run`."""
    name = program_name(words)
    if rank_launcher_name(words):
        return name not in _OF_ANYTHING or not any(program_name((word,)) in TOOLS for word in words[1:])
    if _is_python(words):
        return program_name((_python_program(words)[0],)) not in _NOT_THE_JOB
    by_variable = bool(words) and words[0].startswith("$")
    return name.endswith(".py") or (by_variable and any(word.endswith(".py") for word in words))


def _is_python(words: Sequence[str]) -> bool:
    """Return whether the words start Python. A job's command may begin with Python's option `-m`."""
    return bool(words) and bool(re.fullmatch(r"python[\d.]*", program_name(words)) or words[0].startswith("-m"))


def _python_program(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the file or module that Python runs, and its arguments. The file is "" if there is none, as with `-c`."""
    index = 0 if words[0].startswith("-m") else 1
    while index < len(words) and words[index].startswith("-"):
        if match := re.fullmatch(r"-[bBdEhiIOPqRsSuvx]*m(.*)", words[index]):
            named = (match[1], *words[index + 1 :]) if match[1] else tuple(words[index + 1 :])
            return (named[0], named[1:]) if named else ("", ())
        if re.fullmatch(r"-[a-zA-Z]*[cV]|-|--version|--help(-all)?|-h", words[index]):
            return "", ()
        index += 2 if words[index] in ("-X", "-W") else 1
    return (words[index], words[index + 1 :]) if index < len(words) else ("", ())
