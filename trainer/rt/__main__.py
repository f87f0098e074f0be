"""`python -I -S jobctl PROGRAM …`: run a program of this package from jobctl, the zip file in every artifact.

With `-I -S`, neither site-packages nor PYTHONPATH nor the working directory can change what it does.
"""

from __future__ import annotations

import sys
from importlib import import_module

PROGRAMS = (
    "depot", "gpus", "head_port", "mpi", "network", "node_checks", "rank", "reach", "snapshot", "spawn", "supervise",
)  # fmt: skip
VERBS = ("clean", "logs", "ls", "preflight", "shell", "smoke", "status", "stop", "submit", "table")  # modules of verbs/


def main(words: list[str]) -> int:
    """Run the named program and return its exit code; 2 if no program is named."""
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
