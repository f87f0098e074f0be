"""A backend from another package: found by its entry point, used by its name, tested by the same suite.

acme/ is that package, with its own tests. It is installed here into its own folder; jobc contains no reference to it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jobc.tests.plugin.installed import Installed, install
from jobc.tests.quick_jobc import QuickJobc

pytestmark = pytest.mark.xdist_group("plugin")  # installed once
ACME = Path(__file__).parent / "acme"


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory, quick_jobc: QuickJobc) -> Installed:
    return install(ACME, tmp_path_factory.mktemp("acme"), quick_jobc)


def test_its_own_tests_and_the_conformance_suite_pass(acme: Installed, request: pytest.FixtureRequest) -> None:
    update = request.config.getoption("--update-golden")
    done = acme.pytest(*(["--update-golden"] if update else []), folder=ACME if update else acme.source)
    assert done.returncode == 0, done.stdout


UNQUOTED_MAIL = """        script = f"#!/usr/bin/env bash\\nmail {' '.join(options.notify)}\\n"
        yield Artifact("mail.sh", script, True)
        document = {"""
ASK_THE_QUEUE = 'words = ["acme", "submit", "--wait", job_file(new)]'
NODE_0_HERE = """words = ["bash", "-c", f"bash {new.artifact}/launch.sh 0 preflight 2>&1 | sed 's/^/0: /'"]"""
ALL_NODES_HERE = """here = 'for n in {1}; do bash {0}/launch.sh $n preflight 2>&1 | sed "s/^/$n: /" & done; wait'
            words = ["bash", "-c", here.format(new.artifact, " ".join(map(str, range(self.job.nodes))))]"""
BUGS = [  # the test of the suite that finds it, the file, what is written there, what an author may write instead
    ("test_honours_names", "backend.py", '"lifecycle.time_limit_s"', '"lifecycle.time_limt_s"'),
    ("test_honours_names", "backend.py", '"queue.name": ANY', '"qeue.*": ANY'),
    ("test_honours_names", "backend.py", '("torchrun", "spawn")', '("torchrn", "spawn")'),
    ("test_text_of_no_key", "backend.py", "        document = {", UNQUOTED_MAIL),
    ("test_goldens_run", "engine.py", "new.keep()\n", "pass\n"),
    ("test_status_tells", "engine.py", 'State("queued", f"queued as', 'State("live", f"running as'),
    ("test_status_tells", "engine.py", "stopped by jobctl stop before it started", "queued as job 1"),
    ("test_preflight_looks", "engine.py", ASK_THE_QUEUE, NODE_0_HERE),
    ("test_preflight_looks", "engine.py", ASK_THE_QUEUE, ALL_NODES_HERE),
]


@pytest.mark.parametrize(("test", "file", "written", "instead"), BUGS)
def test_the_suite_finds_a_bug(
    test: str, file: str, written: str, instead: str, acme: Installed, tmp_path: Path
) -> None:
    source = shutil.copytree(acme.source, tmp_path / "source")  # its own folder goes before the installed one
    text = (source / "acme_jobc" / file).read_text()
    assert text.count(written) == 1
    (source / "acme_jobc" / file).write_text(text.replace(written, instead))
    with (source / "tests" / "conftest.py").open("a") as conftest:  # a state that never comes is not waited for so long
        conftest.write("from jobc.compiler.testing import verb_behaviour\n\nverb_behaviour.PATIENCE_S = 40\n")
        conftest.write("verb_behaviour.SETTLE_S = 5\n")
    done = acme.pytest("-k", test, folder=source)
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("page", "heading", "says"),
    [
        ("ACME01", "# ACME01: a queue that is closed", "begin the page with `# ACME01 NAME: title`"),
        ("ACME01", "# ACME01 taken-port: a queue that is closed", "taken-port is also the name of JC3011"),
        ("ACME01", f"# ACME01 closed-{'queue' * 5}: a queue that is closed", "more than 25"),
        ("JC3011", "# JC3011 closed-queue: a queue that is closed", "already describes JC3011"),
        ("ACME01", "# ACME01 closed-queue: a queue that is closed", ""),
    ],
    ids=["no name", "a name of another code", "a long name", "a code of jobc", "nothing"],
)
def test_the_suite_asks_for_the_name_of_a_code(
    page: str, heading: str, says: str, acme: Installed, tmp_path: Path
) -> None:
    source = shutil.copytree(acme.source, tmp_path / "source")
    codes = source / "acme_jobc" / "codes"
    codes.mkdir()
    (codes / f"{page}.md").write_text(f"{heading}\n\nIt opens at night.\n")
    done = acme.pytest("-k", "every_code_has_a_name", folder=source)
    assert done.returncode == (1 if says else 0) and says in done.stdout, done.stdout


def test_a_code_without_a_name_is_known_by_its_code(acme: Installed, tmp_path: Path) -> None:
    site = with_code(acme, "# ACME01: a queue that is closed", tmp_path)
    assert acme.jobc("check", "backend=acme", folder=tmp_path, site=site) == (0, "no errors\n")
    assert acme.jobc("explain", "ACME01", folder=tmp_path, site=site) == (0, "# ACME01: a queue that is closed\n")
    assert "ACME01: a queue that is closed" in acme.jobc("explain", folder=tmp_path, site=site)[1].splitlines()


def test_a_name_of_two_codes_explains_both(acme: Installed, tmp_path: Path) -> None:
    site = with_code(acme, "# ACME01 taken-port: a queue that is closed", tmp_path)
    status, output = acme.jobc("explain", "taken-port", folder=tmp_path, site=site)
    assert status == 0 and output.startswith("# JC3011 taken-port: ") and "# ACME01 taken-port: " in output


def with_code(acme: Installed, heading: str, folder: Path) -> Path:
    """Return a copy of the installed package with its own diagnostic code, whose page has this heading."""
    site = shutil.copytree(acme.site, folder / "site")
    (site / "acme_jobc" / "codes").mkdir()
    (site / "acme_jobc" / "codes" / "ACME01.md").write_text(f"{heading}\n")
    return site


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("#!/usr/bin/env bash\n\necho {{ optons.placement | sh }}\n", 3),
        ("#!/usr/bin/env bash\n{% if plan.nmae %}\n{% endif %}\n", 2),
        ("#!/usr/bin/env bash\n{% for x in plan.labels | nope %}\n{% endfor %}\n", 2),
    ],
    ids=["a name", "a field", "a filter"],
)
def test_a_mistake_in_a_template_has_a_place(template: str, line: int, acme: Installed, tmp_path: Path) -> None:
    site = shutil.copytree(acme.site, tmp_path / "site")
    (site / "acme_jobc" / "templates" / "job.acme.sh.j2").write_text(template)
    status, output = acme.jobc("check", "backend=acme", folder=tmp_path, site=site)
    assert status == 1 and "JC9002" in output
    assert f"plugin:acme/templates/job.acme.sh.j2:{line}: " in output


@pytest.mark.parametrize(("step", "code"), [("check", "JC9002"), ("emit", "JC9002"), ("sends", "JC9001")])
def test_a_plugin_that_leaves_the_process_is_an_error(step: str, code: str, acme: Installed, tmp_path: Path) -> None:
    site = shutil.copytree(acme.site, tmp_path / "site")
    with (site / "acme_jobc" / "backend.py").open("a") as module:
        module.write(f"\n\ndef leave(*_):\n    raise SystemExit(0)\n\n\ntype(BACKEND).{step} = leave\n")
    status, output = acme.jobc("check", "backend=acme", folder=tmp_path, site=site)
    assert status and code in output and "Traceback" not in output, output


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda package: (package / "conf" / "backend" / "acme.yaml").unlink(), "conf/backend/acme.yaml"),
        (lambda package: (package / "backend.py").write_text(OLD_FORM), "`honours` is not a mapping"),
    ],
    ids=["no defaults", "is not a mapping"],
)
def test_what_a_plugin_lacks_is_said(
    change: Callable[[Path], object], says: str, acme: Installed, tmp_path: Path
) -> None:
    site = shutil.copytree(acme.site, tmp_path / "site")
    change(site / "acme_jobc")
    for words in (["backends"], ["check", "backend=acme"]):
        _, output = acme.jobc(*words, folder=tmp_path, site=site)
        assert "JC4004" in output and says in output


OLD_FORM = """
from jobc.backends.local.backend import LocalBackend

class Acme(LocalBackend):
    name = "acme"
    honours = frozenset({"launcher"})

BACKEND = Acme()
"""


def test_without_the_package_the_name_is_unknown(acme: Installed, tmp_path: Path) -> None:
    status, output = acme.jobc("backend=acme", folder=tmp_path, site=tmp_path)
    assert status == 1
    assert "no option 'acme' in group backend" in output


def test_it_is_listed_with_its_options(acme: Installed, tmp_path: Path) -> None:
    _, output = acme.jobc("backends", folder=tmp_path)
    assert "acme  (plugin:acme)" in output
    assert "backend.placement, backend.notify, backend.queue.name, backend.queue.most_nodes" in output


def test_a_wrong_name_gets_the_right_one_as_a_hint(acme: Installed, tmp_path: Path) -> None:
    status, output = acme.jobc("backend=acne", folder=tmp_path)
    assert (status, output.strip().split("\n")[-1].strip()) == (1, "= hint: backend=acme")


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("jobc backend=acm", ["backend=acme"]),
        ("jobc acme_q", ["acme_queue="]),
        ("jobc acme_queue=", ["acme_queue=fast", "acme_queue=slow"]),
        ("jobc backend.pl", ["backend.placement="]),
        ("jobc backend.placement=", ["backend.placement=pack", "backend.placement=spread"]),
        ("jobc backend.queue.", ["backend.queue.most_nodes=", "backend.queue.name="]),
    ],
)
def test_the_shell_completes_its_words(acme: Installed, tmp_path: Path, line: str, candidates: list[str]) -> None:
    assert acme.jobc("_complete", line, folder=tmp_path) == (0, "".join(f"{word}\n" for word in candidates))


def test_why_names_its_files(acme: Installed, tmp_path: Path) -> None:
    assert acme.jobc("backend=acme", "acme_queue=fast", "backend.notify=[a@b]", folder=tmp_path)[0] == 0
    job, labels = (f"artifacts/job/acme/{name}" for name in ("job.acme.sh", "labels.acme.yaml"))
    _, output = acme.jobc("why", f"{job}:4", f"{job}:5", f"{labels}:5", folder=tmp_path)
    assert "from     plugin:acme/templates/job.acme.sh.j2:4" in output
    assert "spec     backend.queue.name = fast\n           plugin:acme:acme_queue/fast.yaml:3:7" in output
    assert "spec     backend.placement = pack\n           plugin:acme:backend/acme.yaml:7:14" in output
    assert "command line: backend.notify=[a@b]" in output


def test_a_plugin_that_cannot_be_imported_harms_only_itself(acme: Installed, tmp_path: Path) -> None:
    site = shutil.copytree(acme.site, tmp_path / "site")
    (site / "acme_jobc" / "backend.py").write_text("import a_package_that_is_missing\n")
    assert acme.jobc("check", "backend=local", folder=tmp_path, site=site) == (0, "no errors\n")
    status, output = acme.jobc("check", "backend=acme", folder=tmp_path, site=site)
    assert status == 1 and "JC4003" in output and "a_package_that_is_missing" in output
    status, output = acme.jobc("backends", folder=tmp_path, site=site)
    assert status == 0 and "JC4003" in output and "local  (jobc:backends/local)" in output
