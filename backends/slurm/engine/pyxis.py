"""Build the srun options for a container that Pyxis creates on each node. Packed into jobctl; Python 3.8.

In:  the job's container, mounts and secrets (job.json); the run folder and the project folder.
Out: srun options. Raises Failure if Pyxis cannot mount a folder.
Source: github.com/NVIDIA/pyxis 0.24, README and args.c.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....runtime.exit_codes import DATA_BROKEN
from ....runtime.run_folder.run_secrets import secrets_folder_of_run
from ....runtime.system.failure import Failure


def container_options(settings: Mapping[str, Any], artifact: Path, run: Path, project: Path) -> list[str]:
    """Return the srun options, or [] without Pyxis. Raises Failure.

    --container-env is not needed, because the variables that launch.sh exports override the image's.
    """
    if not settings.get("pyxis"):
        return []
    container, node = settings["container"], settings["node"]
    mounts = [
        f"{mount['source']}:{mount['target']}{':ro' if mount['read_only'] else ''}" for mount in container["mounts"]
    ]
    files = [secret["ref"] for secret in node["secrets"].values() if secret["kind"] == "file"]
    folders = ["/tmp", project, project / node["code"]["root"], run, artifact, secrets_folder_of_run(run), *files]
    for path in map(_absolute_path, folders):
        if not os.path.exists(path):
            continue
        if re.search(r"[\s,:\\]", path):
            hint = "--container-mounts does not accept paths with spaces, commas, colons or backslashes"
            raise Failure(f"Pyxis cannot mount {path}", hint, DATA_BROKEN)
        mounts.append(f"{path}:{path}")
    return [
        f"--container-image={container['image']}",
        f"--container-mounts={','.join(mounts)}",
        "--no-container-mount-home",
        *container["options"],
    ]


def container_environment(settings: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that names the secrets folder for programs in the container, where HOME may be different."""
    root = environ.get("JOBC_SECRETS_ROOT") or f"{environ.get('HOME') or '/nonexistent'}/.jobc/secrets"
    return {"JOBC_SECRETS_ROOT": root} if settings.get("pyxis") else {}


def _absolute_path(path: str | Path) -> str:
    home = os.environ.get("HOME", "")
    return os.path.abspath(re.sub("^~/", lambda _: f"{home}/", os.fspath(path)))
