"""Kill a save before each line that it executes, and check the result. Run by test_checkpoint_store.py.

In   a folder to work in; `replaces`: step 3 already exists, alone and with different content
Out  a JSON list on stdout: for each kill, the step found and the first letter of its weights, the damage found, and
     what a repeated save leaves
Starts one child per line by fork; only the standard library is loaded, so forking is cheap and safe.
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from jobc.tests.checkpoints import newest_verified
from jobc.trainer import files
from jobc.trainer.checkpoint import store

FILES = {"weights.pt": b"w" * 10_000, "state.json": b"{}"}


REPLACES = sys.argv[2:] == ["replaces"]


def save_until(root: Path, lines: int) -> bool:
    """Save step 3 in a child that is killed before its `lines`-th line. Return whether it reached the end."""
    child = os.fork()
    if child == 0:
        left = lines

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in (store.__file__, files.__file__):
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        store.save_checkpoint(root, 3, FILES, keep=2, val_loss=3.0, replaces=REPLACES)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def look(root: Path) -> dict[str, object]:
    newest, damaged = newest_verified(root)
    content = (newest / "weights.pt").read_text()[:1] if newest else ""
    return {"newest": newest and store.step_of_folder(newest), "content": content, "damaged": damaged}


def main(folder: Path) -> None:
    results = []
    for lines in range(1, 10_000):
        root = folder / str(lines)
        if REPLACES:
            store.save_checkpoint(root, 3, {**FILES, "weights.pt": b"o" * 500}, keep=2, val_loss=3.0)
        for step in () if REPLACES else (1, 2):
            store.save_checkpoint(root, step, FILES, keep=2, val_loss=step)  # the first one remains the best
        finished = save_until(root, lines)
        after_kill = look(root)
        store.save_checkpoint(root, 3, FILES, keep=2, val_loss=3.0, replaces=REPLACES)
        results.append({**after_kill, "left": sorted(path.name for path in root.iterdir())})
        if finished:
            break
    print(json.dumps(results))


main(Path(sys.argv[1]))
