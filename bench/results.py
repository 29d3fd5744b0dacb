"""The results a report is made of, kept beside it."""

from collections.abc import Collection
from pathlib import Path

import msgspec

from bench.result import Result
from bench.system import ROOT

FILE = ROOT / "docs" / "benchmarks" / "results.jsonl"


class Results:
    """By name; a newer one takes the place of an older."""

    def __init__(self, found: dict[str, Result] | None = None) -> None:
        self._found = found or {}

    @classmethod
    def stored(cls, file: Path = FILE) -> "Results":
        if not file.exists():
            return cls()
        read = msgspec.json.Decoder(Result).decode_lines(file.read_bytes())
        return cls({result.name: result for result in read})

    def store(self, file: Path = FILE) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.Encoder().encode_lines(list(self._found.values())))

    def add(self, result: Result) -> None:
        self._found[result.name] = result

    def only_of(self, run: str, *, but: Collection[str]) -> None:
        """Drop what is of other runs; but of scenarios that failed in this one, what there was before is kept."""
        self._found = {
            name: result
            for name, result in self._found.items()
            if result.run == run or result.scenario in but or name in but
        }

    def get(self, name: str) -> Result | None:
        return self._found.get(name)

    def of(self, scenario: str) -> list[Result]:
        return [result for result in self._found.values() if result.scenario == scenario]

    def number(self, name: str, figure: str) -> float | None:
        result = self._found.get(name)
        return None if result is None else result.number(figure)

    @property
    def all(self) -> list[Result]:
        return list(self._found.values())

    @property
    def runs(self) -> list[str]:
        """Which runs the results come from, oldest first."""
        return sorted({result.run for result in self._found.values()})
