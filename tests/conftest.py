"""Rules for the whole suite: groups run first; signals work the same however the suite was started; in CI, a skipped
test fails, because nobody knows whether it would pass.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from jobc.tests.leftovers import MARK, end, leftovers, mark_session
from jobc.tests.quick_jobc import QuickJobc, serving

pytest_plugins = [
    "jobc.compiler.testing.suite",
    "jobc.tests.testbed.fixtures",
]  # --update-golden; cluster, make_cluster


def pytest_configure() -> None:
    """Reset signals that nohup or a script's `&` ignores, because all processes that the tests start would inherit
    this.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    mark_session()
    os.environ.setdefault(
        "XDG_CACHE_HOME", os.path.expanduser("~/.cache")
    )  # for programs that a test starts with a different HOME


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run groups of pytest-xdist first: each runs on one worker, and may take long."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.fixture(scope="session")
def quick_jobc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuickJobc]:
    with serving(tmp_path_factory.mktemp("bin")) as jobc:
        yield jobc


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    on_worker = hasattr(session.config, "workerinput")  # a worker of xdist; the controller sees every report
    if reporter is None or on_worker or not os.environ.get("CI"):
        return
    if reporter.stats.get("skipped") and session.exitstatus in (
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_sessionfinish")
def pytest_end_leftovers(session: pytest.Session) -> Iterator[None]:
    """Fail a session that leaves processes behind, and end them. Runs after pytest-xdist has ended its workers."""
    yield
    if os.environ[MARK] != str(os.getpid()):
        return
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    if processes := leftovers(folder):
        end(processes)
        lines = [f"error: the tests left {len(processes)} processes:", *(f"  {p} {c}" for p, c in processes.items())]
        print("\n".join(["", *lines]), file=sys.__stderr__)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        terminalreporter.write_line(
            f"error: {len(skipped)} skipped; in CI every test must run (reasons above)", red=True
        )
