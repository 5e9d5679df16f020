"""What one folder packs, another takes in where it is trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fusegrad import cli
from fusegrad.compiler.artefacts import folder, packs
from fusegrad.compiler.artefacts.form import Artefact, packed

KEYS = [f"{number:064x}" for number in range(6)]


def entry(number: int) -> Artefact:
    return Artefact("machine code", {"symbols": {"f": number}}, {"image": bytes([number]) * 50})


@pytest.fixture
def file(cache: Path, tmp_path: Path) -> str:
    """A pack of three entries, of which one has two keys."""
    for keys, number in ((KEYS[:1], 0), (KEYS[1:3], 1), (KEYS[3:4], 2)):
        assert folder.keep(keys, entry(number))
    path = str(tmp_path / "file.pack")
    assert packs.pack(path) == 3
    return path


def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(folder.SETTING, str(tmp_path / "other"))


def test_entries_come_back_into_the_folder_that_they_are_of(file: str) -> None:
    for name in os.listdir(folder.place()):
        if name.startswith(folder._ENTRIES):
            os.unlink(os.path.join(folder.place(), name))
    assert packs.load(file, is_trusted=False) == 3
    for key, number in zip(KEYS[:4], (0, 1, 1, 2), strict=True):
        found = folder.find(key)
        assert found is not None and found.parts == entry(number).parts
        assert found.facts["symbols"] == {"f": number}


def test_another_folder_takes_them_in_where_they_are_trusted(
    file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere(monkeypatch, tmp_path)
    with pytest.raises(packs.Refused, match="--trust"):
        packs.load(file, is_trusted=False)
    assert folder.find(KEYS[0]) is None
    assert folder.keep(KEYS[5:], entry(5))  # now it has a key of its own
    with pytest.raises(packs.Refused, match="--trust"):
        packs.load(file, is_trusted=False)
    assert packs.load(file, is_trusted=True) == 3 and folder.find(KEYS[2]) is not None


@pytest.mark.parametrize("place", [0, 31, 40, 100, -1])
def test_a_changed_file_is_refused(file: str, place: int) -> None:
    data = bytearray(Path(file).read_bytes())
    data[place] ^= 1
    Path(file).write_bytes(data)
    with pytest.raises(packs.Refused):
        packs.load(file, is_trusted=False)


def pack_of(*parts: bytes, kind: str = packs.KIND) -> bytes:
    return bytes(32) + packed(Artefact(kind, {}, {str(n): part for n, part in enumerate(parts)}))


def with_keys(keys: object) -> bytes:
    return packed(Artefact("machine code", {"keys": keys}, {}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(100),
        pack_of(b"no artefact"),
        pack_of(with_keys(KEYS[:1]), kind="captures"),
        pack_of(with_keys(KEYS[:1]), with_keys(["../../key"])),
        pack_of(with_keys([KEYS[0] + "/.."])),
        pack_of(with_keys([])),
        pack_of(with_keys("0" * 64)),
        pack_of(with_keys([7])),
        pack_of(with_keys(KEYS[:1] * 2000)),
        pack_of(packed(Artefact("machine code", {}, {}))),
        pack_of(with_keys(KEYS[:1]))[:-1],
    ],
)
def test_what_is_no_pack_is_refused_though_it_is_trusted(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(packs.Refused):
        packs.load(str(path), is_trusted=True)
    assert folder.state().entries == 0, "nothing of it is taken in"


def test_what_is_too_large_or_no_file_is_refused(
    file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packs, "LARGEST", 100)
    with pytest.raises(packs.Refused, match="too large"):
        packs.load(file, is_trusted=True)
    with pytest.raises((packs.Refused, OSError)):
        packs.load(str(tmp_path), is_trusted=True)


def test_damaged_entries_are_not_packed(file: str) -> None:
    path = Path(folder.place()) / f"{folder._ENTRIES}{KEYS[0]}"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert packs.pack(file) == 2


def test_commands(
    file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["cache", "pack", file])
    assert capsys.readouterr().out == f"wrote 3 entries of {folder.place()} to {file}\n"
    elsewhere(monkeypatch, tmp_path)
    assert cli.main(["cache", "load", file])
    assert "--trust" in capsys.readouterr().err
    cli.main(["cache", "load", "--trust", file])
    assert capsys.readouterr().out == f"took 3 entries of {file} into {folder.place()}\n"
    assert cli.main(["cache", "load", str(tmp_path / "nothing")])
