"""Download a job's models and data sets, and run its own download commands, for `jobctl prefetch`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..engines.artifact_location import Place
from ..node.node_start import launch_command_of_node
from ..system.failure import Failure, print_failure
from ..system.streams import terminate_at_exit

HUB_CLIENTS = ("hf", "huggingface-cli")  # the second is its name before huggingface_hub 0.34


class Download(NamedTuple):
    """One download. kind: model, dataset or run. what: a name on the Hugging Face hub; for kind run, a command."""

    kind: str
    what: str
    revision: str

    @classmethod
    def from_settings(cls, item: Mapping[str, str]) -> Download:
        return cls(item["kind"], item["what"], item.get("revision") or "")


def download_items(place: Place, items: Iterable[Mapping[str, str]]) -> None:
    """Download the items in order. Raises Failure if some could not be downloaded."""
    environment = DownloadEnvironment(place)
    failed = [item.what for item in map(Download.from_settings, items) if not _fetch(environment, item)]
    if failed:
        raise Failure(f"could not be downloaded: {' '.join(failed)}", "the lines above show why")


class DownloadEnvironment:
    """The ranks' environment, on this machine and with internet access."""

    def __init__(self, place: Place) -> None:
        self.artifact = place.artifact
        self.environ = {**os.environ, "JOBC_ONLINE": "yes", "JOBC_RUN_DIR": "", "JOBC_PROJECT": str(place.project)}
        self._hub_client = ""

    def run(self, *command: str, output: int | None = None) -> int:
        """Run a command and return its exit code. If this program is terminated, so is the command."""
        words = [*launch_command_of_node(self.artifact, "shell"), *command]
        with terminate_at_exit(subprocess.Popen(words, env=self.environ, stdout=output)) as process:
            return process.wait()

    def hub_client(self) -> str:
        for client in HUB_CLIENTS:
            if not self._hub_client and self.run("sh", "-c", f"command -v {client}", output=subprocess.DEVNULL) == 0:
                self._hub_client = client
        if not self._hub_client:
            raise Failure(
                "hf is not installed in the job's environment", ("run pip install huggingface_hub in that environment")
            )
        return self._hub_client


def _fetch(environment: DownloadEnvironment, download: Download) -> bool:
    print(f"== {download.what}", flush=True)
    if download.kind == "run":
        return environment.run("bash", "-c", download.what) == 0
    options = ["--repo-type", download.kind, *(["--revision", download.revision] if download.revision else [])]
    try:
        return environment.run(environment.hub_client(), "download", download.what, *options) == 0
    except Failure as failure:  # the other downloads may still work
        sys.stdout.flush()
        print_failure(failure)
        return False
