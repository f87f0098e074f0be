"""Analyze a command line: find the program after `env X=1` or `uv run`, a rank launcher, or a training script.

The options of prefixes such as `uv run` are not known. The program is the first later word that names a launcher,
Python, a shell or a script.
"""

import re
from collections.abc import Sequence

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
SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_KEYWORDS = ("if", "then", "elif", "else", "while", "until", "do", "!", "{", "(")
_PREFIXES = (  # programs that start another program, whose words follow their own options
    "chrt", "command", "conda", "dumb-init", "env", "exec", "flock", "gosu", "ionice", "mamba", "micromamba", "ncu",
    "nice", "nohup", "nsys", "numactl", "pdm", "pipenv", "pixi", "poetry", "setsid", "stdbuf", "su-exec", "sudo",
    "taskset", "time", "timeout", "tini", "unbuffer", "uv", "xvfb-run",
)  # fmt: skip
_SUBCOMMANDS = {  # prefix -> its subcommand that starts another program
    **dict.fromkeys(("conda", "mamba", "micromamba", "pdm", "pipenv", "pixi", "poetry", "uv"), "run"),
    "nsys": "profile",
}
_GIVEN = re.compile(r"\w+=.*", re.DOTALL)
_BY_NAME = re.compile(r"(\$\(|`)\s*(?:which|command\s+-v|type\s+-[pP])\s+([\w./-]+)\s*[)`]")  # `$(which torchrun)`
SEARCHED = 1000  # maximum number of words searched for the program; the search is quadratic


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
        elif (name := program_name(words)) in _PREFIXES:
            found = next((index for index in range(1, len(words)) if _is_program(words[index], name)), None)
            if found is None or _SUBCOMMANDS.get(name, words[found]) not in words[1 : found + 1]:
                break
            words = words[found:]
        else:
            break
    return (*words, *tail)


def _is_program(word: str, prefix: str) -> bool:
    """Return whether a word after a prefix names a program. `uv run -m MODULE` is like `python -m MODULE`."""
    name = program_name((word,))
    is_known = name in _LAUNCHERS or name in _PREFIXES or name in SHELLS or _is_python((name,))
    return (
        (is_known and word[:1] != "-")
        or word.startswith("./")
        or word.endswith((".py", ".sh"))
        or (word == "-m" and prefix == "uv")
    )


def leading_assignments(words: Sequence[str]) -> Sequence[str]:
    """Return assignments such as `X=1` before the program, with or without `env`."""
    return [word for word in words[: len(words) - len(strip_command_prefix(words))] if _GIVEN.fullmatch(word)]


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
