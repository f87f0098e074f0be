"""logs: one log unchanged, logs of several nodes merged by time and while they grow, the first failure, and errors."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobc.backends.kubernetes.engine.kubernetes_engine import KubernetesEngine
from jobc.backends.skypilot.engine.skypilot_engine import SkypilotEngine
from jobc.runtime.engines.engine import Answer, Engine, Job, State
from jobc.runtime.engines.log_files import LogRequest, RequestedLogs, offset_of_last_lines, print_first_failure
from jobc.runtime.engines.print_logs import print_logs
from jobc.runtime.engines.sweep_engine import SweepEngine
from jobc.runtime.run_folder.run import Run, quote_shell_word
from jobc.runtime.system.failure import Failure
from jobc.runtime.verbs import logs as verb

from .sample_runs import ReplyingSlurm, make_job, make_run

CapText = pytest.CaptureFixture[str]
CapBytes = pytest.CaptureFixture[bytes]
NO_LOGS = Path("/nonexistent/logs")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "my 'run'" / "logs"
    folder.mkdir(parents=True)
    return folder


def say(logs: Path, node: int, time_s: int, *lines: str) -> None:
    """Append lines to the log of a node, as NodeLog does."""
    log, times = logs / f"node_{node:02}.log", logs / f".node_{node:02}.times"
    with times.open("a") as file:
        file.write(f"{time_s} {log.stat().st_size if log.exists() else 0}\n")
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def files(logs: Path, nodes: int = 2, name: str = "") -> RequestedLogs:
    return RequestedLogs(Run(logs.parent), name, nodes)


def printed(capture: CapBytes, printer: RequestedLogs, tail: int | None = None) -> str:
    """Return what the verb prints for the logs as they are now."""
    sizes = printer.log_sizes()
    if tail is not None:
        printer.skip_to_tail(sizes, tail)
    printer.print_up_to(sizes)
    return capture.readouterr().out.decode(errors="surrogateescape")


def engine_of(logs: Path, kind: type[Engine] = Engine, **settings: Any) -> Engine:
    return kind(Job("demo", logs.parent, logs.parent.parent, {"backend": "x", **settings}))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_of_nodes_come_in_the_order_in_which_they_were_printed(logs: Path, capfdbinary: CapBytes) -> None:
    say(logs, 0, 100, "a", "b é", "")
    say(logs, 1, 101, "c")
    say(logs, 0, 102, "d")
    say(logs, 10, 102, "e")
    say(logs, 1, 103, "f")
    lines = ["0  | a", "0  | b é", "0  | ", "1  | c", "0  | d", "10 | e", "1  | f"]
    assert printed(capfdbinary, files(logs, 11)) == "".join(f"node {line}\n" for line in lines)


def test_the_log_of_one_node_is_printed_as_it_is(logs: Path, capfdbinary: CapBytes) -> None:
    (logs / "node_00.log").write_bytes(b"50 %\n\ttab\x1b[31m\n\xff no newline")
    assert printed(capfdbinary, files(logs, 1)) == "50 %\n\ttab\x1b[31m\n\udcff no newline"


def test_what_has_been_printed_is_not_printed_again(logs: Path, capfdbinary: CapBytes) -> None:
    say(logs, 0, 100, "a")
    say(logs, 1, 101, "b")
    printer, log = files(logs), logs / "node_01.log"
    assert printed(capfdbinary, printer) == "node 0  | a\nnode 1  | b\n"
    append(log, "c\npart")
    assert printed(capfdbinary, printer) == "node 1  | c\nnode 1  | part\n"
    append(log, "ial\n")
    assert printed(capfdbinary, printer) == "node 1  | ial\n"
    assert printed(capfdbinary, printer) == ""
    say(logs, 1, 300, "late")
    say(logs, 0, 200, "early")
    assert printed(capfdbinary, printer) == "node 0  | early\nnode 1  | late\n"


def test_the_logs_of_a_thousand_nodes_are_merged_in_seconds(logs: Path, capfdbinary: CapBytes) -> None:
    for node in range(1000):
        say(logs, node, 100 + node % 7, "x" * 70)
        say(logs, node, 200 + node % 5, "y" * 70)
    before = time.process_time()
    lines = printed(capfdbinary, files(logs, 1000)).splitlines()
    assert len(lines) == 2000 and all("| x" in line for line in lines[:1000])
    assert time.process_time() - before < 2


def test_a_log_without_times_is_printed_first(logs: Path, capfdbinary: CapBytes) -> None:
    (logs / "node_00.log").write_text("a\n")
    say(logs, 1, 100, "b")
    assert printed(capfdbinary, files(logs)) == "node 0  | a\nnode 1  | b\n"


@pytest.mark.parametrize("times", ["x[$(id)] 0\n", "9" * 1000, "100 0", "\0" * 100, "100 0\n-1 -1\n"])
def test_forged_times_do_no_harm(logs: Path, capfdbinary: CapBytes, times: str) -> None:
    say(logs, 1, 100, "b")
    (logs / "node_00.log").write_text("a\n")
    (logs / ".node_00.times").write_text(times)
    assert printed(capfdbinary, files(logs)) == "node 0  | a\nnode 1  | b\n"


def test_a_long_line_is_printed_without_being_held_in_memory(logs: Path) -> None:
    os.truncate(os.open(logs / "node_00.log", os.O_CREAT | os.O_WRONLY), 300 << 20)
    append(logs / "node_00.log", "\nend\n")
    say(logs, 1, 100, "b")
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20));"
        "from pathlib import Path; from jobc.runtime.engines.log_files import RequestedLogs;"
        "from jobc.runtime.run_folder.run import Run; printer = RequestedLogs(Run(Path(sys.argv[1])), '', 2);"
        "printer.print_up_to(printer.log_sizes())"
    )
    words = [sys.executable, "-c", program, str(logs.parent)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    assert len(done.stdout) == (300 << 20) + len("node 0  | \nnode 0  | end\nnode 1  | b\n")
    assert done.stdout.endswith(b"\0\nnode 0  | end\nnode 1  | b\n")


@pytest.mark.parametrize("follow", [False, True])
def test_without_a_log_of_a_node_the_log_of_slurm_shows_why(
    tmp_path: Path, capfdbinary: CapBytes, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    answers = iter(["7 RUNNING None\n", "7 COMPLETED None\n"])

    class EndingSlurm(ReplyingSlurm):
        def ask(self, *_: Any, **__: Any) -> Answer:
            return Answer(0, next(answers), "")

    monkeypatch.setattr("jobc.runtime.engines.print_logs.TICK_S", 0)
    texts = {"state__job_0": "job_id=7\nexit=1\n", "logs__slurm-7.log": "launch.sh: line 9\nno module x\n"}
    run, engine = make_run(tmp_path, **texts), EndingSlurm(make_job(tmp_path))
    monkeypatch.setattr(engine, "live_every_s", 0)
    assert print_logs(engine, run, LogRequest(follow=follow, tail=1)) == 0
    assert capfdbinary.readouterr().out == b"no module x\n"
    with pytest.raises(Failure, match="no rank_00"):
        print_logs(engine, run, LogRequest(rank=0))
    (run.path / "logs/slurm-7.log").rename(engine.job.artifact / "slurm-7.out")  # after `sbatch job.sbatch`
    assert print_logs(engine, run, LogRequest()) == 0
    assert capfdbinary.readouterr().out == b"launch.sh: line 9\nno module x\n"


def test_only_logs_are_printed(logs: Path, tmp_path: Path, capfdbinary: CapBytes) -> None:
    (tmp_path / "secret").write_text("canary\n")
    (logs / "node_00.log").symlink_to(tmp_path / "secret")
    os.mkfifo(logs / "node_01.log")
    (logs / "node_02;touch MARK;.log").write_text("a\n")
    (logs / "node_03.log").mkdir()
    assert files(logs, 4).log_sizes() == {} and files(logs, 1).log_sizes() == {}
    (logs / ".node_04.times").symlink_to("/dev/zero")
    (logs / "node_04.log").write_text("a\n")
    assert printed(capfdbinary, files(logs, 5)) == "node 4  | a\n"


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nb", "a\nb\n", "\n\n\n", "é\n" * 100_000, "x" * 200_000 + "\ny\n"])
@pytest.mark.parametrize("lines", [1, 2, 3, 70_000])
def test_the_tail_of_a_log_is_its_last_lines(logs: Path, text: str, lines: int) -> None:
    log = logs / "node_00.log"
    log.write_text(text)
    content = text.encode()
    offset, count = offset_of_last_lines(log, len(content), lines)
    expected = content.splitlines(keepends=True)[-lines:]
    assert (content[offset:], count) == (b"".join(expected), len(expected))


def test_the_tail_of_several_nodes_is_that_of_the_merged_lines(logs: Path, capfdbinary: CapBytes) -> None:
    say(logs, 0, 100, "a")
    say(logs, 1, 101, "b")
    say(logs, 0, 102, "c", "d")
    assert printed(capfdbinary, files(logs), tail=3) == "node 1  | b\nnode 0  | c\nnode 0  | d\n"
    printer = files(logs)
    assert printed(capfdbinary, printer, tail=1) == "node 0  | d\n"
    say(logs, 1, 103, "e", "f")
    assert printed(capfdbinary, printer) == "node 1  | e\nnode 1  | f\n", "what comes later is not counted"
    assert printed(capfdbinary, files(logs, 1), tail=2) == "c\nd\n"


def fail(logs: Path, log: str, **keys: object) -> Run:
    run = logs.parent
    (run / "artifact/1").mkdir(parents=True)
    (run / "exit/1").mkdir(parents=True)
    (run / "exit/1/first").write_text("1\n" + "".join(f"{key}={value}\n" for key, value in keys.items()))
    (logs / "rank_02.log").write_text(log)
    return Run(run)


def shown_failure(capture: CapBytes, run: Run) -> str:
    failure = run.first_failure()
    assert failure is not None
    print_first_failure(run, failure)
    return capture.readouterr().out.decode()


def test_the_first_failure_is_shown_with_its_traceback(logs: Path, capfdbinary: CapBytes) -> None:
    old = "=== jobc: attempt 0, rank 2\nTraceback (most recent call last):\nOldError\n"
    now = "=== jobc: attempt 1, rank 2\nup\nTraceback (most recent call last):\n  x\nNewError\nlast\n"
    run = fail(logs, old + now, node=1, rank=2, reason="rank 2: NewError\x1b[2J")
    log = quote_shell_word(f"{run.path}/logs/rank_02.log")
    assert shown_failure(capfdbinary, run) == (
        f"jobc: node 1 failed first: rank 2: NewError[2J; the end of {log}:\n"
        "Traceback (most recent call last):\n  x\nNewError\nlast\n"
        "jobc: that failure was first; the lines below are older, or a consequence of it\n"
    )


def test_of_a_failure_without_a_traceback_the_last_lines_are_shown(logs: Path, capfdbinary: CapBytes) -> None:
    run = fail(logs, "".join(f"line {i}\n" for i in range(300)), node=1, rank=2, reason="killed")
    lines = shown_failure(capfdbinary, run).splitlines()
    assert lines[1:-1] == [f"line {i}" for i in range(280, 300)]


def test_a_failure_before_the_first_line_is_one_line(logs: Path, capfdbinary: CapBytes) -> None:
    run = fail(logs, "", node="1", rank="../../x", reason="no port")
    assert shown_failure(capfdbinary, run) == "jobc: node 1 failed first: no port\n"


# ---- the verb


class Scripted(Engine):
    """Returns one state after another, then `done`; an exception in the list is raised."""

    states: list[State]

    def query_again(self, runs: Sequence[Run]) -> tuple[Engine, list[Run]]:
        return self, list(runs)

    def state(self, run: Run) -> State:
        return self.states.pop(0) if self.states else State("done", "done (exit 0)", 0)


LIVE, UNKNOWN = State("live", "live"), State("unknown", "not known", None, "Slurm does not respond: timeout")


def scripted(logs: Path, *states: State, **settings: Any) -> Scripted:
    engine = engine_of(logs, Scripted, **settings)
    assert isinstance(engine, Scripted)
    engine.states, engine.live_every_s = list(states), 0
    return engine


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobc.runtime.engines.print_logs.TICK_S", 0.01)


def test_following_prints_all_and_ends_with_the_run(logs: Path, capfdbinary: CapBytes) -> None:
    say(logs, 0, 100, "a")
    say(logs, 1, 101, "b")
    assert print_logs(scripted(logs, *[LIVE] * 9, nodes=2), Run(logs.parent), LogRequest(follow=True)) == 0
    assert capfdbinary.readouterr().out == b"node 0  | a\nnode 1  | b\n"


def test_following_a_queued_run_prints_what_it_waits_for_when_that_changes(logs: Path, capfd: CapText) -> None:
    first, second = (State("queued", f"queued as job 7: {why}") for why in ("waiting for nodes", "next\x1b in line"))
    states = [first, first, second, LIVE, State("unknown", "unknown", None, "timeout"), LIVE, first, LIVE]
    print_logs(scripted(logs, *states), Run(logs.parent), LogRequest(follow=True))
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("queued")]
    assert lines == [first.text, "queued as job 7: next in line", first.text]


@pytest.mark.parametrize("lives", [0, 9])
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_resume_is_followed_without_the_output_of_earlier_attempts(
    logs: Path, nodes: int, lives: int, capfdbinary: CapBytes
) -> None:
    (logs.parent / "artifact/1").mkdir(parents=True)
    say(logs, 0, 100, "=== jobc: attempt 0, node 0", "Traceback", "KeyError", "=== jobc: attempt 1, node 0", "new")
    say(logs, 1, 100, "=== jobc: attempt 0, node 1", "KeyError")  # it has not started again
    request = LogRequest(follow=True, new_attempt=True)
    assert print_logs(scripted(logs, *[LIVE] * lives, nodes=nodes), Run(logs.parent), request) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.rpartition(" | ")[2] for line in lines] == ["=== jobc: attempt 1, node 0", "new"]


def test_an_attempt_with_a_long_log_is_followed_from_its_beginning(logs: Path) -> None:
    text = "=== jobc: attempt 0, node 0\nold\n=== jobc: attempt 1, node 0\n" + "new\n" * 300_000
    (logs / "node_00.log").write_text(text)
    files = RequestedLogs(Run(logs.parent), None, 1)
    files.skip_to_attempt({"node_00.log": len(text)}, 1)
    assert files._printed_log("node_00.log").offset == text.index("=== jobc: attempt 1")


@pytest.mark.parametrize("lives", [1, 3, 9, 30])
def test_following_shows_the_first_failure_once_and_before_the_rest(
    logs: Path, capfdbinary: CapBytes, lives: int
) -> None:
    run = fail(logs, "NewError\n", node=1, rank=2, reason="why")
    say(logs, 0, 100, "a")
    print_logs(scripted(logs, *[LIVE] * lives, nodes=2), run, LogRequest(follow=True))
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0].startswith("jobc: node 1 failed first: why") and lines[-1] == "node 0  | a" and len(lines) == 4


def test_an_engine_that_stops_answering_is_reported_once_and_waited_for(logs: Path, capfdbinary: CapBytes) -> None:
    say(logs, 0, 100, "a")
    engine = scripted(logs, LIVE, UNKNOWN, UNKNOWN, LIVE, UNKNOWN)
    assert print_logs(engine, Run(logs.parent), LogRequest(follow=True)) == 0
    said = capfdbinary.readouterr()
    assert said.err.decode() == "Slurm does not respond: timeout; asking again\n" * 2 and said.out == b"a\n"


def test_an_engine_that_does_not_answer_the_first_question_is_an_error(logs: Path) -> None:
    say(logs, 0, 100, "a")
    with pytest.raises(Failure, match="Slurm does not respond: timeout"):
        print_logs(scripted(logs, UNKNOWN), Run(logs.parent), LogRequest(follow=True))
    assert print_logs(scripted(logs, UNKNOWN), Run(logs.parent), LogRequest(follow=True), is_patient=True) == 0


def test_a_rank_that_does_not_exist_is_answered_with_the_last_one(logs: Path) -> None:
    for rank in (0, 9, 100):
        (logs / f"rank_{rank:02}.log").touch()
    with pytest.raises(Failure, match=r"no rank_101\.log") as failure:
        print_logs(scripted(logs), Run(logs.parent), LogRequest(rank=101))
    assert failure.value.hint == "the last one is rank_100.log"


@pytest.mark.parametrize(
    ("request_", "name"),
    [(LogRequest(), r"node_00\.log"), (LogRequest(node=3), r"node_03\.log"), (LogRequest(rank=120), r"rank_120\.log")],
)
def test_a_log_that_does_not_exist_is_named(logs: Path, request_: LogRequest, name: str) -> None:
    with pytest.raises(Failure, match=f"^no {name} in "):
        print_logs(scripted(logs), Run(logs.parent), request_)


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["--node", "x"], "--node takes a number, not x"),
        (["--rank", "-1"], "--rank takes a number"),
        (["--rank", "٣"], "--rank takes a number"),
        (["--node", "9" * 20], "--node takes a number"),
        (["--tail", "0"], "--tail takes a number of lines"),
        (["--node", "0", "--rank", "0"], "--node and --rank cannot be used together"),
        (["--fo"], "unknown option: --fo"),
        (["0"], "unknown option: 0"),
        (["--run"], "--run needs a value"),
    ],
)
def test_a_wrong_option_is_named(words: list[str], title: str) -> None:
    with pytest.raises(Failure, match=f"^{title}") as error:
        verb._parse_arguments(words, engine_of(NO_LOGS, sweep=False))
    assert error.value.code == 2


def test_only_one_point_of_a_sweep_is_followed() -> None:
    engine = SweepEngine(engine_of(NO_LOGS, sweep=True))
    words = ["--run", "s", "--point", "3", "-f", "--rank", "01"]
    options, request = verb._parse_arguments(words, engine)
    assert (options.run, options.point, request) == ("s", "3", LogRequest(rank=1, follow=True))
    with pytest.raises(Failure, match="--follow needs one point"):
        verb._parse_arguments(["--follow"], engine)


@pytest.mark.parametrize(("kind", "where"), [(KubernetesEngine, "a cluster"), (SkypilotEngine, "SkyPilot")])
def test_a_run_that_was_not_sent_has_no_logs(logs: Path, kind: type[Engine], where: str) -> None:
    with pytest.raises(Failure, match=f"was never submitted to {where}"):
        engine_of(logs, kind).print_logs(Run(logs.parent), LogRequest())
