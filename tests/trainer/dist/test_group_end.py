"""trainer/dist/process_group_end.py: a script exits once Gloo's threads have released its messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# A thread that Gloo might have started: it works without the GIL, and wants it in the end. Python aborts a process in
# which a thread of C++ does so too late; this one, of Python, would end before its last line.
LATE = """
import ctypes, hashlib, threading
from jobc.trainer import script

def work():
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop", 0, 0, 0)  # PR_SET_NAME
    began.set()
    for _ in range(3):
        hashlib.sha256(content)
    print("let go", flush=True)

rt = script.init()
content = bytes(2**28)  # some 0.2 to 1 s each
began = threading.Event()
threading.Thread(target=work, daemon=True).start()
began.wait()
"""

NAMES = """
import time
from pathlib import Path
from jobc.trainer import script

def names():
    return [name.read_text() for name in Path("/proc/self/task").glob("*/comm")]

script.init()
deadline = time.monotonic() + 20
while "pt_gloo_runloop\\n" not in names() and time.monotonic() < deadline:  # a thread names itself when it first runs
    time.sleep(0.01)
print(*names(), sep="")
"""


def ended(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    outer = {k: v for k, v in os.environ.items() if not k.startswith(("JOBC_", "TORCHELASTIC_"))}
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=folder, env=outer, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("end", ["", "rt.finish()", "sys.exit(3)"])
def test_a_script_waits_for_threads_of_gloo_that_let_go_late(end: str, tmp_path: Path) -> None:
    done = ended(f"{LATE}\nimport sys\n{end}", tmp_path)
    assert done.returncode == (3 if "3" in end else 0), done.stderr
    assert "let go" in done.stdout


def test_the_threads_of_gloo_are_known_by_their_names(tmp_path: Path) -> None:
    done = ended(NAMES, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pt_gloo_runloop" in done.stdout.splitlines()
