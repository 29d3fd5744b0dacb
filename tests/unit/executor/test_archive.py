"""Archives that try to get out, or to fill the disk."""

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from waterclock.executor.warden import archive
from waterclock.executor.warden.archive import BadArchive


def unpack(file: Path, into: Path) -> None:
    directory = os.open(into, os.O_RDONLY)
    try:
        with file.open("rb") as content:
            archive.unpack(content, directory)
    finally:
        os.close(directory)


def tar(path: Path, members: dict[str, bytes], **special: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info in special.values():
            archive.addfile(info)
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o755
            archive.addfile(info, io.BytesIO(content))
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


def test_a_good_one_is_unpacked(tmp_path: Path, into: Path) -> None:
    unpack(tar(tmp_path / "a.tar.gz", {"bin/run": b"#!/bin/sh\n", "data": b"x"}), into)
    assert (into / "bin/run").read_bytes() == b"#!/bin/sh\n"
    assert (into / "bin/run").stat().st_mode & stat.S_IXUSR


def test_a_good_zip_is_unpacked(tmp_path: Path, into: Path) -> None:
    unpack(zipped(tmp_path / "a.zip", {"deep/er/file": b"x", "top": b"y"}), into)
    assert (into / "deep/er/file").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "..\\evil"])
def test_nothing_gets_out_of_a_zip(tmp_path: Path, into: Path, name: str) -> None:
    with pytest.raises(BadArchive):
        unpack(zipped(tmp_path / "a.zip", {name: b"x"}), into)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("name", ["../evil", "a/../../evil"])
def test_nothing_gets_out_of_a_tar(tmp_path: Path, into: Path, name: str) -> None:
    with pytest.raises(BadArchive):
        unpack(tar(tmp_path / "a.tar.gz", {name: b"x"}), into)
    assert not (tmp_path / "evil").exists()


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path, into: Path) -> None:
    link = tarfile.TarInfo("door")
    link.type = tarfile.SYMTYPE
    link.linkname = ".."
    with pytest.raises(BadArchive):
        unpack(tar(tmp_path / "a.tar.gz", {"door/evil": b"x"}, link=link), into)
    assert not (tmp_path / "evil").exists()


def test_a_link_in_a_zip_is_refused(tmp_path: Path, into: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("door")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
    with pytest.raises(BadArchive):
        unpack(tmp_path / "a.zip", into)


def test_a_device_is_refused(tmp_path: Path, into: Path) -> None:
    device = tarfile.TarInfo("null")
    device.type = tarfile.CHRTYPE
    with pytest.raises(BadArchive):
        unpack(tar(tmp_path / "a.tar.gz", {}, device=device), into)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_bomb_is_stopped(tmp_path: Path, into: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1_000_000)
    make = tar if kind == "tar" else zipped
    with pytest.raises(BadArchive, match="more than 1000000 bytes"):
        unpack(make(tmp_path / "bomb", {"zeros": bytes(5_000_000)}), into)


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_too_many_files_are_stopped(
    tmp_path: Path, into: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_FILES", 10)
    make = tar if kind == "tar" else zipped
    with pytest.raises(BadArchive, match="more than 10 files"):
        unpack(make(tmp_path / "many", {str(n): b"" for n in range(11)}), into)


def test_what_is_no_archive_is_refused(tmp_path: Path, into: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(BadArchive):
        unpack(tmp_path / "text", into)
