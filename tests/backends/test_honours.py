"""The meaning of a backend's `honours`: a key's words, ANY, a whole section; everything else is rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from jobc.backends.local.backend import LocalBackend
from jobc.compiler.checks.capabilities import unsupported_values
from jobc.compiler.plan.launch_plan import BackendRequirement
from jobc.compiler.plugins.backend import ANY


class Some(LocalBackend):
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": ("spawn",), "secret_kinds": ("env", "file"), "queue.*": ANY, "mounts": ANY,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "left"),
    [
        ("launcher", "spawn", ()),
        ("launcher", "srun", ("srun",)),
        ("secret_kinds", ("env", "k8s"), ("k8s",)),
        ("queue.name", "night", ()),
        ("queue.after", ("7", "8"), ()),
        ("lifecycle.keep_s", 60, (60,)),
        ("labels", {"team": "audio"}, ({"team": "audio"},)),
    ],
)
def test_what_a_backend_does_not_honour_is_left(key: str, value: Any, left: tuple[Any, ...]) -> None:
    assert unsupported_values(Some(), BackendRequirement(key, value, must=True)) == left
