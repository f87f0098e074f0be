"""Site policies: installed packages with their own rules, found through the entry point group `jobc.policies`.

An entry point is an object with a `name` and a function `check(spec, plan)` that yields Diagnostics. A policy's codes
have a different prefix, and the pages about them are in `codes/` next to the module. `Policy` is a ready-made policy
that only needs its limits. A policy that cannot be loaded or run is an error (JC3093), because otherwise everything
would be allowed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

from ...runtime.system.frozen_dataclass import dataclass
from ..diagnostics.diagnostic import Diagnostic, Severity
from ..plan.launch_plan import LaunchPlan
from ..plugins.registry import find_policies
from ..spec.job_spec import JobSpec
from ..spec.value_types import format_duration

_DOCKER = "docker://"  # prefix that Apptainer and Pyxis use for Docker image names


@runtime_checkable
class PolicyProtocol(Protocol):
    name: str

    def check(self, spec: JobSpec, plan: LaunchPlan) -> Iterable[Diagnostic]:
        """Yield the violations of this policy. Must not have side effects."""


@dataclass(frozen=True)
class Policy:
    """A site's limits; None or () means no limit.

    images:      shell patterns such as `registry.lab.org/*`; a job's image must match one, ignoring `docker://`.
    most_time_s: maximum time limit in seconds; a job without a time limit is also rejected.
    labels:      names of required labels, such as the team that pays.
    severity:    severity of findings. A warning is printed, and `# jobc: allow` can suppress it.
    rules:       additional rule functions with the signature of check().
    """

    name: str
    images: tuple[str, ...] = ()
    most_time_s: int | None = None
    labels: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR
    rules: tuple[Callable[[JobSpec, LaunchPlan], Iterable[Diagnostic]], ...] = ()

    def check(self, spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
        yield from self._check_image(spec)
        yield from self._check_time(spec)
        yield from self._check_labels(spec)
        for rule in self.rules:
            yield from rule(spec, plan)

    def _check_image(self, spec: JobSpec) -> Iterator[Diagnostic]:
        image = (spec.image or "").removeprefix(_DOCKER)
        allowed = [pattern.removeprefix(_DOCKER) for pattern in self.images]
        if allowed and image and not any(fnmatchcase(image, pattern) for pattern in allowed):
            because = f"policy {self.name} allows {', '.join(self.images)}"
            hint = f"image={_example_image(allowed[0])}"
            title = f"image {spec.image} is not allowed at this site"
            yield Diagnostic("JC3090", title, because, hint, key="image", severity=self.severity)

    def _check_time(self, spec: JobSpec) -> Iterator[Diagnostic]:
        if self.most_time_s is not None and (spec.time is None or spec.time > self.most_time_s):
            most = format_duration(self.most_time_s)
            title = "jobs need a time limit at this site"
            if spec.time is not None:
                title = f"time={format_duration(spec.time)} is too long"
            because = f"policy {self.name} limits each job to {most}"
            hint = f"time={most}; with a queue, also lifecycle.max_requeues=3, because a requeued job resumes"
            yield Diagnostic("JC3091", title, because, hint, key="time", severity=self.severity)

    def _check_labels(self, spec: JobSpec) -> Iterator[Diagnostic]:
        for label in self.labels:
            if not spec.labels.get(label, "").strip():
                title, because = f"jobs need the label {label} at this site", f"policy {self.name} requires this label"
                hint = f"labels.{label}=NAME"
                yield Diagnostic("JC3092", title, because, hint, key=f"labels.{label}", severity=self.severity)


def _example_image(pattern: str) -> str:
    """Return an example image that the pattern allows, in lower case as registries require."""
    *parts, last = pattern.split("/")
    name, colon, tag = last.partition(":")
    if "*" in name and not colon:
        head, _, tail = name.rpartition("*")
        name, colon, tag = f"{head}name", ":", f"tag{tail}"
    named = "/".join([*parts, name]).replace("*", "name")
    return f"{named}{colon}{tag.replace('*', 'tag')}"


def required_keys() -> frozenset[str]:
    """Return the spec keys that policies require of every job. Call check() first: it reports broken policies."""
    policies = [plugin.load_module() for plugin in find_policies()]
    return frozenset(f"labels.{label}" for policy in policies if isinstance(policy, Policy) for label in policy.labels)


def check(spec: JobSpec, plan: LaunchPlan) -> Iterator[Diagnostic]:
    for plugin in find_policies():
        try:
            policy = plugin.load_module()
            if not isinstance(policy, PolicyProtocol):
                raise TypeError("the policy must define both `name` and `check`")
            diagnostics: list[Any] = list(policy.check(spec, plan))
            for diagnostic in diagnostics:
                if not isinstance(diagnostic, Diagnostic):
                    raise TypeError(f"the policy yields {diagnostic!r}, which is not a Diagnostic")
        except (Exception, SystemExit) as error:  # another package's code may raise anything
            title, because = f"policy {plugin.name} cannot be checked", f"{type(error).__name__}: {error}"
            hint = "fix the policy's package, or uninstall it if the policy should not apply here"
            yield Diagnostic("JC3093", title, because, hint)
        else:
            yield from (replace(diagnostic, policy=plugin.name) for diagnostic in diagnostics)
