from __future__ import annotations

from collections.abc import Iterator

import pytest

from .s3_server import S3Server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server
