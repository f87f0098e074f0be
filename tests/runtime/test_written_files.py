"""Files that a script wrote into its working copy: found by their modification time, within seconds, in one line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from jobc.runtime.run_folder.written_files import FilesWrittenByProgram


@pytest.fixture
def written(tmp_path: Path) -> FilesWrittenByProgram:
    """Return the files written into a copy with code and a link to data, which is slightly older than the start of the
    ranks.
    """
    (tmp_path / "data").mkdir()
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)")
    (code / "data").symlink_to(tmp_path / "data")
    files = FilesWrittenByProgram(code)
    files.begin_count((code / "train.py").stat().st_ctime + 1e-6)
    files.begin_count(0)  # of a restart in place, which changes nothing
    return files


def write(folder: Path, name: str, size: int = 1) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"x" * size)
    while (folder / name).stat().st_ctime <= (folder / "train.py").stat().st_ctime:  # within one tick of the kernel
        os.utime(folder / name)


def test_nothing_is_said_of_code_and_caches(written: FilesWrittenByProgram) -> None:
    write(written.folder, "__pycache__/train.cpython-311.pyc")
    assert written.describe_written_files() == []
    assert FilesWrittenByProgram(written.folder / "absent").describe_written_files() == []


def test_files_that_all_runs_write_are_in_a_line_of_their_own(written: FilesWrittenByProgram) -> None:
    write(written.folder, "model.pt")
    (written.folder.parent / "data/elsewhere").symlink_to("/")
    (written.folder / "data/last.pt").write_text("42")
    assert written.describe_written_files() == [
        f"script wrote 1 file (1 B) in {written.folder}: model.pt",
        "script wrote 1 file (2 B) outside the run, in symlinked folders that all runs share: data/last.pt",
    ]


def test_the_largest_files_are_named(written: FilesWrittenByProgram) -> None:
    write(written.folder, "outputs/model.pt", 12 * 2**20)
    assert written.describe_written_files() == [f"script wrote 1 file (12 MiB) in {written.folder}: outputs/model.pt"]
    for name in ("log.txt", "a", "b", "c"):
        write(written.folder, name, 2000 if name == "log.txt" else 1)
    line = f"script wrote 5 files (12 MiB) in {written.folder}: outputs/model.pt, log.txt, a and 2 more"
    assert written.describe_written_files() == [line]


def test_a_file_with_the_times_of_another_counts(written: FilesWrittenByProgram) -> None:
    write(written.folder, "copy.pt", 1536)
    os.utime(written.folder / "copy.pt", (0, 0))
    assert written.describe_written_files() == [f"script wrote 1 file (1.5 KiB) in {written.folder}: copy.pt"]


def test_names_are_escaped_and_cut(written: FilesWrittenByProgram) -> None:
    write(written.folder, "a\n\x1b[31m\u202e")
    write(written.folder, "long/" * 20 + "end.pt", 2)
    (line,) = written.describe_written_files()
    assert line.isprintable() and r"a\n\x1b[31m\u202e" in line
    assert "…long/" not in line and line.split(": ")[1].startswith("…") and "/long/end.pt, " in line


def test_looking_takes_no_longer_than_allowed(written: FilesWrittenByProgram) -> None:
    for index in range(5):
        write(written.folder, str(index))
    (written.folder / "train.py").unlink()  # so that the first file counts
    (line,) = written.describe_written_files(most_s=-1)
    assert re.fullmatch(f"script wrote at least 1 file \\(1 B\\) in {written.folder}: [0-4]", line)
