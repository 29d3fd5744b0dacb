"""The dashboards, from code to JSON: `python deploy/grafana/build.py`, or `--check` to see whether they are stale."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DASHBOARDS = ("overview", "jobs", "one_job", "executors", "scheduler")


def built() -> dict[str, str]:
    sys.path.insert(0, str(HERE))
    found: dict[str, str] = {}
    for name in DASHBOARDS:
        dashboard: dict[str, Any] = importlib.import_module(f"source.{name}").dashboard()
        found[f"{name.replace('_', '-')}.json"] = json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"
    return found


def main() -> int:
    where = HERE / "dashboards"
    wanted = built()
    stale = [name for name, text in wanted.items() if not _same(where / name, text)]
    extra = [path.name for path in where.glob("*.json") if path.name not in wanted]
    if "--check" in sys.argv:
        for name in (*stale, *extra):
            print(f"{where / name} is stale: run python deploy/grafana/build.py", file=sys.stderr)
        return 1 if stale or extra else 0
    for name, text in wanted.items():
        (where / name).write_text(text)
    for name in extra:
        (where / name).unlink()
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    sys.exit(main())
