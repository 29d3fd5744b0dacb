"""F4, S15: archives that try to get out of their directory, or to fill memory or disk."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from waterclock.executor.warden import archive, landlock
from waterclock.executor.warden.archive import BadArchive


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "into"
    directory.mkdir()
    return directory


def unpack(content: bytes, into: Path) -> None:
    directory = os.open(into, os.O_RDONLY)
    try:
        archive.unpack(io.BytesIO(content), directory)
    finally:
        os.close(directory)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, size, 0o755
    return info


def tar(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode, format=tarfile.GNU_FORMAT) as file:  # type: ignore[call-overload]
        for info, content in members:
            file.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def symlink(name: str, to: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.SYMTYPE, to), b""


def file(name: str, content: bytes = b"evil") -> tuple[tarfile.TarInfo, bytes]:
    return member(name, size=len(content)), content


def overlong_path_out() -> bytes:
    """CVE-2025-4517: directories and links whose resolved path is longer than PATH_MAX, so that a check by `realpath`
    stops resolving where the kernel goes on."""
    long = "d" * 247
    steps = "abcdefghijklmnop"
    members: list[tuple[tarfile.TarInfo, bytes]] = []
    path = ""
    for step in steps:
        members.append((member(os.path.join(path, long), tarfile.DIRTYPE), b""))
        members.append(symlink(os.path.join(path, step), long))
        path = os.path.join(path, long)
    link_path = os.path.join("/".join(steps), "l" * 254)
    members.append(symlink(link_path, "../" * len(steps)))
    members.append(symlink("escape", link_path + "/../../evil"))
    members.append(file("escape"))
    members.append(file("escape/deeper"))
    return tar(*members)


ATTACKS = {
    "CVE-2025-4517": overlong_path_out(),
    "link out, then a file through it": tar(symlink("out", ".."), file("out/evil")),
    "absolute link": tar(symlink("out", "/tmp"), file("out/evil")),
    "chain of links": tar(symlink("a", "b/.."), symlink("b", "."), file("a/../../evil")),
    "up after down": tar((member("x", tarfile.DIRTYPE), b""), symlink("a", "x/../../"), file("a/evil")),
    "link to itself through a directory": tar(symlink("s", "."), symlink("e", "s/../.."), file("e/evil")),
    "hard link out": tar((member("evil", tarfile.LNKTYPE, "../../etc/passwd"), b"")),
    "absolute hard link": tar((member("evil", tarfile.LNKTYPE, "/etc/passwd"), b"")),
    "hard link to a link": tar(symlink("s", "x"), (member("evil", tarfile.LNKTYPE, "s"), b"")),
    "device": tar((member("evil", tarfile.CHRTYPE), b"")),
    "fifo": tar((member("evil", tarfile.FIFOTYPE), b"")),
    "through a link that is inside": tar(
        (member("d", tarfile.DIRTYPE), b""), symlink("l", "d"), file("l/evil")
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_gets_out(name: str, into: Path, tmp_path: Path) -> None:
    with pytest.raises(BadArchive):
        unpack(ATTACKS[name], into)
    assert [entry.name for entry in tmp_path.iterdir()] == ["into"]
    assert not [path for path in into.rglob("evil") if not path.is_symlink()]


def test_links_that_stay_inside_are_kept(into: Path) -> None:
    unpack(
        tar(file("lib/a.so.1", b"x"), symlink("lib/a.so", "a.so.1"), symlink("bin/a", "../lib/a.so")), into
    )
    assert (into / "bin" / "a").read_bytes() == b"x"


def test_a_second_name_of_a_file_is_a_copy(into: Path) -> None:
    unpack(tar(file("a", b"x"), (member("b", tarfile.LNKTYPE, "a"), b"")), into)
    (into / "b").write_bytes(b"y")
    assert (into / "a").read_bytes() == b"x"


def test_a_header_that_would_fill_the_memory_is_refused(into: Path) -> None:
    header = member("x", tarfile.XHDTYPE, size=400 << 20)
    data = header.tobuf(tarfile.USTAR_FORMAT) + b"\0" * 1024
    with pytest.raises(BadArchive, match="header of"):
        unpack(data, into)
    longname = member("x", tarfile.GNUTYPE_LONGNAME, size=400 << 20)
    with pytest.raises(BadArchive, match="header of"):
        unpack(longname.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024, into)


def test_many_headers_in_a_row_are_refused(into: Path) -> None:
    header = member("x", tarfile.XHDTYPE, size=0).tobuf(tarfile.USTAR_FORMAT)
    with pytest.raises(BadArchive):
        unpack(header * 20_000, into)


def test_what_comes_out_is_bounded(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1 << 20)
    monkeypatch.setattr(archive, "MAX_UNPACKED_FILES", 50)
    with pytest.raises(BadArchive, match="bytes unpacked"):
        unpack(tar(file("zeros", b"\0" * (2 << 20)), mode="w:gz"), into)
    with pytest.raises(BadArchive, match="files"):
        unpack(tar(*(file(f"f{number}") for number in range(60))), into)
    with pytest.raises(BadArchive, match="files"):
        unpack(tar(file("/".join("d" * 60) + "/x")), into)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("zeros", b"\0" * (2 << 20))
    with pytest.raises(BadArchive, match="bytes unpacked"):
        unpack(packed.getvalue(), into)


@pytest.mark.skipif(landlock.version() == 0, reason="this kernel has no Landlock")
def test_the_fence_holds_whatever_the_archive_does(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    script = f"""
import ctypes, os, socket
from waterclock.executor.warden import landlock
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
inside = os.open({str(tmp_path / "inside")!r}, os.O_RDONLY)
assert landlock.fence(inside)
open({str(tmp_path / "inside" / "file")!r}, "w").write("x")
for attempt in (lambda: open("/etc/passwd"), lambda: open({str(tmp_path / "evil")!r}, "w"), lambda: os.listdir("/"),
                lambda: os.mkdir({str(tmp_path / "evil")!r}), lambda: os.execv("/bin/true", ["true"])):
    try:
        attempt()
    except PermissionError:
        continue
    raise SystemExit("not fenced")
print("fenced")
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout == "fenced\n", ended.stderr
    assert (tmp_path / "inside" / "file").read_text() == "x"
