"""The equivalence check: what the verbs do, each on its own: an edit of what they call, and of when, is noticed."""

from __future__ import annotations

import re

import pytest

from jobc.compiler import pairs
from jobc.compiler.backend import CheckedVerbs
from jobc.compiler.compare import PLAN
from jobc.compiler.equivalence.check import check
from jobc.compiler.equivalence.reading import Files
from jobc.compiler.equivalence.stage import stage
from jobc.compiler.equivalence.verbs import PARTS
from jobc.compiler.registry import plugin

from .edited_jobs import OF, files_of


def found_in(files: dict[str, str], parts: tuple[str, ...] | None = None) -> list[str]:
    plan = pairs.read(files[PLAN])
    backend = plugin(plan["backend.name"]).load()
    assert isinstance(backend, CheckedVerbs)
    with stage(Files({path: text for path, text in files.items() if not path.startswith((".jobc/", "lib/"))})) as place:
        return [*backend.verbs()(place, plan).wrong(parts)]


@pytest.mark.parametrize("job", OF)
def test_the_verbs_of_every_engine_do_what_they_are_for(job: str) -> None:
    assert found_in(files_of(job)) == []


STOP, STATUS, LOGS, SHELL, CLEAN, SMOKE = "stop.sh", "status.sh", "logs.sh", "shell.sh", "clean.sh", "smoke.sh"
SUBMIT, ENGINE, PREFLIGHT, TASK, CLIENT = "submit.sh", "engine.sh", "preflight.sh", "task.sh", "client.sh"
EDITS = [  # job, file, what stands there, what somebody makes of it, what is said
    ("ssh", STOP, 'signal_nodes TERM "$run"', 'signal_nodes QUIT "$run"', "it sends QUIT QUIT KILL"),
    ("local", STOP, '  signal_nodes TERM "$run"\n', "", "it sends QUIT KILL, not TERM QUIT KILL"),
    ("slurm", STOP, 'mark_stopped "$run"\n', "", "it calls choose_live_run ; signal_nodes"),
    ("local", STOP, 'choose_live_run "$run_id"', "choose_live_run ''", "it calls choose_live_run ;"),
    ("kubernetes", STOP, "grace_s + 10))\" ", "grace_s + 11))\" ", "it waits 101 s, and says another number"),
    ("skypilot", STOP, "stop_run || code=1", "stop_run || true", "it ends with 0, not 1"),
    ("ssh", STATUS, 'fetch_news "$run"\n', "", "it calls choose_run X; describe_reason"),
    ("ssh", STATUS, 'describe_nodes "$run" 2', 'describe_nodes "$run" 1', "describe_nodes <run> 1"),
    ("skypilot", STATUS, 'describe_next "$run"\n', "", "not choose_run X; .*; describe_next <run>"),
    ("kubernetes", STATUS, 'choose_run "$run_id"', "choose_run ''", "it calls choose_run ;"),
    ("slurm", LOGS, '"$((10#$node))").log', '"$((10#$rank))").log', "it calls choose_run ,"),
    ("ssh", LOGS, "nodes=1\n  logs=rank_", "nodes=2\n  logs=rank_", "print_logs <run> 2"),
    ("local", LOGS, 'follow_logs "$run" "$nodes" "$logs"', 'follow_logs "$run" "$logs"', "follow_logs <run> node_00"),
    ("ssh", SHELL, "$((node + 1))p", "$((node + 2))p", "asks another host than node1|does not come to"),
    ("ssh", SHELL, "node=0\n", "node=1\n", "does not come to `0 0 shell cmd arg`"),
    ("slurm", SHELL, "on_nodes --nodes=1 ", "on_nodes --nodes=2 ", "it asks for more than one node"),
    ("kubernetes", SHELL, 'task.sh shell "$@"', 'task.sh shell "${@:2}"', "does not come to `shell cmd arg`"),
    ("slurm", SHELL, '/node.sh" "$node" shell', '/node.sh" "$id" shell', "does not come to `0 shell cmd arg`"),
    ("local", CLEAN, "\nremove_them", "\ntrue", "it removes nothing"),
    ("local", CLEAN, "if [[ -z $yes ]]; then", "if [[ -n $yes ]]; then", "removes nothing|nobody has confirmed"),
    ("ssh", CLEAN, '"$((10#$keep))"', "1", "find_old_runs 1"),
    ("local", SMOKE, 'exit "$code"', "exit 0", "it ends with 0, not 65"),
    ("ssh", SMOKE, "\ncode=0\n", "\ncode=1\n", "it ends with 1"),
    ("slurm", SMOKE, 'forget_secrets "$run"\n', "", "leaves the secrets"),
    ("ssh", PREFLIGHT, "all_nodes preflight", "all_nodes smoke", "not every node is asked for preflight"),
    ("local", SMOKE, "JOBC_RUN_DIR=$run ", "JOBC_RUN_DIR=$artifact ", "node.sh gets JOBC_RUN_DIR=<artifact>"),
    ("slurm", PREFLIGHT, "sbatch --test-only ", "sbatch ", "it queues the job"),
    ("skypilot", ENGINE, "(launch --cluster ", "(launch ", "SkyPilot is not told launch --cluster"),
    ("skypilot", ENGINE, '--env "JOBC_PAYLOAD=$1" ', "", "not told --env JOBC_PAYLOAD=smoke"),
    ("skypilot", ENGINE, 'sky_logs "$run" --follow', 'sky_logs "$run"', "what the job prints is not followed"),
    ("skypilot", ENGINE, "local to=$run/sent", "local to=$artifact/sent", "is not put where SkyPilot takes it from"),
    ("kubernetes", TASK, "RANK == 0)); then echo", "RANK == 1)); then echo", "node 0 does not say how"),
    ("kubernetes", TASK, 'shell "${@:2}"', 'shell "${@:3}"', "it does not come to node.sh 0 shell cmd arg"),
    ("kubernetes", TASK, "    export JOBC_HEAD_ADDR=127.0.0.1", "    :", "node 0 is looked for at head"),
    ("kubernetes", TASK, "of the payload: $code", "of the payload: 0", "the payload ended with 65"),
    ("kubernetes", ENGINE, "s/value: .*/value: $2/", "s/value: .*/value: train/", "the pods get JOBC_PAYLOAD=train"),
    ("trainjob", ENGINE, 's/value: .*/value: \\"$4\\"/', 's/value: .*/value: \\"\\"/', "the pods get JOBC_FORK_OF=,"),
    ("kubernetes", ENGINE, "s/\\b$own_object\\b/$own_object$1/g", "s/x/x/", "has the names of the job"),
    ("kubernetes", PREFLIGHT, "ask_server preflight ''", "ask_server preflight ", "it makes no object"),
    ("ssh", CLIENT, "fanout=32", "fanout=33", "fanout is 33, the plan has 32"),
    ("ssh", CLIENT, "  -o ConnectTimeout=10\n", "", "ssh is called without ConnectTimeout=10"),
    ("client", CLIENT, "  -p 2222\n", "", "ssh is called without -p 2222"),
    ("client", CLIENT, "  '-oProxyJump=gate way'\n", "", "ssh is called without -oProxyJump=gate way"),
    ("c10d", CLIENT, '-f "$fanout" ', "", "pdsh is called without -f 32"),
    ("clush", CLIENT, '-f "$fanout" ', '-f "32$fanout" ', "clush is called without -f 32"),
    ("ssh", SUBMIT, "  continue_run\n", "", "it calls choose_continued_run X; keep_run"),
    ("local", SUBMIT, "init_from=$run; fi", "init_from=''; fi", "describe_run , not"),
    ("slurm", SUBMIT, "init_from=$run; fi", "init_from=$artifact; fi", "describe_run <artifact>"),
    ("skypilot", SUBMIT, "  keep_run\n", "", "not choose_continued_run X; continue_run; keep_run"),
    ("ssh", SUBMIT, 'create_run "$run_id"', "create_run", "create_run; snapshot_code"),
    ("ssh", STOP, "if wait_for_end", "echo it has not ended after 9 s; if wait_for_end", "before it has waited for it"),
    ("ssh", SHELL, "then beside=yes; fi", "then beside=''; fi", "not come to `<run>/artifact/0/task.sh <run> 0 0 "),
    ("kubernetes", LOGS, "node=$((10#${node:-0}))\n", "node=0\n", "logs.sh --node 08: it calls choose_run ;"),
    ("kubernetes", LOGS, '  wait\n  run_status "$run"\n', "  wait\n", "it does not say how the run ended"),
    ("skypilot", LOGS, "at=$((10#$rank", "at=$((1 + 10#$rank", "it asks on_node c"),
    ("skypilot", ENGINE, "sky logs --tail 0 ", "sky logs ", "not followed from its beginning"),
    ("skypilot", ENGINE, "sky logs --tail 0 ", "sky logs --tail 5 ", "not followed from its beginning"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "path", "before", "after", "said"), EDITS, ids=lambda value: str(value)[:20])
def test_an_edit_of_a_verb_is_noticed(job: str, path: str, before: str, after: str, said: str) -> None:
    files = files_of(job)
    assert before in files[path], files[path]
    part = path.removesuffix(".sh")
    parts = {TASK: ("submit", "trials", "pods")}.get(path, ("submit", "trials"))
    found = found_in(
        {**files, path: files[path].replace(before, after, 1)}, (part,) if part in (*PARTS, "client") else parts
    )
    assert any(re.search(said, text) for text in found), found


@pytest.mark.parametrize(
    ("job", "path", "before", "after", "key"),
    [
        ("ssh", CLIENT, "fanout=32", "fanout=4", "backend.fanout"),
        ("ssh", CLIENT, "ConnectTimeout=10", "ConnectTimeout=9", "backend.connect_timeout"),
        ("c10d", CLIENT, "StrictHostKeyChecking=yes", "StrictHostKeyChecking=accept-new", "backend.host_keys"),
        ("client", CLIENT, "  -p 2222\n", "", "backend.port"),
        ("kubernetes", ENGINE, "start_timeout_s=1800", "start_timeout_s=60", "backend.start_timeout"),
    ],
)
def test_what_is_compared_is_not_said_to_be_left_out(job: str, path: str, before: str, after: str, key: str) -> None:
    files = files_of(job)
    edited = {**files, path: files[path].replace(before, after, 1)}
    for found in (check(files, thorough=True), check(edited, thorough=True)):
        assert key in found.compared and key not in found.waived
    assert found.differences


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (STOP, "\nchoose_live_run", "\necho 'one moment'\nchoose_live_run"),
        (STATUS, "\nchoose_run", "\ndate\nchoose_run"),
        (STOP, "\nchoose_live_run", "\necho 'nodes that have not ended yet are told to save'\nchoose_live_run"),
        (SUBMIT, "\nstart_run", "\nnotify-send started\nstart_run"),
        (SMOKE, "\ncreate_temporary_run", "\nmodule load x\ncreate_temporary_run"),
        (LOGS, "\nchoose_run", "\nrun_id=${run_id:-${MY_RUN:-}}\nchoose_run"),
    ],
)
def test_what_a_user_adds_to_a_verb_is_left_alone(path: str, before: str, after: str) -> None:
    part = path.removesuffix(".sh") if path != SMOKE else "trials"
    for job in ("local", "ssh", *(("kubernetes", "skypilot") if path in (STOP, STATUS, LOGS) else ())):
        files = files_of(job)
        assert before in files[path]
        assert found_in({**files, path: files[path].replace(before, after, 1)}, (part,)) == []
