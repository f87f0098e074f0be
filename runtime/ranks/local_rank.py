"""Move torch.distributed.launch's argument `--local-rank=N` to where the program expects it.

That launcher runs `PYTHON WRAPPER --local-rank=N -- COMMAND` (--local_rank=N before torch 2.0). Without a wrapper, it
would run `PYTHON train.py --local-rank=N ARGUMENTS` (torch/distributed/launch.py, torch 1.11 to 2.13).
"""

from __future__ import annotations

import re


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Split the wrapper's arguments into the launcher's argument, if any, and the command."""
    index = 1 if argv[:1] and re.fullmatch(r"--local[-_]rank=\d+", argv[0]) else 0
    words = argv[index:]
    return argv[:index], words[1:] if words[:1] == ["--"] else words


def insert(command: list[str], given: list[str]) -> list[str]:
    """Return the command with `given` inserted after the program: after `train.py`, `-m MODULE` or the first word.

    The bundled trainer's command is not changed, because the trainer reads the environment instead.
    """
    if not given or (command[1:2] == ["-m"] and command[2].startswith("jobc_trainer")):
        return command
    words = [*command, ""]
    script = next((i for i, word in enumerate(words[:-1]) if word.endswith(".py")), None)
    index = 3 if words[1] == "-m" else 1 if script is None else script + 1
    return [*command[:index], *given, *command[index:]]
