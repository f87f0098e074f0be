"""JC2025: options in torchrun.extra that torchrun does not have; JC4600: options that jobc sets.

Source: PyTorch 2.13, torch/distributed/run.py, get_args_parser().
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...diagnostics.diagnostic import Diagnostic, nearest
from ...emit.extra_entries import check_extra_entries
from ...plan.derive import TORCHRUN_LAUNCHERS, torchrun_option_name
from ...spec.job_spec import JobSpec

OPTIONS = frozenset({
    "duplicate-stderr-filters", "duplicate-stdout-filters", "event-log-handler", "local-addr", "local-ranks-filter",
    "logs-specs", "monitor-interval", "numa-binding", "redirects", "role", "signals-to-handle", "start-method", "tee",
    "virtual-local-rank",
})  # fmt: skip
FLAGS = frozenset({"virtual-local-rank"})
SET_BY_JOBC: Mapping[str, str] = {
    "help": "the words after --",
    "log-dir": "storage.root",
    "master-addr": "hosts",
    "master-port": "rendezvous.port",
    "max-restarts": "lifecycle.max_restarts",
    "module": "the words after --",
    "nnodes": "nodes",
    "no-python": "the words after --",
    "node-rank": "hosts",
    "nproc-per-node": "procs",
    "rdzv-backend": "rendezvous.backend",
    "rdzv-conf": "rendezvous.timeout",
    "rdzv-endpoint": "hosts and rendezvous.port",
    "rdzv-id": "name",
    "run-path": "the words after --",
    "shutdown-timeout": "lifecycle.grace",
    "standalone": "nodes",
}


def check(spec: JobSpec) -> Iterator[Diagnostic]:
    extra = spec.torchrun.extra
    if extra and spec.launcher not in TORCHRUN_LAUNCHERS:
        because = f"launcher={spec.launcher} does not start torchrun"
        yield Diagnostic("JC2025", "torchrun.extra has no effect", because, "launcher=torchrun", key="torchrun.extra")
        return
    names = {name: torchrun_option_name(name) for name in extra}
    protected: dict[tuple[str, ...], str] = {
        (name,): SET_BY_JOBC[option] for name, option in names.items() if option in SET_BY_JOBC
    }
    yield from check_extra_entries(extra, protected, ("torchrun", "extra"))
    for name, option in names.items():
        key, value = f"torchrun.extra.{name}", extra[name]
        if option in SET_BY_JOBC:
            continue
        if option not in OPTIONS:
            close = nearest(option, OPTIONS)
            hint = f"torchrun.extra.{close[0]}={value}" if close else f"remove {key}"
            because = f"torchrun of PyTorch 2.13 has {', '.join(sorted(OPTIONS))}"
            yield Diagnostic("JC2025", f"torchrun has no option --{option}", because, hint, key=key)
        elif not _is_readable(value, option in FLAGS):
            title, hint = f"torchrun cannot read the value of {key}", f"remove {key}"
            because = f"--{option} is {'a flag: true or false' if option in FLAGS else 'an option with one value'}"
            yield Diagnostic("JC2025", title, because, hint, key=key)


def _is_readable(value: Any, is_flag: bool) -> bool:
    if value is None:
        return True
    return isinstance(value, bool) if is_flag else type(value) in (str, int, float)
