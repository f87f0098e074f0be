"""Send a run's artifact and code to SkyPilot, and start them on a cluster's nodes. Packed into jobctl."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ....runtime.exit_codes import DATA_BROKEN
from ....runtime.run_folder.artifact_copies import copy_number_by_attempt
from ....runtime.run_folder.removal import remove_folder
from ....runtime.run_folder.run import Run
from ....runtime.run_folder.submitted_values import VARIABLE, SubmittedValues
from ....runtime.system.failure import Failure
from ....runtime.system.streams import PIECE, start_client, terminate_at_exit

MOST_KEPT = 1 << 20  # the last bytes of the output, which run_and_capture() returns


class LaunchedPayload(NamedTuple):
    """The payload that the nodes run (`train`, `smoke` or `preflight`), and its attempt.

    fork_of: ID of the run that this one forks, or ""
    """

    payload: str
    run: Run
    run_id: str
    attempt: int
    fork_of: str = ""

    @property
    def artifact(self) -> str:
        """Return the artifact's path relative to the folder that is sent. An unchanged artifact is sent only once."""
        number = copy_number_by_attempt(self.run.path).get(self.attempt, self.attempt)
        return f"{self.run_id}/artifact/{number}"


def require_files_to_send(settings: Mapping[str, Any]) -> None:
    """Raise Failure if a secret or file that must be sent is missing on this machine."""
    for name in settings.get("secrets", ()):
        if not os.environ.get(name):
            title = f"secret: the environment variable {name} is not set"
            raise Failure(title, f"export {name}, then submit again", DATA_BROKEN)
    for file in settings.get("local_files", ()):
        if not os.path.exists(os.path.expanduser(file)):
            title = f"backend.file_mounts: no {file} on {os.uname().nodename}"
            raise Failure(title, "copy the file here, or remove it from backend.file_mounts", DATA_BROKEN)


def prepare_folder_to_send(launch: LaunchedPayload) -> Path:
    """Return the folder to send, which contains the artifact and the code.

    Both are in a subfolder named after the run, because SkyPilot never removes files that it sent earlier.
    """
    run, sent = launch.run.path, launch.run.path / "sent"
    to = sent / launch.run_id
    artifact = sent / launch.artifact
    if artifact.is_dir():  # left by an earlier launch, which may have been killed
        remove_folder(artifact)
    _hard_link_tree(f"link the artifact to {to}", run / "artifact" / artifact.name, artifact)
    if (run / "code").is_dir() and not (to / "code").is_dir():
        _hard_link_tree(f"link the code to {to}", run / "code", to / "code")
    (sent / ".skyignore").write_bytes(b"")  # otherwise, SkyPilot skips the files that a .gitignore in the code lists
    return sent


def sky_launch_arguments(settings: Mapping[str, Any], launch: LaunchedPayload) -> list[str]:
    """Return the sky arguments that start the payload."""
    cluster, is_training = str(settings.get("cluster", "")), launch.payload == "train"
    words = ["launch", "--cluster", cluster]
    if settings.get("managed") and is_training:
        name = re.sub("[^A-Za-z0-9-]", "-", f"{cluster}-{launch.run_id}-{launch.attempt}")
        words = ["jobs", "launch", "--name", name]
    variables = {
        "JOBC_ARTIFACT": launch.artifact,
        "JOBC_PAYLOAD": launch.payload,
        "JOBC_RUN_ID": launch.run_id,
        "JOBC_ATTEMPT": launch.attempt,
        "JOBC_FORK_OF": launch.fork_of,
    }
    if submitted := SubmittedValues.read(launch.run.path).encode_for_variable():
        variables[VARIABLE] = submitted
    words += ["--yes", "--detach-run"]
    for name, value in variables.items():
        words += ["--env", f"{name}={value}"]
    if not is_training:
        words += settings.get("check_words", ())
    return [*words, *sky_secret_options(settings), f"{launch.artifact}/task.sky.yaml"]


def sky_secret_options(settings: Mapping[str, Any]) -> list[str]:
    """Return the options that pass this shell's secrets. SkyPilot does not print their values."""
    return [word for name in settings.get("secrets", ()) for word in ("--secret", name)]


def _hard_link_tree(what: str, source: Path, copy: Path) -> None:
    link: Callable[[str, str], object] = os.link
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, copy, symlinks=True, copy_function=link)
    except OSError as error:
        why = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
        hint = "check permissions and free space, or set JOBC_RUN_ROOT to another folder"
        raise Failure(f"cannot {what}: {why}", hint) from error


def run_and_capture(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, is_shown: bool = True
) -> tuple[int, str]:
    """Run a client in a folder. Return its exit code and the last MiB of its output.

    is_shown: whether the output is also printed to stderr as it arrives.
    Terminates the client if this program is interrupted. Raises Failure if the client cannot be run.
    """
    kept = b""
    with terminate_at_exit(start_client(words, environment, subprocess.STDOUT, folder)) as process:
        assert process.stdout is not None
        for piece in iter(partial(os.read, process.stdout.fileno(), PIECE), b""):
            if is_shown:
                sys.stderr.buffer.write(piece)
                sys.stderr.buffer.flush()
            kept = (kept + piece)[-MOST_KEPT:]
        return process.wait(), kept.decode(errors="replace")
