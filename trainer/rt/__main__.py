"""`python -I -S jobctl PROGRAM …`: run a program of this package from the zip file that is in every artifact.

`-I -S`: so that neither site-packages nor PYTHONPATH nor the current folder can change what it does.
"""

from __future__ import annotations

import sys
from importlib import import_module

PROGRAMS = (
    "depot", "gpus", "head_port", "mpi", "network", "preflight", "rank", "reach", "snapshot", "spawn", "supervise",
)  # fmt: skip
VERBS = ("clean", "logs", "ls", "status", "table")  # modules of verbs/


def main(words: list[str]) -> int:
    """The exit code of the program; 2 without one."""
    name = next((word for word in words if not word.startswith("-")), "")  # torch.distributed.launch puts options first
    if name not in (*PROGRAMS, *VERBS):
        print(f"usage: jobctl {'|'.join((*PROGRAMS, *VERBS))} …", file=sys.stderr)
        return 2
    words.remove(name)
    folder = "verbs." if name in VERBS else ""
    code: int = import_module(f"{__package__ or 'jobc_trainer.rt'}.{folder}{name}").main(words)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
