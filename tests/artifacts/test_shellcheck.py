"""ShellCheck reports nothing in any emitted script, except for the few findings listed here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARTIFACTS = sorted(path for path in (ROOT / "tests" / "golden").glob("*/*/expected") if path.is_dir())
SCRIPTS = sorted(path for artifact in ARTIFACTS for path in artifact.iterdir() if path.suffix in (".sh", ".sbatch"))
DIFFERENT = list({path.read_bytes(): path for path in reversed(SCRIPTS)}.values())  # a text is checked once

DISABLED = {  # by a comment in the script
    "SC1090": "a file of the user, which only the nodes have",
    "SC1091": "the same",
    "SC2016": "a variable in the launch line that jobctl replaces, in single quotes on purpose",
}
MEANT = {  # excluded here, for they are about the user's own text, quoted on purpose
    "SC2016": "`$` in single quotes",
    "SC1003": "a backslash before a single quote",
    "SC2088": "`~` in quotes",
}


@pytest.mark.parametrize("artifact", ARTIFACTS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_nothing_is_found_in_an_artifact(artifact: Path) -> None:
    check([path for path in DIFFERENT if path.parent == artifact])


def test_every_disabled_check_is_listed_with_its_reason() -> None:
    comments = "\n".join(line for path in SCRIPTS for line in path.read_text().splitlines())
    used = {
        code for codes in re.findall(r"shellcheck [^#\n]*disable=([SC\d,]+)", comments) for code in codes.split(",")
    }
    assert used == set(DISABLED)


def check(scripts: list[Path]) -> None:
    shellcheck = shutil.which("shellcheck")
    assert shellcheck, "shellcheck is in the extra `dev`"
    if not scripts:
        return  # all are those of another artifact
    command = [shellcheck, "--severity=style", f"--exclude={','.join(MEANT)}", *scripts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
