"""The wheel tells what it is, and brings types and a manual page."""

import subprocess
import sys
import venv
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return next(directory.glob("*.whl"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as content:
        name = next(name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(content.read(name).decode())


def test_it_says_its_licence_what_it_is_and_where_to_look(wheel: Path, metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])} >= {"Homepage", "Source"}
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("share/man/man1/waterclock.1") for name in names)


def test_links_of_its_description_are_absolute(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert "](https://" in text
    assert "](docs/" not in text
    assert "](tests/" not in text
    assert "](LICENSE)" not in text


def test_every_part_is_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    parts = {name.split("/")[1] for name in names if name.startswith("waterclock/")}
    assert [part for part in sorted(parts) if f"waterclock/{part}/py.typed" not in names] == []


def test_a_users_type_checker_sees_types(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment)
    site = next((environment / "lib").glob("python*")) / "site-packages"
    zipfile.ZipFile(wheel).extractall(site)
    ours = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    for package in ours.iterdir():  # what it depends on, but not our own editable install
        if (
            package.suffix != ".pth"
            and "waterclock" not in package.name
            and not (site / package.name).exists()
        ):
            (site / package.name).symlink_to(package)
    program = tmp_path / "use.py"
    program.write_text(
        "from waterclock.api import Client\n"
        "from waterclock.executor import Context, Worker\n\n"
        "worker = Worker()\n\n\n"
        '@worker.handler("send")\n'
        "async def send(context: Context, payload: object) -> None:\n"
        "    reveal_type(context.run_id)\n\n\n"
        "async def use() -> None:\n"
        "    async with Client.connect() as clock:\n"
        '        job = await clock.jobs.create(name="x", command="true")\n'
        "        reveal_type(job.job_id)\n"
        '        await clock.jobs.create(nmae="x")\n'
    )
    command = [
        sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"),
        "--python-executable", str(environment / "bin" / "python"), "--config-file", "/dev/null", str(program),
    ]  # fmt: skip
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert said.count('Revealed type is "str"') == 2, said
    assert "use.py:16: error:" in said, said
    assert '"nmae"' in said, said
    assert said.count("error:") == 1, said
