"""What the plan promises, next to what was read. Every plan key is compared, or waived with a reason.

In   the values of .jobc/plan.txt by key, what the engine's reader found, what each node did
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...trainer.env import TABLE
from ...trainer.rt.gpu_names import is_of_type
from ..values import expand_hostlist
from .launchers import MOST_LOCAL, Node
from .reading import ARTIFACT, PROJECT, RUN, Meeting, Reading
from .stage import ScriptStage
from .variables import unasked

NOT_COMPARED = {
    "backend": "the backend's own options: what they do to a common fact is compared there",
    "accelerate_extra": "merged into accelerate.yaml as it is; accelerate alone knows what it means",
    "deepspeed_extra": "merged into deepspeed.json as it is; DeepSpeed alone knows what it means",
    "code.max_bytes": "a limit of submit.sh, which no rank sees",
    "code.repository": "where node 0 or submit.sh gets the code; the ranks see a folder",
    "code.commit": "where node 0 or submit.sh gets the code; the ranks see a folder",
    "env.OPTIND": "the environment is noted by a bash 5.2, which begins with 1",
    "env.PS4": "the environment is noted by a bash 5.2, which as root takes none from outside",
    "run.keep": "clean.sh and submit.sh remove old runs by it; no rank sees it",
    "run.storage": "who makes and who sees the run folder: the backend's files differ as a whole by it",
    "run.endpoint": "of the bucket: read by the library that copies to it",
    "run.region": "of the bucket: read by the library that copies to it",
    "run.scratch": "of the bucket: read by the library that copies to it",
    "caches.prefetch": "what prefetch.sh brings before the job",
    "secret_kinds": "made from secrets, which are compared one by one",
    "setup.kind": "made from setup.lines, which are run and compared",
    "parallel": "of the trainer: train.parallel.kind",
    "rendezvous.port": "0 means that node 0 chooses; another number is compared as the port of the ranks",
}
NEUTRAL: tuple[Any, ...] = (None, [], {}, False, 0, "")
WISHES = ("queue", "resources", "labels", "lifecycle")  # sections of which an engine may leave a key out
STARTED_BY_NODE = ("docker", "apptainer")


def setup(plan: Mapping[str, Any], place: ScriptStage) -> tuple[tuple[str, ...], ...]:
    """What the plan's own lines call, run as node.sh runs its: (`module`, `load`, `cuda/12`), …"""
    lines = [*plan["setup.modules"], *plan["setup.lines"]]
    calls = place.run(["bash", "-c", "\n".join(lines)]) if lines else []
    return tuple(call.words for call in calls if call.name in ("module", "conda", "source"))


class Expectation:
    """Compares once; `compared` holds the plan keys that were."""

    def __init__(
        self,
        plan: Mapping[str, Any],
        files: Mapping[str, str],
        honours: Mapping[str, Any],
        reading: Reading,
        nodes: Sequence[Node],
    ) -> None:
        self.plan, self.files, self.honours, self.reading, self.nodes = plan, files, honours, reading, nodes
        self.compared = {"setup.lines", "setup.modules"}  # by check.py

    def differences(self) -> list[str]:
        parts = (self._engine, self._node_facts, self._ranks, self._environment, self._container, self._train)
        found = list(dict.fromkeys(found for part in parts for found in part()))
        unsaid = [k for k in self.plan if k not in self.compared and self.plan[k] not in NEUTRAL and not self._why(k)]
        return found + [f"{key}: nothing says it, the plan has {_shown(self.plan[key])}" for key in unsaid]

    def waived(self) -> dict[str, str]:
        """Plan keys that were not compared. Call after differences()."""
        return {key: why for key in sorted(self.plan) if key not in self.compared and (why := self._why(key))}

    def _why(self, key: str) -> str:
        family = key.split(".")[0]
        if self.plan[key] in NEUTRAL:
            return ""  # asks for nothing
        if key == "resources.gpu_type" and not self.plan["topology.gpus"]:
            return "a type of GPUs that the job has none of"
        for known in (self.reading.waived, NOT_COMPARED):
            if found := known.get(key) or known.get(family):
                return found
        known_family = f"{family}.*" in self.honours or family in self.honours
        if family in WISHES and key not in self.honours and not known_family:
            return f"{self.plan['backend.name']} has no word for it; README.md of the artifact names it as left out"
        return ""

    def _planned(self, key: str) -> Any:
        """What the plan says of a key; `backend.extra` is merged last, so it wins over a key of the backend."""
        first, _, name = key.rpartition(".")
        extra = (at for at in self.plan if at.startswith("backend.extra.") and at.endswith(f".{name}"))
        return self.plan[next(extra, key) if first == "backend" else key]

    def _is(self, key: str, read: Any, where: str, planned: Any = None) -> Iterator[str]:
        planned = self.plan[key] if planned is None else planned
        self.compared.add(key)
        if read != planned:
            yield f"{key}: {where} has {_shown(read)}, the plan {_shown(planned)}"

    def _engine(self) -> Iterator[str]:
        """Facts of the engine's own files."""
        facts = dict(self.reading.facts)
        where = f"what {self.plan['backend.name']} reads"
        if "hosts" in facts:
            yield from self._hosts(facts.pop("hosts"), where)
        if "resources.hosts" in facts:
            yield from self._is("resources.hosts", facts.pop("resources.hosts"), where, _hosts(self.plan))
        if "node_labels" in facts:
            yield from self._gpu_label(facts.pop("node_labels"), where)
        if "labels" in facts:
            yield from self._mapping("labels", facts.pop("labels"), where)
        secrets = facts.pop("secrets", {})
        self.secrets = dict(secrets)  # the rest is in node.sh, and compared with it
        for name, ref in secrets.items():
            if tuple(ref) != (planned := self._planned_secrets().get(name, ())):
                yield f"secrets.{name}: {where} has {_shown(ref)}, the plan {_shown(planned)}"
        for key in ("mounts", "container.kind", "container.image", "container.workdir", "pyxis.mounts"):
            facts.pop(key, None)  # see _container
        for name, other in self.reading.extra.items():
            is_asked = any(f"{key}.".startswith(f"backend.extra.{name}.") for key in self.plan)
            if not is_asked and not (other and self.plan[other]):
                yield f"backend.extra.{name}: {where} has it, and nothing in the plan asks for it"
        if self.plan["resources.shm_bytes"] is None:
            facts.pop("resources.shm_bytes", None)  # of an engine that must have some number
        for key, value in facts.items():
            if key == "resources.mem_bytes" and value is not None and self.plan[key] is not None:
                unit = 1024**3 if self.plan["backend.name"] == "skypilot" else 1024**2
                yield from self._is(key, -(-value // unit), where, -(-self.plan[key] // unit))
            elif key == "run.root" and self.plan["run.storage"] == "object":
                continue
            else:
                yield from self._is(key, value, where, _none(self._planned(key), value))
        for key in ("resources.cpus", "resources.mem_bytes"):
            if self.plan[key] is not None and key in self.honours and key not in self.compared and self._asks(key):
                yield f"{key}: {where} asks for nothing, the plan for {self.plan[key]}"
        yield from self._absent(where)

    def _asks(self, key: str) -> bool:
        return bool(self.plan["backend.name"] != "local" and self.plan.get("backend.mem_policy", "given") == "given")

    def _absent(self, where: str) -> Iterator[str]:
        """A wish that the backend can say, that the plan has, and that its files do not say."""
        for key in self.plan:
            if not key.startswith("queue.") or key in self.compared or key in self.reading.waived:
                continue
            known = key in self.honours or "queue.*" in self.honours
            if known and self.plan[key] not in (None, [], False):
                yield f"{key}: {where} says nothing of it, the plan has {_shown(self.plan[key])}"

    def _hosts(self, hosts: list[str], where: str) -> Iterator[str]:
        """`hosts`, else the list that a scheduler is asked to prefer, else as many as there are nodes."""
        planned = _hosts(self.plan) or list(self.plan["queue.nodelist"])
        self.compared |= {"resources.hosts", "queue.nodelist"}
        if "resources.hosts" not in self.honours:  # addresses of this machine
            planned = []
        if planned and hosts != planned:
            yield f"resources.hosts: {where} has {','.join(hosts)}, the plan {','.join(planned)}"
        elif not planned and len(hosts) != self.plan["topology.nodes"]:
            yield f"topology.nodes: {where} has {len(hosts)} hosts, the plan {self.plan['topology.nodes']}"

    def _gpu_label(self, labels: Mapping[str, list[str]], where: str) -> Iterator[str]:
        """One label of the nodes stands for the type: by its own name, as the options say, or as products of it."""
        wanted = self.plan["resources.gpu_type"]
        if wanted is None:
            return
        self.compared.add("resources.gpu_type")
        mapped = self.plan.get(f"backend.gpu_labels.{wanted}", [wanted])
        if not any(read == mapped or all(is_of_type(v, wanted) for v in read) for read in labels.values()):
            yield f"resources.gpu_type: {where} asks for nodes of {_shown(labels)}, the plan for {wanted}"

    def _mapping(self, name: str, read: Mapping[str, Any], where: str) -> Iterator[str]:
        planned = {
            key.removeprefix(f"{name}."): value for key, value in self.plan.items() if key.startswith(f"{name}.")
        }
        self.compared |= {key for key in self.plan if key == name or key.startswith(f"{name}.")}
        added = (
            set() if any(key.startswith("backend.extra.") for key in self.plan) else read.keys()
        )  # which may add some
        for key in sorted(added | planned.keys()):
            if read.get(key) != planned.get(key):
                yield f"{name}.{key}: {where} has {_shown(read.get(key))}, the plan {_shown(planned.get(key))}"

    def _node_facts(self) -> Iterator[str]:
        for number, node in enumerate(self.nodes):
            where = f"node.sh (start {number})"
            facts = dict(node.facts)
            yield from self._secrets({**self.secrets, **facts.pop("secrets")}, where)
            if "run.dir" in facts:
                yield from self._run_folder(facts.pop("run.dir"), where)
            yield from self._caches(facts.pop("caches"), where)
            if "env.OMP_NUM_THREADS" in self.plan:
                facts.pop("threads_per_rank")
            for key, value in facts.items():
                if key.startswith("container.") or key == "mounts":
                    continue
                if key not in self.reading.waived or self.plan[key] == value:
                    yield from self._is(key, value, where, _none(self.plan[key], value))
            for key in ("resources.gpu_type", "resources.shm_bytes"):
                if self.plan[key] is not None and key not in self.compared and self._checked_there(key):
                    yield f"{key}: nothing asks for it, the plan has {_shown(self.plan[key])}"

    def _checked_there(self, key: str) -> bool:
        return key in self.honours and not (key == "resources.gpu_type" and not self.plan["topology.gpus"])

    def _secrets(self, read: Mapping[str, tuple[str, str]], where: str) -> Iterator[str]:
        planned = self._planned_secrets()
        self.compared |= {key for key in self.plan if key.startswith("secrets")}
        for name in sorted(read.keys() | planned.keys()):
            if tuple(read.get(name, ())) != planned.get(name, ()):
                yield f"secrets.{name}: {where} has {_shown(read.get(name))}, the plan {_shown(planned.get(name))}"

    def _planned_secrets(self) -> dict[str, tuple[str, str]]:
        plan = self.plan
        names = [key.split(".")[1] for key in plan if re.fullmatch(r"secrets\.\w+\.kind", key)]
        return {name: (plan[f"secrets.{name}.kind"], plan[f"secrets.{name}.ref"]) for name in names}

    def _run_folder(self, read: str, where: str) -> Iterator[str]:
        """ROOT/FOLDER of a run whose folder the nodes make; ROOT is below their home when it is not absolute."""
        plan = self.plan
        root = plan["run.scratch"] if plan["run.storage"] == "object" else plan["run.root"]
        root = root if root.startswith("/") else f"/home/user/{root.removeprefix('~/')}"
        if plan["run.storage"] == "object":
            read = re.sub(r"/node_\d+(?=/[^/]+$)", "", read)  # a folder of each node, which may share a disk
        planned = f"{root}/{plan['run.folder']}"
        self.compared |= {"run.root", "run.folder"}
        if read != planned:
            yield f"run.root: the run folders are in {read} for {where}, in {planned} by the plan"

    def _caches(self, calls: list[tuple[str, ...]], where: str) -> Iterator[str]:
        read = {key: folder for folder, key in calls}
        for key in ("caches.downloads", "caches.compiled"):
            self.compared.add(key)
            if read.get(key) != self.plan[key]:
                yield f"{key}: {where} has {_shown(read.get(key))}, the plan {_shown(self.plan[key])}"

    def _ranks(self) -> Iterator[str]:
        """Numbers, words, folders, and where they meet."""
        plan = self.plan
        procs, world = plan["topology.procs"], plan["topology.world_size"]
        ranks = [rank for node in self.nodes for rank in node.ranks]
        self.compared |= {"topology.world_size", "topology.nodes", "topology.procs", "command", "code.kind"}
        argv = ("python" if plan["command"][0] == "python3" else plan["command"][0], *plan["command"][1:])
        starts, chosen = len(self.reading.starts), len(self.nodes)
        per_start = 1 if plan["launcher"] == "srun" else procs
        if starts * per_start != world:
            yield f"topology.world_size: {starts} starts of {per_start} ranks, the plan has {world}"
        elif chosen == starts and procs <= MOST_LOCAL and sorted(rank.rank for rank in ranks) != list(range(world)):
            yield f"topology.world_size: the ranks are {sorted(r.rank for r in ranks)}, the plan has {world}"
        for rank in ranks:
            said = {"topology.world_size": (rank.world_size, world), "command": (rank.argv, argv)}
            said["node"] = (rank.node, rank.rank // procs)
            said["code.root"] = (rank.folder, self._folder())
            for key, (read, planned) in said.items():
                if read != planned:
                    yield f"{key}: rank {rank.rank} has {_shown(read)}, the plan {_shown(planned)}"
        yield from self._meeting([rank.rendezvous for rank in ranks])

    def _folder(self) -> str:
        """Where a rank starts: container.workdir, else the code."""
        plan = self.plan
        if plan["container.workdir"]:
            self.compared.add("container.workdir")
            return str(plan["container.workdir"])
        root = plan["code.root"]
        if plan["code.kind"] in ("snapshot", "rsync"):
            return f"{RUN}/code"
        if plan["code.kind"] == "git":
            return posixpath.normpath(f"{RUN}/code/{root}")
        there = posixpath.normpath(root if root.startswith("/") else f"{PROJECT}/{root}")
        return there if there.startswith(PROJECT) and ".." not in root.split("/") else RUN  # the stage has no other

    def _meeting(self, said: list[Meeting]) -> Iterator[str]:
        places = {(meeting.address, meeting.port) for meeting in said}
        if len(places) > 1:
            yield f"rendezvous: the ranks meet at {' and '.join(sorted(':'.join(p) for p in places))}"
        for address in sorted({address for address, _ in places} - {self.reading.head}):
            yield f"rendezvous: the ranks meet at {address}, and node 0 is {self.reading.head}"
        backend, port, timeout = (str(self.plan[f"rendezvous.{key}"]) for key in ("backend", "port", "timeout_s"))
        self.compared |= {"rendezvous.backend", "rendezvous.port", "rendezvous.timeout_s"}
        for meeting in said:
            if meeting.backend != backend:
                yield f"rendezvous.backend: the launcher has {meeting.backend}, the plan {backend}"
            if meeting.port != port and (port != "0" or self.plan["run.storage"] == "shared"):  # else the engine's
                yield f"rendezvous.port: the ranks have {meeting.port}, the plan {port}"
            if meeting.timeout not in ("", timeout):
                yield f"rendezvous.timeout_s: the launcher has {meeting.timeout}, the plan {timeout}"

    def _environment(self) -> Iterator[str]:
        """Every variable that the plan names, in every rank, and no other of its kind."""
        plan = self.plan
        wanted = {
            key.removeprefix("env."): value
            for key, value in plan.items()
            if key.startswith("env.") and key not in NOT_COMPARED
        }
        own = dict(wanted)
        if plan["topology.nodes"] > 1 and plan["topology.gpus"]:
            wanted = {**{s["name"]: s["value"] for s in plan["network.settings"]}, **wanted}
        if plan["run.data"]:
            wanted["JOBC_DATA_DIR"] = plan["run.data"]
        if plan["caches.offline"]:
            wanted |= dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"), "1")
        if plan["network.debug"]:
            wanted = {"NCCL_DEBUG": "INFO", **wanted}
        wanted |= {
            "JOBC_NODES": str(plan["topology.nodes"]), "JOBC_PROCS": str(plan["topology.procs"]),
            "JOBC_GPUS": str(plan["topology.gpus"]), "JOBC_LAUNCHER": "jobc", "JOBC_ATTEMPT": "0", "JOBC_RUN_DIR": RUN,
            "JOBC_TRAIN_JSON": f"{ARTIFACT}/train.json", "JOBC_LIB": f"{ARTIFACT}/lib",
        }  # fmt: skip
        if plan["launcher"] != "srun":
            wanted["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(plan["lifecycle.grace_s"])
        wanted = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": f"{ARTIFACT}/lib", **wanted}
        if "PYTHONPATH" in own:
            wanted["PYTHONPATH"] = f"{ARTIFACT}/lib:{own['PYTHONPATH']}"
        if plan["parallel"] == "deepspeed":
            wanted["JOBC_DEEPSPEED_JSON"] = f"{ARTIFACT}/deepspeed.json"
        self.compared |= {key for key in plan if key.startswith("env") and key not in NOT_COMPARED}
        self.compared |= {"network.settings", "network.debug", "run.data", "caches.offline"}
        for rank in (rank for node in self.nodes for rank in node.ranks):
            for name, value in wanted.items():
                if rank.env.get(name) != value:
                    key = f"env.{name}" if name in own else name
                    yield f"{key}: rank {rank.rank} has {_shown(rank.env.get(name))}, the plan {_shown(value)}"
            for row in TABLE:
                if row.setter == "backend" and row.name not in rank.env:
                    yield f"{row.name}: rank {rank.rank} does not get it: {row.meaning}"
            for name in unasked(plan, rank.env):
                yield f"{name}: rank {rank.rank} has {_shown(rank.env[name])}, and nothing in the plan sets it"
            yield from self._time_limit(rank.env.get("JOBC_TIME_LIMIT_S", ""))
            if rank.env.get("JOBC_NODE_RANK") != str(rank.node):
                said = rank.env.get("JOBC_NODE_RANK")
                yield f"JOBC_NODE_RANK: rank {rank.rank} has {said}, it is on node {rank.node}"

    def _time_limit(self, exported: str) -> Iterator[str]:
        """The supervisor keeps the time where no scheduler does: one of both, not both, not none."""
        key = "lifecycle.time_limit_s"
        if key in self.reading.facts:
            if exported not in ("0", ""):
                yield f"{key}: node.sh gets {exported} s as well, and the scheduler keeps the time"
        else:
            yield from self._is(key, int(exported) if exported.isdecimal() else exported, "the supervisor of a node")

    def _container(self) -> Iterator[str]:
        """Said by the engine's file, or by node.sh, which enters it."""
        plan, facts = self.plan, dict(self.reading.facts)
        for node in self.nodes[:1]:
            facts |= {k: v for k, v in node.facts.items() if k.startswith("container.")}
            if "mounts" in node.facts:
                facts["mounts"] = node.facts["mounts"]
        kind, where = plan["container.kind"], "what starts the container"
        yield from self._is("container.kind", facts.get("container.kind", "none"), where)
        for key in ("container.image", "container.workdir", "container.options"):
            if key in facts:
                yield from self._is(key, facts[key], where, _none(plan[key], facts[key]))
        self.compared |= {"container.image"} if kind == "none" else set()
        if kind in STARTED_BY_NODE:
            planned = [(m["source"], m["target"], "ro" if m["read_only"] else "rw") for m in plan["mounts"]]
            planned += [(plan["run.data"], plan["run.data"], "rw")] if plan["run.data"] else []
            yield from self._is("mounts", facts.get("mounts"), where, planned)
        elif kind == "pyxis":
            yield from self._pyxis(facts.get("pyxis.mounts", []), where)
        elif "mounts" in facts:
            planned = [m for m in plan["mounts"] if f"mounts.{m['kind']}" not in self.reading.waived]
            yield from self._is("mounts", facts["mounts"], where, planned)

    def _pyxis(self, read: list[tuple[str, str, str]], where: str) -> Iterator[str]:
        """Besides them Pyxis must mount the folders of run, project and data."""
        self.compared.add("mounts")
        for mount in self.plan["mounts"]:
            wanted = (mount["source"], mount["target"], "ro" if mount["read_only"] else "rw")
            if wanted not in read:
                yield f"mounts: {where} lacks {':'.join(wanted)}"

    def _train(self) -> Iterator[str]:
        """train.json, leaf by leaf; of a job with a program of its own as well, for helpers read it."""
        from ..convert import join

        def leaves(tree: Any, key: str) -> Iterator[tuple[str, Any]]:
            if isinstance(tree, Mapping) and tree:
                for name, inner in tree.items():
                    yield from leaves(inner, join(key, name))
            else:
                yield key, tree

        try:
            read = dict(leaves(json.loads(self.files["train.json"]), "train"))
        except ValueError as error:
            where = f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            yield f"train.json{where}: this is no JSON: {getattr(error, 'msg', error)}"
            return
        planned = {key: value for key, value in self.plan.items() if key.startswith("train.")}
        for key in sorted(read.keys() | planned.keys()):
            self.compared.add(key)
            if (key in read, read.get(key)) != (key in planned, planned.get(key)):
                yield f"{key}: train.json has {_shown(read.get(key))}, the plan {_shown(self.plan.get(key))}"


def _hosts(plan: Mapping[str, Any]) -> list[str]:
    return expand_hostlist(plan["resources.hosts"]) if plan["resources.hosts"] else []


def _none(planned: Any, read: Any) -> Any:
    """The planned value as a file can have it: nothing for None."""
    return read if planned is None and read in (None, "", 0) else "nothing" if planned is None else planned


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, tuple) else " ".join(map(str, value))
