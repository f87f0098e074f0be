"""Download what the job reads from the internet, in its ranks' environment.

Run this on a machine with internet access that can access the nodes' download folder. Repeating it is cheap, because
existing files are kept.
Exit   0 if everything is there; 1 if a download failed; 2 for an invalid option
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

from ..engines.engine import Engine
from ..engines.jobs import Place
from ..node.node_start import node_words
from ..system.command_line import Parser, print_failure
from ..system.failure import Failure
from ..system.streams import ended_with_us
from .ending_signals import call_until_ended

HUB_CLIENTS = ("hf", "huggingface-cli")  # the second name before huggingface_hub 0.34


class Download(NamedTuple):
    """One download. kind: model or dataset (what: name on the Hugging Face hub), or run (what: a command)"""

    kind: str
    what: str
    revision: str

    @classmethod
    def of_settings(cls, item: Mapping[str, str]) -> Download:
        return cls(item["kind"], item["what"], item.get("revision") or "")


def main(argv: list[str]) -> int:
    """Return the exit code."""
    return call_until_ended(prefetch, argv)


def prefetch(argv: list[str]) -> int:
    place = Place.of_program()
    parser(place.engine()).parse_args(argv)
    downloads = downloads_of(place)
    if not downloads:
        print("nothing to download: caches.prefetch is empty")
        return 0
    environment = Environment(place)
    failed = [download.what for download in downloads if not _fetch(environment, download)]
    if failed:
        raise Failure(f"could not be downloaded: {' '.join(failed)}", "the lines above show why")
    return 0


def parser(engine: Engine) -> Parser:
    summary = "Download what the job reads from the internet, in its ranks' environment."
    end = "Run it on a machine that has internet access and can access the nodes' download folder."
    return Parser("prefetch", summary, end)


def downloads_of(place: Place) -> list[Download]:
    """Return the job's downloads, in the spec's order."""
    return [Download.of_settings(item) for item in place.settings.get("prefetch") or []]


class Environment:
    """The ranks' environment on this machine, but with internet access."""

    def __init__(self, place: Place) -> None:
        self.artifact = place.artifact
        self.environ = {**os.environ, "JOBC_ONLINE": "yes", "JOBC_RUN_DIR": "", "JOBC_PROJECT": str(place.project)}
        self._hub_client = ""

    def run(self, *command: str, output: int | None = None) -> int:
        """Run a command and return its exit code. The command ends with this program."""
        words = [*node_words(self.artifact, "shell"), *command]
        with ended_with_us(subprocess.Popen(words, env=self.environ, stdout=output)) as process:
            return process.wait()

    def hub_client(self) -> str:
        """Return the Hugging Face hub's client. Raises Failure."""
        for client in HUB_CLIENTS:
            if not self._hub_client and self.run("sh", "-c", f"command -v {client}", output=subprocess.DEVNULL) == 0:
                self._hub_client = client
        if not self._hub_client:
            raise Failure("hf is not installed in the job's environment", "run pip install huggingface_hub in it")
        return self._hub_client


def _fetch(environment: Environment, download: Download) -> bool:
    """Download it if necessary, and return whether it is now present."""
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
