"""Clients are generated from the documents without a patch and without a warning, complete and typed.

The generators are fetched once, into `.cache`: their dependencies are not ours. Where that cannot be, it is announced.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from waterclock.api.http import openapi
from waterclock.api.nats import asyncapi

ROOT = Path(__file__).parents[3]
DOCUMENT = json.loads(openapi.document())
PYTHON_PACKAGES = ("openapi-python-client==0.29.1", "datamodel-code-generator==0.89.0")
PACKAGES = ("openapi-typescript@7.13.0", "typescript@5.9.3", "@asyncapi/parser@3.6.3")
OPERATIONS = {
    operation["operationId"] for verbs in DOCUMENT["paths"].values() for operation in verbs.values()
}


@pytest.fixture
def document(tmp_path: Path) -> Path:
    file = tmp_path / "openapi.json"
    file.write_bytes(openapi.document())
    return file


@pytest.fixture(scope="module")
def python() -> str:
    """Of an environment with the generators."""
    directory = ROOT / ".cache" / "generators"
    program, marker = directory / "bin" / "python", directory / "installed.json"
    if not marker.exists() or json.loads(marker.read_text()) != list(PYTHON_PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        command = [str(program), "-m", "pip", "install", "--quiet", *PYTHON_PACKAGES]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            pytest.skip(f"pip cannot install the generators: {installed.stderr[-300:]}")
        marker.write_text(json.dumps(PYTHON_PACKAGES))
    return str(program)


@pytest.fixture(scope="module")
def npm() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node is missing: TypeScript and AsyncAPI are not tried")
    directory = ROOT / ".cache" / "npm"
    marker = directory / "installed.json"
    if not marker.exists() or json.loads(marker.read_text()) != list(PACKAGES):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "package.json").write_text('{"private": true, "type": "module"}')
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        installed = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            pytest.skip(f"npm cannot install them: {installed.stderr[-300:]}")
        marker.write_text(json.dumps(PACKAGES))
    return directory


pytestmark = pytest.mark.timeout(600)


def ran(*command: str, cwd: Path) -> str:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_openapi_python_client(document: Path, python: str, tmp_path: Path) -> None:
    said = ran(
        python, "-m", "openapi_python_client", "generate", "--path", str(document),
        "--output-path", "generated", "--meta", "none", "--fail-on-warning",
        cwd=tmp_path,
    )  # fmt: skip
    assert "WARNING" not in said
    assert "Unable" not in said
    calls = {file.stem for file in (tmp_path / "generated" / "api").rglob("*.py")} - {"__init__"}
    assert calls == OPERATIONS
    job = (tmp_path / "generated" / "models" / "job.py").read_text()
    assert "created_at: datetime.datetime\n" in job
    assert "status: JobState\n" in job
    assert "task: ArgvTask | ArtifactTask" in job


def test_datamodel_codegen(document: Path, python: str, tmp_path: Path) -> None:
    ran(
        python, "-m", "datamodel_code_generator", "--input", str(document), "--input-file-type", "openapi",
        "--output", "models.py", "--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin",
        cwd=tmp_path,
    )  # fmt: skip
    probe = (
        "import models; from models import *; "
        "assert Job.model_fields['created_at'].annotation.__name__ == 'AwareDatetime'; "
        f"missing = {sorted(DOCUMENT['components']['schemas'])!r}; "
        "assert [name for name in missing if not hasattr(models, name)] == []"
    )
    ran(python, "-c", probe, cwd=tmp_path)


def test_openapi_typescript(document: Path, npm: Path, tmp_path: Path) -> None:
    out = tmp_path / "api.ts"
    ran("npx", "--no-install", "openapi-typescript", str(document), "-o", str(out), cwd=npm)
    text = out.read_text()
    assert text.count("Record<string, never>") == 2, "for webhooks and $defs, which there are none of"
    (tmp_path / "use.ts").write_text(
        'import type { components, operations } from "./api";\n'
        'type Job = components["schemas"]["Job"];\n'
        'export function team(job: Job): unknown { return job.metadata["team"]; }\n'
        'export const state: Job["status"] = "PAUSED";\n'
        'export type Found = operations["jobs_get"]["responses"][200]["content"]["application/json"];\n'
        "export const id = (job: Found): string => job.job_id;\n"
    )
    ran("npx", "--no-install", "tsc", "--noEmit", "--strict", str(tmp_path / "use.ts"), cwd=npm)


def test_asyncapi_parser(npm: Path, tmp_path: Path) -> None:
    file = tmp_path / "asyncapi.json"
    file.write_bytes(asyncapi.document())
    script = npm / "parse.js"
    script.write_text(
        'import { Parser } from "@asyncapi/parser";\nimport { readFileSync } from "fs";\n'
        'const read = await new Parser().parse(readFileSync(process.argv[2], "utf8"));\n'
        "const wrong = read.diagnostics.filter((one) => one.severity < 2);\n"
        "console.log(JSON.stringify({ wrong, operations: read.document?.operations().all().length ?? 0 }));\n"
    )
    found = json.loads(ran("node", str(script), str(file), cwd=npm))
    assert found["wrong"] == []
    assert found["operations"] == len(asyncapi.asyncapi()["operations"])
