"""The exception that ended a rank, as the reason that status shows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobc.runtime.supervisor.verdict import MOST_CHARACTERS, last_exception_in_log

PLAIN = """step 1
Traceback (most recent call last):
  File "/run/code/train.py", line 6, in <module>
    main()
KeyError: 'label_17'
"""
LIBRARY = """Traceback (most recent call last):
  File "/run/code/pkg/train.py", line 9, in step
    loss.backward()
  File "/venv/lib/python3.11/site-packages/torch/_tensor.py", line 5, in backward
    run()
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported
"""
SYNTAX = """  File "/run/code/train.py", line 3
    print(
         ^
SyntaxError: '(' was never closed
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (PLAIN, "KeyError: 'label_17' (train.py:6)"),
        (LIBRARY, "RuntimeError: CUDA error: device-side assert triggered (pkg/train.py:9)"),
        ("\n".join(f"[rank3]: {line}" for line in PLAIN.splitlines()), "KeyError: 'label_17' (train.py:6)"),
        (PLAIN + "\nDuring handling of the above exception, another exception occurred:\n\n" + LIBRARY,
         "RuntimeError: CUDA error: device-side assert triggered (pkg/train.py:9)"),
        (PLAIN.replace("'label_17'", "\033[2J\r"), r"KeyError: \x1b[2J\r (train.py:6)"),
        (PLAIN + "step 2\n" * 100, ""),
        (PLAIN.replace("KeyError: 'label_17'\n", ""), ""),
        ("out of data\n", ""),
        (SYNTAX, "SyntaxError: '(' was never closed (train.py:3)"),
        (SYNTAX + "step 2\n", ""),
        ("/venv/bin/python3: No module named nets\n", "No module named nets"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_last_exception_and_the_users_own_line(log, line):
    assert last_exception_in_log(log, "/run/code") == line


@pytest.mark.parametrize("words", [("train.py",), ("-m", "no_such.train"), ("-m", "no_such")])
def test_what_python_prints_without_a_traceback_is_known(words, tmp_path):
    (tmp_path / "train.py").write_text("def f(\n")
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert last_exception_in_log(done.stderr, str(tmp_path)).startswith(("SyntaxError: ", "Error while ", "No module "))


def test_a_long_message_is_cut():
    line = last_exception_in_log(PLAIN.replace("label_17", "x" * 10_000), "/run/code")
    assert len(line) == MOST_CHARACTERS + len(" (train.py:6)") and "…" in line


def test_status_shows_the_exception_as_the_reason(job, tmp_path):
    (tmp_path / "train.py").write_text("labels = {}\nlabels['label_17']\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    demo = job(code_kind="snapshot")
    demo.plan.command = (sys.executable, "train.py")
    demo.write_artifact()
    assert demo.run("submit")[0] == 1
    _, output = demo.run("status")
    assert "KeyError: 'label_17' (train.py:2)" in output, output
