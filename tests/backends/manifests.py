"""Compile and parse manifests for tests of backend kubernetes that need no cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from jobc.compiler.diagnostics.diagnostic import CompileError
from jobc.compiler.pipeline.compile import compile_job
from jobc.compiler.pipeline.types import CompileRequest
from jobc.tests.podrunner.schema import invalid, problem

SHARED = "mounts=[{kind: claim, source: shared, target: /shared, read_only: false}]"
PLAIN = ("backend=kubernetes", "image=x", "storage.root=/shared/runs", SHARED)


def compile_files(*words: str) -> dict[str, str]:
    return {file.path: file.text for file in compile_job(CompileRequest((*PLAIN, *words))).artifacts}


def codes(*words: str) -> list[str]:
    with pytest.raises(CompileError) as refused:
        compile_job(CompileRequest((*PLAIN, *words)))
    return [diagnostic.code for diagnostic in refused.value.diagnostics]


def strictly(item: dict[str, Any], version: str) -> str:
    """Return the error of a real decoder for that kind, or ""; a custom resource has one version of models."""
    return problem(item, version) or invalid(item)


def lone_pod(files: Mapping[str, str]) -> dict[str, Any]:
    """The pod that jobctl shell creates."""
    pod: dict[str, Any] = json.loads(json.loads(files[".jobc/job.json"])["lone_pod"])
    return pod


def pod_specs(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for inner in node.values():
            yield from pod_specs(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from pod_specs(inner)
