"""A job's text stays text: in templates, YAML, JSON, host tables, and on the terminal.

Members of the kind: a newline, a quote or a substitution in a value that a template prints (gate, conformance suite);
a YAML word that another reader takes for a number, a date or null; a host that is an option of ssh; a control sequence,
a change of text direction or a workflow command in jobc's output.
"""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import jinja2
import pytest
import yaml

from jobc.compiler.emit.line_trace import TextRefusedError
from jobc.compiler.emit.render import Render
from jobc.compiler.emit.shell_context import ShellContextScanner
from jobc.compiler.emit.templating import template_environment
from jobc.compiler.emit.yaml_json import json_lines_with_paths, to_block_yaml
from jobc.compiler.plan.shell_quoting import ShellCode, UnquotableText, checked_table_row, comment, directive, raw, sh
from jobc.compiler.plugins.registry import PACKAGE
from jobc.tests.compiler.shell import Shell
from jobc.tests.plugin.installed import Installed, install
from jobc.tests.quick_jobc import QuickJobc

ACME = Path(__file__).parents[1] / "plugin" / "acme"
NEWLINE = "lab\n#PBS -W umask=000"
DRIVES = "x\n::error::forged\r\x1b[2J\x9b31m\u202e\u2028 y"  # newline, ANSI, C1, bidi override, line separator


@pytest.fixture
def shell(tmp_path: Path, quick_jobc: QuickJobc) -> Shell:
    return Shell(tmp_path, quick_jobc)


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory, quick_jobc: QuickJobc) -> Installed:
    return install(ACME, tmp_path_factory.mktemp("acme"), quick_jobc)


# ---- templates: refused when they are compiled -----------------------------------------------------------------------


def compile_template(text: str, name: str = "job.sh.j2") -> None:
    template_environment(("no folder",)).compile(text, name, name)


@pytest.mark.parametrize(
    "text",
    [
        "echo {{ x }}",
        "echo {{ x | upper }}",
        "echo {{ x | safe }}",
        "echo {{ x | sh | upper }}",
        "echo {{ x | sh ~ y }}",
        "echo {{ f(x) }}",
        "echo {{ x + 1 }}",
        "echo {{ 'a' if y else x }}",
        "echo {{ x | comment }}",
        "echo {{ x | directive }}",
        "echo '{{ x | sh }}'",
        'echo "{{ x | sh }}"',
        'echo "${A:-{{ x | sh }}}"',
        'echo "$(echo "{{ x | sh }}")"',
        "echo $'{{ x | sh }}'",
        "cat <<END\n{{ x | sh }}\nEND\n",
        "cat <<'END'\n{{ x | sh }}\nEND\n",
        "# {{ x | sh }}",
        "echo a # {{ x | sh }}",
        "# {{ x | raw }}",
        "#PBS -A {{ x }}",
        "#PBS -A {{ x | sh }}",
        "#PBS -A {{ x | comment }}",
        "#PBS -A {{ x | raw }}",
        "{% if a %}\n#PBS -A {{ x | sh }}\n{% endif %}",
        "{% if a %}\n{% elif b %}\necho {{ x }}\n{% endif %}",
        "{% if a %}\n{% else %}\necho {{ x }}\n{% endif %}",
        "{% for w in x %}\necho {{ w }}\n{% endfor %}",
        "{% for w in x %}\n{% else %}\necho {{ x }}\n{% endfor %}",
        "{% macro m() %}{{ x }}{% endmacro %}",
        "{% macro m(v) %}{{ v | sh }}{% endmacro %}{{ m(x) }}",
        "{% set a %}{{ x }}{% endset %}",
        "{% with a = x %}{{ a }}{% endwith %}",
        "{% block b %}{{ x }}{% endblock %}",
        "{% call m() %}{{ x }}{% endcall %}",
        "{% filter upper %}{{ x | sh }}{% endfilter %}",
    ],
)
def test_a_template_that_prints_a_value_outside_its_place_is_refused(text: str) -> None:
    with pytest.raises(jinja2.TemplateSyntaxError):
        compile_template(text)


@pytest.mark.parametrize("text", ["{{ x }}", "a: {{ x | directive }}"])
def test_a_file_that_is_no_shell_script_needs_a_filter_as_well(text: str) -> None:
    with pytest.raises(jinja2.TemplateSyntaxError):
        compile_template(text, "notes.conf.j2")


@pytest.mark.parametrize(
    "text",
    [
        "echo {{ x | sh }} '$a' \"$b\" {{ x | sh }}",
        'echo "$(echo {{ x | sh }})" "${a}" {{ x | sh }}',
        "echo ${A:-{{ x | sh }}} $((10#$a)) $# {{ x | sh }}",
        "echo it\\'s {{ x | sh }} # {{ x | comment }}\necho {{ x | sh }}",
        "cat <<END\na 'b\nEND\necho {{ x | sh }}",
        "#PBS -A {{ x | directive }}\n# {{ x | comment }}\n{{ x | raw }}",
        "echo \"{{ 's' if x else '' }}\" \"{{ n | raw }}\"",
        "#!/bin/sh\n{% if x %}#SBATCH --a={{ x | directive }}\n{% endif %}echo {{ x | sh }}",
    ],
)
def test_a_template_whose_values_fit_their_places_compiles(text: str) -> None:
    compile_template(text)


def test_every_template_of_jobc_passes_and_few_print_raw() -> None:
    templates = [t for folder in ("compiler", "backends") for t in PACKAGE.glob(f"{folder}/**/templates/**/*.j2")]
    assert {template.name for template in templates} >= {"launch.sh.j2", "job.sbatch.j2", "array.sbatch.j2"}
    for template in templates:
        compile_template(template.read_text(), template.name)
    assert sum(template.read_text().count("| raw") for template in templates) <= 11


def test_shell_scripts_end_outside_quotes() -> None:
    """The reader of origins follows every script that jobc writes to its end."""
    golden = Path(__file__).parents[1] / "golden"
    scripts = [s for name in ("launch.sh", "*.sbatch") for s in golden.glob(f"*/*/expected/{name}")]
    assert {script.name for script in scripts} >= {"launch.sh", "job.sbatch"}
    for script in scripts:
        places = ShellContextScanner()
        places.feed(script.read_text())
        assert places.stack == ["code"], script


# ---- filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [NEWLINE, "a b", "", "a#b", "it's", 'a"b', "a\\b", "a\x00", "é", "$(id)", "`id`", "a\r"]
)
def test_a_directive_holds_no_text_that_an_engine_would_read_otherwise(value: str) -> None:
    with pytest.raises(UnquotableText):
        directive(value)


def test_raw_takes_numbers_and_shell_code_of_python_alone() -> None:
    assert [raw(value) for value in (3, True, 1.5, ShellCode("a b"))] == ["3", "True", "1.5", "a b"]
    for value in ("a", ShellCode("a") + "b", ["a"], None):
        with pytest.raises(TypeError):
            raw(value)


def test_a_comment_is_one_line() -> None:
    assert comment(DRIVES).isprintable()
    assert sh(NEWLINE) == f"'{NEWLINE}'"


@pytest.mark.parametrize("row", ["-oProxyCommand=touch ran", "-w", "a\nb", "a\rb", "a\x00", "a\x1b[1m", ""])
def test_a_table_takes_no_row_that_is_several_or_an_option(row: str) -> None:
    with pytest.raises(UnquotableText):
        checked_table_row(row)
    with pytest.raises(TextRefusedError):
        Render((), (), {}).line_file("hosts.txt", ["a", row], "resources.hosts")


# ---- a plugin and Slurm ----------------------------------------------------------------------------------------------


def job_of(text: str, *keys: str) -> str:
    tree: dict[str, object] = {}
    for key in keys:
        inner = tree
        *sections, last = key.split(".")
        for section in sections:
            inner = inner.setdefault(section, {})  # type: ignore[assignment]
        inner[last] = [text] if last == "after" else text
    return "defaults: [config, _self_]\n" + yaml.safe_dump(tree)


SLURM = ("queue.name", "queue.account", "queue.qos", "queue.priority", "queue.reservation", "queue.after", "gpu_type")


@pytest.mark.parametrize("key", [*SLURM, "backend.constraint", "backend.extra.comment"])
def test_slurm_refuses_a_second_directive_and_names_the_key(shell: Shell, key: str) -> None:
    shell.write("job.yaml", job_of(NEWLINE, key))
    done = shell.jobc("backend=slurm", "gpus=1", "--config-dir", ".", "--config-name", "job")
    assert done.returncode == 1 and done.stderr.count("error[") == 1, done.stderr
    assert "error[JC4303 " in done.stderr and f"({key}" in done.stderr, done.stderr
    assert not (shell.project / "artifacts").exists()


def with_templates(root: Path, folder: Path, template: str, python: tuple[str, str] | None = None) -> Path:
    """Return a copy of the plugin whose job file begins with an additional line."""
    source = shutil.copytree(root, folder / "source")
    job = source / "acme_jobc" / "templates" / "job.acme.sh.j2"
    head, _, rest = job.read_text().partition("\n")
    job.write_text(f"{head}\n{template}\n{rest}")
    backend = source / "acme_jobc" / "backend.py"
    text = backend.read_text().replace('"queue.name": ANY', '"queue.*": ANY')
    backend.write_text(text.replace(*python) if python else text)
    return source


ACCOUNT = "{% if plan.queue.account %}\n#PBS -A {{ plan.queue.account | FILTER }}\n{% endif %}"


def test_a_directive_of_a_plugin_refuses_a_newline_in_one_diagnostic(acme: Installed, tmp_path: Path) -> None:
    source = with_templates(acme.site, tmp_path, ACCOUNT.replace("FILTER", "directive"))
    (tmp_path / "job.yaml").write_text(job_of(NEWLINE, "queue.account"))
    words = ("backend=acme", "--config-dir", ".", "--config-name", "job")
    status, output = acme.jobc(*words, folder=tmp_path, site=source)
    assert status == 1 and output.count("error[") == 1, output
    assert (
        "error[JC4303 invalid-directive-text]: queue.account: 'lab\\n#PBS -W umask=000' is not valid in its #PBS line"
        in output
    )
    assert "project:job.yaml:" in output or "input:job.yaml:" in output, output


def test_a_plugin_that_prints_a_value_as_it_is_does_not_compile(acme: Installed, tmp_path: Path) -> None:
    source = with_templates(acme.site, tmp_path, ACCOUNT.replace(" | FILTER", ""))
    status, output = acme.jobc("backend=acme", folder=tmp_path, site=source)
    assert status == 1 and "JC9002" in output and "job.acme.sh.j2:3: " in output, output


LABELS = "        document = {"
EMITS = '        yield Artifact("{0}", f"{1}{{plan.queue.account}}\\n")\n'
BAD_PLUGINS = {
    "shell code that Python did not quote": (
        "echo {{ code(plan.queue.account) | raw }}",
        ('"job.acme.sh", executable=True)', '"job.acme.sh", executable=True, code=lambda text: ShellCode(text or ""))'),
    ),
    "a directive that Python did not check": (
        "{% if plan.queue.account %}\n{{ code('#PBS -A ' ~ plan.queue.account) | raw }}\n{% endif %}",
        ('"job.acme.sh", executable=True)', '"job.acme.sh", executable=True, code=ShellCode)'),
    ),
    "YAML that is no document": ("", (LABELS, EMITS.format("x.yaml", "a: ") + LABELS)),
    "a table that is no table": ("", (LABELS, EMITS.format("accounts", "") + LABELS)),
}


@pytest.mark.parametrize("bug", BAD_PLUGINS)
def test_the_conformance_suite_finds_a_plugin_in_which_text_becomes_structure(
    bug: str, acme: Installed, tmp_path: Path
) -> None:
    template, python = BAD_PLUGINS[bug]
    source = with_templates(acme.source, tmp_path, template, python)
    backend = source / "acme_jobc" / "backend.py"
    first = "from __future__ import annotations\n"
    assert first in backend.read_text()
    backend.write_text(
        backend.read_text().replace(first, f"{first}from jobc.compiler.plan.shell_quoting import ShellCode\n")
    )
    done = acme.pytest("-k", "text_of_no_key", folder=source)
    assert done.returncode == 1 and "queue.account" in done.stdout and "leaves its place" in done.stdout, done.stdout


# ---- YAML and JSON ---------------------------------------------------------------------------------------------------

WORDS = [
    *("on", "off", "y", "Yes", "NO", "true", "null", "~", "", "nan", ".inf", "1e3", "0x1f", "0o17", "017"),
    *("1_000", "12:30:45", "2024-01-01", "2001-12-14t21:59:43Z", "=", "<<", "-", "---", "...", "?", "a: b", "a #b"),
    *("#", "*a", "&a", "!a", "!!int 3", "%YAML 1.1", "@a", "`a", "[a", "{a", "|", ">", "'", '"', "\\", " a", "a "),
    *("\x00", "\x1b[1m", "\x85", "\u2028a", "\u2029", "\ufeff", "\u202e", "a\tb", "a\n", "\na", "a\n b", " a\nb"),
    *("a \nb", "a\nb\n\n", "a\r\nb", "\n", "a\n---\nb: c", "a\n# b", "a\n\u2028b", "a\n\tb", NEWLINE, DRIVES),
]


@pytest.mark.parametrize("word", WORDS)
def test_a_string_is_read_back_from_yaml_and_json_as_that_string(word: str) -> None:
    tree = {"a": word, "b": [word, {"c": word}], word or "empty": "d"}
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        assert yaml.load(to_block_yaml(tree), loader) == tree
    assert json.loads("".join(text for text, _ in json_lines_with_paths(tree))) == tree


@pytest.mark.parametrize("word", ["on", "1e3", "0x1f", "0o17", "~", "2024-01-01", "=", "<<", "null", "y", "12:30:45"])
def test_a_word_that_some_reader_of_yaml_resolves_is_in_quotes(word: str) -> None:
    assert to_block_yaml({"a": word}) == f'a: "{word}"\n'


def test_a_comment_in_yaml_adds_no_entry() -> None:
    text = Render((), (), {}).yaml([{"a": "b"}], "x.yaml", {(0, "a"): "c\rd: e\x85f: g\u2028h: i\ni: j"}).text
    assert yaml.safe_load(text) == {"a": "b"}


# ---- hosts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["-oProxyCommand=touch ran", "-w", "a\n-oProxyCommand=x", "a;id", "$(id)", "a\x1b[1m"])
@pytest.mark.parametrize("key", ["hosts", "queue.nodelist", "queue.exclude"])
@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_no_host_is_an_option_or_two_hosts(shell: Shell, host: str, key: str, backend: str) -> None:
    tree: dict[str, object] = {"hosts": ["good"]}
    section, _, name = key.rpartition(".")
    tree |= {section: {name: ["good", host]}} if section else {name: ["good", host]}
    shell.write("job.yaml", "defaults: [config, _self_]\n" + yaml.safe_dump(tree))
    done = shell.jobc(f"backend={backend}", "--config-dir", ".", "--config-name", "job")
    assert done.returncode == 1 and done.stderr.count("error[") == 1 and key in done.stderr, done.stderr
    assert not (shell.project / "artifacts").exists()


# ---- the terminal ----------------------------------------------------------------------------------------------------


def assert_harmless(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t" for c in text), ascii(text)
    assert not any(line.startswith(("::error::forged", " y")) for line in text.split("\n")), ascii(text)


@pytest.fixture(scope="module")
def hostile_job(tmp_path_factory: pytest.TempPathFactory, quick_jobc: QuickJobc) -> Shell:
    """Return a shell with two artifacts of a job with a hostile label, and a folder and a config file with hostile
    names.
    """
    shell = Shell(tmp_path_factory.mktemp("hostile"), quick_jobc)
    for name, more in (("a", ""), ("b", "z")):
        tree = {"name": name, "labels": {"team": DRIVES + more}, "env": {"A": DRIVES + more}}
        shell.write(f"{name}.yaml", "defaults: [config, _self_]\n" + yaml.safe_dump(tree))
        done = shell.jobc("--config-dir", ".", "--config-name", name)
        assert done.returncode == 0, done.stderr
        assert_harmless(done.stdout + done.stderr)
    shutil.copytree(shell.project / "artifacts" / "a", shell.project / "artifacts" / DRIVES.replace("\x00", ""))
    return shell


A, B = "artifacts/a/local", "artifacts/b/local"
NAMED = f"artifacts/{DRIVES}/local"
CALLS = [
    ("why", A, "labels.team"),
    ("why", A, "A"),
    ("why", f"{A}/spec.yaml:3"),
    ("why", f"{A}/launch.sh:60-75"),
    ("why", f"{NAMED}/launch.sh:1"),
    ("why", f"nowhere{DRIVES}:1"),
    ("why", A, DRIVES),
    ("diff", A, B),
    ("diff", A, B, "--format", "json"),
    ("diff", A, NAMED),
    ("verify", A),
    ("verify", NAMED),
    ("verify", NAMED, "--format", "json"),
    ("verify", DRIVES),
    ("plan", "--config-dir", ".", "--config-name", "a"),
    ("plan", "--config-dir", ".", "--config-name", "a", "--format", "json"),
    ("plan", f"estimate.run={DRIVES.splitlines()[0]}\x1b[1m"),
    ("explain", DRIVES),
    ("backends", DRIVES),
    (DRIVES,),
    (f"hosts=@{DRIVES}", "backend=ssh"),
    ("--config-dir", ".", "--config-name", "a", "--cfg", "job"),
    ("--config-dir", ".", "--config-name", DRIVES),
    ("status", DRIVES),
    ("watch", DRIVES),
    ("check", f"nodes={DRIVES}", "--format", "json"),
    ("check", f"nodes={DRIVES}", "--format", "github"),
    ("check", f"{DRIVES}=1", "--format", "github"),
    ("completion", DRIVES),
]


@pytest.mark.parametrize("words", CALLS, ids=lambda words: ascii(" ".join(words))[:60])
def test_what_jobc_prints_does_not_drive_the_terminal(hostile_job: Shell, words: tuple[str, ...]) -> None:
    done = hostile_job.jobc(*words)
    assert done.stdout + done.stderr and "Traceback" not in done.stderr
    assert_harmless(done.stdout + done.stderr)


def test_a_workflow_command_of_github_is_one_and_ours(hostile_job: Shell) -> None:
    done = hostile_job.jobc("check", f"nodes={DRIVES}", "--format", "github")
    (line,) = done.stdout.splitlines()
    assert line.startswith("::error title=JC1202 invalid-value::") and "%0A::" not in line, line


def test_values_in_json_and_yaml_are_read_back_unchanged(hostile_job: Shell) -> None:
    config = hostile_job.jobc("--config-dir", ".", "--config-name", "a", "--cfg", "job").stdout
    assert yaml.safe_load(config)["labels"] == {"team": DRIVES}
    assert json.loads(hostile_job.jobc("diff", A, B, "--format", "json").stdout)


def test_one_module_of_the_command_line_prints() -> None:
    """Other modules call it, so that nothing is printed unescaped. A program's own log is exempt: `jobc watch`."""
    printing = {
        path.name
        for path in (PACKAGE / "compiler" / "cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing == {"terminal.py", "runs.py"}
