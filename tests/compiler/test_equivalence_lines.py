"""The equivalence check: a line that somebody adds and that harms nothing, beside the mistake that looks like it."""

from __future__ import annotations

import pytest

from jobc.compiler import pairs
from jobc.compiler.compare import PLAN
from jobc.compiler.equivalence.check import check
from jobc.compiler.equivalence.lines import mistakes_in_line
from jobc.compiler.equivalence.quoted import code_of
from jobc.compiler.equivalence.scripts import mistakes

from .edited_jobs import OF, files_of

NODE = "node.sh"
ABOVE = "# ---- the environment of the ranks\n"


def files_with(line: str) -> dict[str, str]:
    files = files_of("slurm")
    assert files[NODE].count(ABOVE) == 1, files[NODE]
    return {**files, NODE: files[NODE].replace(ABOVE, f"{line}\n{ABOVE}")}


@pytest.mark.parametrize(
    "line",
    [
        "if grep foo f >/dev/null; then :; fi",
        "if ! grep 'a|b' f &>/dev/null; then :; fi",
        "if grep --quiet foo f; then :; fi",
        'echo "umask is $(umask)"',
        "(umask u=rwx,g=rx,o=; : >f)",
        "(umask 22; : >f)",
        'echo "stopped; reason is not known" >&2',
        "echo 'gone (reason is not known)' >&2",
        "mapfile my_lines </dev/null",
        "grep -m 5 -E '^jobc: ' f || true",
        "(trap 'exit 143' HUP TERM; sleep 1)",
        "awk '/x/ { found = found + 1 } END { print found }' f || true",
        'k() { kubectl --namespace=own "$@"; }; k get pods -l app=x; k delete pod own --wait=false || true',
        "kubectl --namespace=own logs --prefix --follow own | sed -u s/a/b/",
        "case ${MY_MODE:-} in\n  --fast) echo fast ;;\nesac",
        "if true; then\n    case $1 in\n      x) echo x ;;\n    esac\nfi",
        "case ${1:-} in\n  --debug) set -x ;;\nesac",
        "echo ${MY_CASE:-} ${my_case-none} ${MY_CASE:+is set}",
    ],
)
def test_a_line_that_harms_nothing_is_no_difference(line: str) -> None:
    assert check(files_with(line)).differences == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("if grep foo f 2>/dev/null; then :; fi", "grep in a condition prints"),
        ("if grep '>' f; then echo there >&2; fi", "grep in a condition prints"),
        ("(umask 0788; : >f)", "umask takes digits"),
        ('echo "$(reason is not known)"', "reason takes TEXT, and gets 3 words"),
        ("trap 'sync; reason is not known' EXIT", "reason takes TEXT, and gets 3 words"),
        ("echo $MY_CASE", "MY_CASE is read, and nothing sets it"),
        ("echo ${MY_CASE?}", "MY_CASE is read, and nothing sets it"),
        ("echo $my_case-1", "my_case is read, and nothing sets it"),
    ],
)
def test_the_mistake_that_looks_like_it_is_noticed(line: str, said: str) -> None:
    files = files_with(line)
    scripts = {path: text for path, text in files.items() if "/" not in path}
    found = [*mistakes(scripts, pairs.read(files[PLAN]))]
    assert any(said in text for text in found), found


@pytest.mark.parametrize("job", OF)
def test_each_array_of_lines_that_a_script_fills_is_known_by_its_name(job: str) -> None:
    scripts = (text for path, text in files_of(job).items() if path.endswith(".sh") and "/" not in path)
    for line in (line for text in scripts for line in text.split("\n") if "mapfile -t " in line):
        assert [*mistakes_in_line(line.replace(" -t", ""))] == ["without -t each line keeps its end"], line


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("a 'b; c' \"d $e\" # f", "a '____' \"____\" # f"),
        ('a "b $(c "d" (e)) f)"', 'a "__$(c "_" (e))___"'),
        (r'a \" b "c\"d" e', r'a \" b "____" e'),
        ("a) b 'c", "a) b 'c"),
        ("trap 'a; b' TERM", "trap 'a; b' TERM"),
    ],
)
def test_text_in_quotes_is_no_code(line: str, code: str) -> None:
    assert code_of(line) == code
