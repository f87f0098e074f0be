"""Which samples belong to a data set, and how they become inputs and targets."""

from pathlib import Path

import pytest
import torch

from jobc.trainer.config.schema import DigitsConfig, RandomTokensConfig, StdlibBytesConfig
from jobc.trainer.data import digits, random_tokens, stdlib_bytes
from jobc.trainer.lifecycle.errors import BrokenInput


def library(root: Path, **files: bytes) -> Path:
    """A folder of sources; `a__b` is a/b.py."""
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    return root


def config(max_bytes: int | None = None, val_fraction: float = 0.5) -> StdlibBytesConfig:
    return StdlibBytesConfig("stdlib_bytes", max_bytes, val_fraction)


def test_only_readable_library_sources_count(tmp_path: Path) -> None:
    root = library(
        tmp_path,
        ast=b"x",
        json__decoder=b"y",
        test__test_ast=b"no",
        json__tests__t=b"no",
        idle_test__t=b"no",
        __pycache__x=b"no",
        large=b"#" * 1_000_001,
        latin=b"\xe4",
        _sysconfigdata_linux=b"no",
    )
    (root / "site-packages").mkdir()
    (root / "site-packages" / "six.py").write_bytes(b"no")
    (root / "notes.txt").write_bytes(b"no")
    found = dict(stdlib_bytes.corpus_python_files(root))
    assert {str(path) for path in found} - {"_/pycache/x.py"} == {"ast.py", "json/decoder.py"}


def test_the_installed_library_is_the_same_each_time() -> None:
    one, two = (stdlib_bytes.open_source(config(300_000, 0.1), context=16) for _ in range(2))
    assert one.digest == two.digest
    assert len(one.train) > len(one.validation) > 0


def test_targets_are_the_next_bytes(tmp_path: Path) -> None:
    text = bytes(range(1, 101))
    root = library(tmp_path, **{f"f{i}": bytes([i]) + text for i in range(20)})
    split = stdlib_bytes.open_source(config(), context=8, root=root).train
    tokens_BT, targets_BT = split.batch(torch.tensor([0, 3]))
    assert tokens_BT.shape == targets_BT.shape == (2, 8)
    assert torch.equal(tokens_BT[:, 1:], targets_BT[:, :-1])


def test_samples_neither_overlap_nor_leave_gaps(tmp_path: Path) -> None:
    root = library(tmp_path, **{f"f{i}": bytes([65 + i]) * 50 for i in range(20)})
    split = stdlib_bytes.open_source(config(), context=8, root=root).train
    tokens_BT, targets_BT = split.batch(torch.arange(len(split)))
    assert torch.equal(tokens_BT[1:, 0], targets_BT[:-1, -1])


def test_equal_files_never_fall_on_both_sides(tmp_path: Path) -> None:
    root = library(tmp_path, **{f"f{i}": bytes([65 + i // 2]) * 100 for i in range(40)})
    source = stdlib_bytes.open_source(config(), context=4, root=root)
    train, held_out = (
        set(split.batch(torch.arange(len(split)))[0].flatten().tolist()) - {0}
        for split in (source.train, source.validation)
    )
    assert train
    assert held_out
    assert not train & held_out


def test_max_bytes_is_a_cap_over_both_sides(tmp_path: Path) -> None:
    root = library(tmp_path, **{f"f{i}": bytes([65 + i]) * 1000 for i in range(40)})
    source = stdlib_bytes.open_source(config(max_bytes=10_500), context=4, root=root)
    assert 10_000 < 4 * (len(source.train) + len(source.validation)) <= 10_500


def test_one_changed_byte_changes_the_digest(tmp_path: Path) -> None:
    texts = {f"f{i}": bytes([65 + i]) * 100 for i in range(20)}
    before = stdlib_bytes.open_source(config(), context=4, root=library(tmp_path / "a", **texts)).digest
    texts["f3"] = texts["f3"][:-1] + b"!"
    assert stdlib_bytes.open_source(config(), context=4, root=library(tmp_path / "b", **texts)).digest != before


def test_too_little_text_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(BrokenInput, match="use a Python that includes its sources"):
        stdlib_bytes.open_source(config(), context=8, root=tmp_path)


def test_digits_are_all_there() -> None:
    source = digits.open_source(DigitsConfig("digits", 0.2))
    assert (len(source.train), len(source.validation)) == (1438, 359)
    pixels_NP, labels_N = source.train.batch(torch.arange(len(source.train)))
    assert pixels_NP.shape == (1438, 64)
    assert (float(pixels_NP.min()), float(pixels_NP.max())) == (0.0, 1.0)
    assert sorted(set(labels_N.tolist())) == list(range(10))
    # the first image is a zero: dark in the middle, bright around it
    first_88 = source.validation.batch(torch.tensor([0]))[0].view(8, 8)
    assert source.validation.batch(torch.tensor([0]))[1].tolist() == [0]
    assert float(first_88[3:5, 3:5].sum()) == 0.0


def test_the_shipped_file_is_small_text_with_its_licence() -> None:
    folder = Path(digits.__file__).parent
    assert len((folder / "digits.b85").read_text(encoding="ascii")) < 60_000
    assert "CC BY 4.0" in (folder / "NOTICE.txt").read_text(encoding="utf-8")


def test_random_tokens_are_a_function_of_seed_sample_and_place() -> None:
    tokens = RandomTokensConfig("random_tokens", vocabulary=50304, samples=10**9, val_samples=4)
    source = random_tokens.open_source(tokens, seed=1, context=64)
    indices_B = torch.tensor([0, 7, 10**9 - 1])
    inputs_BT, targets_BT = source.train.batch(indices_B)
    assert inputs_BT.shape == targets_BT.shape == (3, 64)
    assert torch.equal(inputs_BT[:, 1:], targets_BT[:, :-1])
    assert torch.equal(source.train.batch(indices_B.flip(0))[0], inputs_BT.flip(0))
    other = random_tokens.open_source(tokens, seed=2, context=64)
    assert source.digest != other.digest
    for split in (other.train, source.validation):
        assert (split.batch(torch.tensor([0]))[0] != inputs_BT[0]).any()
    many_BT, _ = source.train.batch(torch.arange(2000))
    assert many_BT.min() >= 0 and many_BT.max() < 50304
    assert many_BT.float().mean() == pytest.approx(50304 / 2, rel=0.01)
    assert torch.bincount(many_BT.flatten() % 64, minlength=64).float().std() < 100, "128,000 tokens over 64 values"
