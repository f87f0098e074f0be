"""The stored results: counted as they are, continued where they stopped, and the only source of the page."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest

from jobc.prove.__main__ import CAMPAIGNS, DOCS, main
from jobc.prove.campaign import Campaign, Failed
from jobc.prove.results import page, read


@pytest.fixture
def even(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """A campaign whose odd trials fail; each trial's folder is listed in tmp_path/made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the folders of failed trials are kept

    def run(number: int, folder: Path) -> dict[str, int]:
        with (tmp_path / "made").open("a") as made:
            made.write(f"{folder.name} ")
        if number % 2:
            raise Failed(f"{number} is odd, seen in {folder}", half=number / 2)
        return {"half": number // 2}

    return Campaign("even", "Numbers are even.", "divides its number by two.", 4, run)


def test_the_committed_page_is_in_step_with_the_committed_lines() -> None:
    assert (DOCS / "README.md").read_text(encoding="utf-8") == page(DOCS, CAMPAIGNS)


def test_the_committed_lines_name_no_folder_and_no_machine() -> None:
    for file in DOCS.iterdir():
        assert not [word for word in ("/home/", "/root/", "/tmp/", "/Users/") if word in file.read_text()], file


def test_an_interrupted_campaign_goes_on_with_what_it_has_not_made(even: Campaign, tmp_path: Path) -> None:
    into = tmp_path / "proof"
    main(["--into", str(into), "--count", "2"], [even])
    with (into / "even.jsonl").open("a") as lines:
        lines.write('{"trial": 2, "ok": tr')  # torn by a kill
    assert main(["--into", str(into)], [even]) == 1
    assert (tmp_path / "made").read_text().split() == [f"trial_{number:04}" for number in range(4)]
    assert [line["trial"] for line in read(into / "even.jsonl")] == [0, 1, 2, 3]
    assert "2 of 4" in (into / "README.md").read_text()


def test_count_0_writes_the_page_and_makes_no_trial(even: Campaign, tmp_path: Path) -> None:
    assert main(["--into", str(tmp_path / "proof"), "--count", "0"], [even]) == 0
    assert not (tmp_path / "made").exists()
    assert "not run yet" in (tmp_path / "proof" / "README.md").read_text()


def test_fresh_starts_over(even: Campaign, tmp_path: Path) -> None:
    words = ["--into", str(tmp_path / "proof"), "--count", "1"]
    main(words, [even])
    main([*words, "--fresh"], [even])
    assert (tmp_path / "made").read_text().split() == ["trial_0000", "trial_0000"]


def test_a_failed_trial_is_counted_and_told_without_naming_folders(even: Campaign, tmp_path: Path) -> None:
    into = tmp_path / "proof"
    assert main(["--into", str(into), "--count", "2"], [even]) == 1
    failed = json.loads((into / "even.jsonl").read_text().splitlines()[1])
    assert (failed["ok"], failed["why"], failed["half"]) == (False, "1 is odd, seen in TRIAL", 0.5)
    assert re.fullmatch(r"[0-9a-f]{7,}\+?", failed["versions"]["commit"]), "of the code that was tried"
    assert "1 of 2" in (into / "README.md").read_text()
    assert "trial 1: 1 is odd" in (into / "README.md").read_text()
