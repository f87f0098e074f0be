"""SkyPilot reads what jobc emits, and its schema is the one that the backend carries."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.skypilot import schema
from jobc.tests.skypilot.bed import HERE, SKY, seed_catalog

GOLDEN = Path(__file__).parents[1] / "golden" / "skypilot"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("home")
    seed_catalog(home)
    files = [str(file) for file in sorted(GOLDEN.glob("*/expected/task.sky.yaml"))]
    environment = {**os.environ, "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [str(SKY / "bin" / "python"), "-W", "ignore", str(HERE / "read_tasks.py"), *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_skypilot_takes_every_golden_task(said: dict[str, Any]) -> None:
    answers = {Path(file).parts[-3]: answer for file, answer in said.items() if file != "schemas"}
    assert len(answers) >= 10 and not any(answers.values()), answers


def test_the_schema_is_that_of_skypilot(said: dict[str, Any]) -> None:
    carried = json.loads(json.dumps(schema.schemas()))
    assert carried == said["schemas"], (
        "write it anew: get_task_schema() and get_resources_schema() of sky.utils.schemas"
    )
