"""A virtual environment for each peer under `.cache/bench`, made once and kept."""

import asyncio
import json
import shutil
import sys
from pathlib import Path

from bench.peers.peer import Peer
from bench.system import ROOT

CACHE = ROOT / ".cache" / "bench"
_WITHIN = 300.0


class NotInstalled(Exception):
    """The peer cannot be had on this machine."""


async def environment(name: str, peer: Peer) -> Path:
    """The program that runs the peer's scripts; installed by name, whatever version is current."""
    if peer.server == "redis" and shutil.which("redis-server") is None:
        raise NotInstalled("no redis-server (Debian: apt-get install redis-server)")
    place = CACHE / name
    done = place / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != list(peer.packages):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        await (_node(place, peer) if peer.node else _python(place, peer))
        done.write_text(json.dumps(peer.packages))
    if peer.node:
        return Path(shutil.which("node") or "node")
    return place / "bin" / "python"


async def installed_versions(name: str, peer: Peer) -> dict[str, str]:
    place = CACHE / name
    if peer.node:
        packages = {each: place / "node_modules" / each / "package.json" for each in peer.shown}
        return {each: json.loads(file.read_text())["version"] for each, file in packages.items()}
    script = f"import importlib.metadata as m, json; print(json.dumps({{p: m.version(p) for p in {peer.shown!r}}}))"
    said = await _run(str(place / "bin" / "python"), "-c", script)
    found: dict[str, str] = json.loads(said)
    return found


async def _python(place: Path, peer: Peer) -> None:
    await _run(sys.executable, "-m", "venv", str(place))
    await _run(str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.packages)


async def _node(place: Path, peer: Peer) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NotInstalled("no node and npm")
    (place / "package.json").write_text('{"private": true}')
    await _run(npm, "install", "--no-audit", "--no-fund", "--silent", *peer.packages, cwd=place)


async def _run(*argv: str, cwd: Path | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        said, complaint = await asyncio.wait_for(process.communicate(), _WITHIN)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise NotInstalled(f"{' '.join(argv[:4])} took longer than {_WITHIN:g} s") from None
    if process.returncode:
        raise NotInstalled(complaint.decode(errors="replace").strip()[-400:])
    return said.decode()
