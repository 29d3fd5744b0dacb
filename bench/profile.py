"""What each component spends its time on: `python -m bench.profile [JOBS] [--flames]` under a load of bulk submits.

py-spy samples scheduler, executor, projector and api from outside. For each it prints the functions that are on the
stack most often, with the share of the component's busy samples they were in (inclusive) and were the top of (own).
With `--flames` it draws them instead, into docs/benchmarks/flames.
"""

import argparse
import asyncio
import collections
import signal
import sys
import tempfile
from pathlib import Path

from bench import jobs
from bench.system import ROOT, System, running_system

_COMPONENTS = ("scheduler", "executor", "projector", "api")
_FLAMES = ROOT / "docs" / "benchmarks" / "flames"
_RATE = 200
_SHOWN = 22
_EVERYWHERE = 0.97
"""A function on so many of the stacks is the way in, and tells nothing."""


async def profile(count: int, *, flames: bool) -> None:
    async with running_system() as system:
        await jobs.submit(system.clock, [jobs.immediate()] * 1_000)
        await system.history.until_succeeded(1_000, within=60)
        with tempfile.TemporaryDirectory() as directory:
            drawn = ("flamegraph", _FLAMES, ".svg") if flames else ("raw", Path(directory), ".txt")
            files = await _sampled(system, count, *drawn)
            if not flames:
                for component, file in files.items():
                    _print(component, file)


async def _sampled(system: System, count: int, form: str, directory: Path, ending: str) -> dict[str, Path]:
    """A file for each component, of the time it took to do so many jobs."""
    files = {each: directory / f"{each}{ending}" for each in _COMPONENTS}
    sampling = [await _sample(system, each, form, file) for each, file in files.items()]
    await jobs.submit(system.clock, [jobs.immediate()] * count)
    await system.history.until_succeeded(1_000 + count, within=300)
    for process in sampling:
        process.send_signal(signal.SIGINT)
        await process.wait()
    return files


async def _sample(system: System, component: str, form: str, file: Path) -> asyncio.subprocess.Process:
    pid = system.processes[component][0]
    return await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "py-spy"), "record", "--pid", str(pid), "--output", str(file)),
        *("--format", form, "--rate", str(_RATE), "--duration", "600", "--nonblocking"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


def _print(component: str, file: Path) -> None:
    own: collections.Counter[str] = collections.Counter()
    inclusive: collections.Counter[str] = collections.Counter()
    total = 0
    for line in file.read_text().splitlines():
        stack, _, seen = line.rpartition(" ")
        frames = [_short(frame) for frame in stack.split(";")]
        total += int(seen)
        own[frames[-1]] += int(seen)
        inclusive.update(dict.fromkeys(frames, int(seen)))
    print(f"\n{component}: {total} samples\n  inclusive   own")
    shown = [each for each in inclusive.most_common() if each[1] < _EVERYWHERE * total][:_SHOWN]
    for frame, samples in shown:
        print(f"  {samples / total:8.1%} {own[frame] / total:6.1%}  {frame}")
    print("  own, the rest:")
    for frame, samples in own.most_common(_SHOWN // 2):
        print(f"           {samples / total:6.1%}  {frame}")


def _short(frame: str) -> str:
    """`function (path:line)` without the line and the way to the package."""
    name, _, place = frame.partition(" (")
    path = place.rpartition(":")[0]
    for root in ("site-packages/", "/main/", "python3.11/"):
        path = path.rpartition(root)[2]
    return f"{name} {path}".strip()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.profile")
    parser.add_argument("jobs", type=int, nargs="?", default=20_000)
    parser.add_argument("--flames", action="store_true")
    given = parser.parse_args()
    _FLAMES.mkdir(exist_ok=True)
    asyncio.run(profile(given.jobs, flames=given.flames))
