"""A template is compiled once for all commands of a user, and again when it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobc.compiler.emit import templating


def render(folder: Path) -> str:
    """The text of a.j2, as a new process renders it."""
    templating.template_environment.cache_clear()
    template = templating.template_environment((str(folder),)).get_template("a.j2")
    return "".join(template.root_render_func(template.new_context({"_trace": Trace()})))


class Trace:
    def set_line(self, line: int) -> None: ...


def test_a_template_is_compiled_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "a.j2").write_text("one")
    assert render(tmp_path) == "one"
    with monkeypatch.context() as patch:
        patch.setattr(templating.TracedEnvironment, "_generate", None)
        assert render(tmp_path) == "one"
    (tmp_path / "a.j2").write_text("two")
    assert render(tmp_path) == "two"
    monkeypatch.setattr(templating, "_module_states", lambda: ("changed",))
    monkeypatch.setattr(templating.TracedEnvironment, "_generate", None)
    with pytest.raises(TypeError):
        render(tmp_path)
