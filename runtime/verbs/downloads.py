"""Download a job's models and data sets, and run its own download commands, for `jobctl prefetch`.

In:  items with kind (model, dataset or run), what (a name on the Hugging Face hub, or a command) and maybe revision.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from ..engines.artifact_location import Place
from ..node.node_start import launch_command_of_node, run_program
from ..system.failure import Failure, print_failure

HUB_CLIENTS = ("hf", "huggingface-cli")  # the second is its name before huggingface_hub 0.34
NOT_FOUND = 127
_RUN_HUB_CLIENT = 'for c in "$0" "$1"; do command -v "$c" >/dev/null && shift && exec "$c" "$@"; done; exit 127'


def download_items(place: Place, items: Iterable[Mapping[str, str]]) -> None:
    """Download the items in order. Raises Failure if some could not be downloaded."""
    failed = [item["what"] for item in items if not _download_item(place, item)]
    if failed:
        raise Failure(f"could not be downloaded: {' '.join(failed)}", "the lines above show why")


def _download_item(place: Place, item: Mapping[str, str]) -> bool:
    print(f"== {item['what']}", flush=True)
    if item["kind"] == "run":
        return _run_in_environment(place, "bash", "-c", item["what"]) == 0
    revision = ["--revision", item["revision"]] if item.get("revision") else []
    options = ["download", item["what"], "--repo-type", item["kind"], *revision]
    code = _run_in_environment(place, "sh", "-c", _RUN_HUB_CLIENT, *HUB_CLIENTS, *options)
    if code != NOT_FOUND:
        return code == 0
    title = "hf is not installed in the job's environment"
    sys.stdout.flush()
    print_failure(Failure(title, "run pip install huggingface_hub in that environment"))
    return False  # the other downloads may still work


def _run_in_environment(place: Place, *command: str) -> int:
    """Run a command in the ranks' environment, on this machine and with internet access. Return its exit code."""
    environ = {**os.environ, "JOBC_ONLINE": "yes", "JOBC_RUN_DIR": "", "JOBC_PROJECT": str(place.project)}
    return run_program([*launch_command_of_node(place.artifact, "shell"), *command], environ)
