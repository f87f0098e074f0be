"""Backend kubernetes: pods for preflight, smoke, shell and the storage of the runs, against a stand-in for kubectl."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobc.backends.kubernetes.engine import run_trial
from jobc.backends.kubernetes.engine.kubernetes_engine import KubernetesEngine
from jobc.runtime.engines.artifact_location import Place
from jobc.runtime.run_folder.run import Run
from jobc.runtime.verbs import preflight, shell, smoke

from .kubectl_stand_in import API, DONE, LIVE, Demo, named

SHELL = "demo-1a2b-shell-0a0b0c"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Demo]:
    made = Demo(tmp_path, monkeypatch, capsys)
    yield made
    for folder in tmp_path.glob("runs/demo/*/artifact/*"):
        folder.chmod(0o755)


# ---- checks and a shell


def log(*lines: str) -> str:
    return "".join(f"[pod/demo-1a2b-smoke-{line[0]}-x7z/node] {line[3:]}\n" for line in lines)


@pytest.mark.parametrize("last", ["0", "71"])
def test_smoke_prints_what_each_pod_does_and_removes_them(demo: Demo, last: str) -> None:
    demo.kubectl.made = DONE
    exits = ("jobc: payload exit code: 0", f"jobc: payload exit code: {last}")
    demo.kubectl.log = log("1: all-reduce", f"1: {exits[1]}", "0: all-reduce", f"0: {exits[0]}")
    assert demo(smoke) == (int(last != "0"), "0: all-reduce\n1: all-reduce\n")
    manifests = "".join(demo.kubectl.created)
    assert 'value: "smoke"}\n' in manifests and "name: demo-1a2b-smoke\n" in manifests
    assert "JOBC_NODE_LIST='demo-1a2b-smoke-[0-1]'" in manifests
    assert demo.kubectl.changes()[-1] == f"{API}/demo-1a2b --filename=-"


def test_pods_that_do_not_end_are_removed_too(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.kubectl.made = LIVE
    monkeypatch.setattr(run_trial, "LONGER_S", -3)
    code, output = demo(smoke)
    assert code == 1 and "error: the pods have not ended after 0 s\n" in output
    assert demo.kubectl.changes()[-1] == f"{API}/demo-1a2b --filename=-"


def test_preflight_makes_a_table_of_what_the_pods_found(demo: Demo) -> None:
    demo.kubectl.made = DONE
    lines = ["0: ok\tdisk\tenough", "0: end", "1: ok\tdisk\tenough", "1: jobc: waiting", "1: end"]
    exits = [f"{node}: jobc: payload exit code: 0" for node in (0, 1)]
    demo.kubectl.log = log(*lines, *exits)
    code, output = demo(preflight)
    assert code == 0 and output.startswith("ok    the cluster accepts the job in namespace ns\n"), output
    assert "ready: 2 nodes" in output and "waiting" not in output
    demo.kubectl.log = log(*lines, exits[0])
    assert demo(preflight)[0] == 1, "a pod did not say how it ended"


def test_a_shell_without_a_live_run_is_in_a_pod_of_its_own(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    module = sys.modules[KubernetesEngine.__module__]
    monkeypatch.setattr(module, "run_attached_to_terminal", lambda words: started.append(named(" ".join(words))) or 3)
    assert demo(shell, "--node", "1", "--", "true", "--all")[0] == 3
    program = "python3 -I -S /jobc/files/start.py"
    command = f"kubectl --namespace=ns exec --stdin {SHELL} --container=node -- {program} shell true --all"
    assert started == [command]
    assert demo.kubectl.changes()[-1] == f"delete --raw /api/v1/namespaces/ns/pods/{SHELL} --filename=-"
    assert demo(shell, "--node", "2")[0] == 2


def test_the_pod_of_a_shell_and_its_config_map_have_names_of_their_own(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[KubernetesEngine.__module__], "run_attached_to_terminal", lambda words: 0)
    assert demo(shell)[0] == 0
    pod, config_map = demo.kubectl.created
    assert json.loads(pod)["metadata"] == {"name": SHELL, "labels": {"jobc/shell": "demo-1a2b"}}
    assert json.loads(pod)["spec"]["volumes"] == [{"name": "files", "configMap": {"name": SHELL}}]
    assert f"  name: {SHELL}\n" in config_map and "JOBC_NODE_LIST='demo-1a2b-[0-1]'" in config_map
    owner = {"apiVersion": "v1", "kind": "Pod", "name": SHELL, "uid": "uid-1"}
    assert f"ownerReferences: [{json.dumps(owner)}]" in config_map


# ---- the storage of the runs


def sent(demo: Demo, *names: str) -> tuple[KubernetesEngine, list[Run]]:
    runs = []
    for name in names:
        assert demo.submit("--run-id", name)[0] == 0
        runs.append(Run(demo.folder / "runs/demo" / name))
    demo.kubectl.calls.clear()
    engine = Place(demo.artifact).engine()
    assert isinstance(engine, KubernetesEngine)
    return engine, runs


def test_runs_are_removed_through_one_pod(demo: Demo) -> None:
    engine, runs = sent(demo, "a", "b")
    assert [engine.remove_outside_run_folder(run) for run in runs] == [True, True]
    removals = [call for call in demo.kubectl.calls if call.startswith("exec")]
    assert removals == [f"exec {SHELL} --container=node -- rm -rf -- /shared/runs/demo/{name}" for name in "ab"]
    assert sum('"kind": "Pod"' in text and "metadata:" not in text for text in demo.kubectl.created) == 1
    engine.close()
    assert demo.kubectl.calls[-1] == f"delete --raw /api/v1/namespaces/ns/pods/{SHELL} --filename=-"


def test_a_run_stays_if_no_pod_starts_which_is_waited_for_once(demo: Demo) -> None:
    engine, runs = sent(demo, "a", "b")
    demo.kubectl.phase = "Pending"
    assert [engine.remove_outside_run_folder(run) for run in runs] == [False, False]
    assert sum(call.startswith("get pod ") for call in demo.kubectl.calls) == 4
    assert f"pod {SHELL} has not started" in named(demo.capsys.readouterr().err)


def test_a_run_in_a_bucket_is_removed_by_a_pod(demo: Demo) -> None:
    demo.set(storage="object")
    engine, runs = sent(demo, "a")
    assert engine.remove_outside_run_folder(runs[0])
    program = "python3 -I -S /jobc/files/start.py"
    command = f"exec {SHELL} --container=node -- env JOBC_RUN_ID=a {program} bucket remove"
    assert command in demo.kubectl.calls


@pytest.mark.parametrize(("codes", "text"), [("0\n65\n", "failed (exit 65"), ("0\n", "it was deleted by hand")])
def test_how_a_run_ended_whose_object_is_gone_is_on_its_storage(demo: Demo, codes: str, text: str) -> None:
    engine, runs = sent(demo, "a")
    demo.kubectl.codes = codes
    assert "it was deleted by hand" in engine.state(runs[0]).text
    engine.fetch("state", runs)
    assert not demo.kubectl.changes()
    engine.fetch("news", runs)
    assert text in engine.state(runs[0]).text
