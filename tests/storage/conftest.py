from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from jobc.runtime.run_folder.run_folder import RunFolder
from jobc.runtime.storage.bucket import Bucket
from jobc.runtime.storage.bucket_run import BucketRun

from .s3_server import S3Server

numbers = count()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def run(server: S3Server) -> BucketRun:
    return BucketRun(server.bucket(), f"job/{next(numbers)}", pause=lambda s: time.sleep(s / 20))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    for name in ("state", "logs", "control", "metrics"):
        (tmp_path / "here" / name).mkdir(parents=True)
    yield RunFolder(tmp_path / "here", 0)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the requests to the store in order: `+ NAME` for a written object, `- NAME` for a removed one."""
    told: list[str] = []
    ask = Bucket._request

    def _request(self: Bucket, method: str, key: str | None, *rest: Any, **more: Any) -> Any:
        if key is not None and method in ("PUT", "DELETE"):
            told.append(f"{'+' if method == 'PUT' else '-'} {key.split('/', 2)[2]}")
        return ask(self, method, key, *rest, **more)

    monkeypatch.setattr(Bucket, "_request", _request)
    return told
