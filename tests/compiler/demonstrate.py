"""Run the Python snippets in docs/pains.yaml, each in a fork of one process, because importing torch takes most of the
time.

In   stdin: JSON, name -> code
Out  the last line of stdout: JSON, name -> what went wrong, or ""
In the code, `GOLDENS` is tests/golden. Each snippet has its own folder.
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
LIMIT_S = 120  # timeout of one snippet, which takes about a second


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
        except BaseException:  # any error is this snippet's result
            wrong = traceback.format_exc()
        (folder / "wrong").write_text(wrong)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return (folder / "wrong").read_text() if status == 0 else f"ended by signal {status}"


if __name__ == "__main__":
    main()
