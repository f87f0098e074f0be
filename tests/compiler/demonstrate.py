"""Runs what docs/pains.yaml shows in Python, each in a fork of one process: importing torch is what takes the time.

In   standard input: JSON, name -> code
Out  the last line of standard output: JSON, name -> what went wrong, "" where nothing did
In the code `GOLDENS` is tests/golden; the folder is its own.
"""

import json
import os
import signal
import sys
import traceback
from pathlib import Path

import accelerate.commands.launch  # noqa: F401
import torch.distributed.run  # noqa: F401

GOLDENS = Path(__file__).parents[1] / "golden"
LIMIT_S = 120  # of one; it takes about a second


def main() -> None:
    said = {name: run(name, code) for name, code in json.load(sys.stdin).items()}
    print("\n" + json.dumps(said))


def run(name: str, code: str) -> str:
    folder = Path(name).resolve()
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        signal.alarm(LIMIT_S)
        os.chdir(folder)
        wrong = ""
        try:
            exec(compile(code, name, "exec"), {"GOLDENS": GOLDENS})
        except BaseException:  # whatever it is belongs to that name
            wrong = traceback.format_exc()
        (folder / "wrong").write_text(wrong)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return (folder / "wrong").read_text() if status == 0 else f"ended by signal {status}"


if __name__ == "__main__":
    main()
