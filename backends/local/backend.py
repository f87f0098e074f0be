"""Local: this machine, without a scheduler. jobctl submit itself starts one node's ranks, or several nodes on this
machine.

Emits: hosts.txt with this machine's addresses if there are several nodes, otherwise nothing.
Launch: ./jobctl submit
Source: torchrun manual, PyTorch 2.13 (docs.pytorch.org/docs/stable/elastic/run.html).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

from ...compiler.diagnostics.diagnostic import Diagnostic, Severity
from ...compiler.diagnostics.origin import COMMAND_LINE
from ...compiler.emit.artifact import Artifact
from ...compiler.emit.render import Leaf, Omit, Render, of
from ...compiler.emit.source_map import SpecValue
from ...compiler.plan.launch_plan import LaunchPlan
from ...compiler.plan.runtime_vars import RuntimeVar, Scope, Spelling
from ...compiler.plugins.backend import ANY, NODE_LAUNCHERS, Backend, Filled
from ...compiler.spec.job_spec import JobSpec
from ...runtime.system.frozen_dataclass import dataclass
from .._shared import hosts


@dataclass(frozen=True)
class LocalOptions:
    """Options of backend local. detach: whether submit returns immediately and the run continues without a terminal."""

    detach: bool


class LocalBackend(Backend):
    name = "local"
    Options = LocalOptions
    launch = "./jobctl submit"
    runs_here = True
    spellings: ClassVar[Mapping[RuntimeVar, Spelling]] = {  # all known at submit, because jobctl submit creates the run
        RuntimeVar.JOB_ID: Spelling(Scope.SUBMIT, "$run_id"),
        RuntimeVar.RUN_ID: Spelling(Scope.SUBMIT, "$run_id"),
        RuntimeVar.RUN_DIR: Spelling(Scope.SUBMIT, "$run"),
        RuntimeVar.ATTEMPT: Spelling(Scope.SUBMIT, "$attempt"),
        RuntimeVar.NODE_RANK: Spelling(Scope.SUBMIT, "0, or line number of the address in hosts.txt, counted from 0"),
        RuntimeVar.HEAD_ADDR: Spelling(Scope.SUBMIT, "127.0.0.1"),
        RuntimeVar.HEAD_PORT: Spelling(Scope.NODE, "plan.rendezvous.port, or 0: node 0 chooses a port and shares it"),
    }
    honours: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "launcher": NODE_LAUNCHERS,
        **hosts.container_settings("docker", "apptainer"),
        "code.kind": ("snapshot", "shared", "none"),
        "run.storage": ("shared",),
        "secret_kinds": ("env", "file"),
        "resources.cpus": ANY,  # sets the ranks' thread count
        "resources.gpu_type": ANY,  # checked before the ranks start
        "network.*": ANY,
        "lifecycle.time_limit_s": ANY,
    }

    def filled(self, spec: JobSpec, options: LocalOptions, values: Mapping[str, SpecValue]) -> Iterator[Filled]:
        """Yield nodes=1 for a GPU job unless the command line sets `nodes`. Nodes would share this machine's GPUs."""
        origin = values["nodes"].origin
        if spec.gpus and spec.nodes > 1 and (origin is None or origin.root != COMMAND_LINE):
            because = f"backend local starts all ranks on this machine, so {spec.nodes} nodes would share its GPUs"
            title = f"nodes={spec.nodes} is reduced to 1 on this machine"
            note = Diagnostic("JC2023", title, because, "nodes=1", key="nodes", severity=Severity.NOTE)
            yield Filled("nodes", 1, ("backend",), note)

    def check(self, plan: LaunchPlan, options: LocalOptions) -> Iterator[Diagnostic]:
        yield from hosts.check_mounts(self.name, plan)

    def engine_settings(self, plan: LaunchPlan, options: LocalOptions) -> Mapping[str, Any]:
        return {
            **{key: partial(_if_several_nodes, leaf) for key, leaf in hosts.node_settings().items()},
            "detach": lambda v: getattr(v.options, "detach", False),  # a plugin that inherits may have other options
        }

    def emit(self, plan: LaunchPlan, options: LocalOptions, render: Render) -> Iterator[Artifact]:
        if plan.topology.nodes > 1:
            yield render.record_choice(hosts.loopback_hosts_file(render, plan), of.plan.topology.nodes)


def _if_several_nodes(leaf: Leaf, v: Any) -> Any:
    return leaf(v) if v.plan.topology.nodes > 1 else Omit


BACKEND = LocalBackend()
