"""What an installation is made of, as a CycloneDX document: every package that the lock pins, with its hashes.

python deploy/sbom.py > sbom.json
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_PACKAGE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+?)(?:\s*;.*)?\s*\\?$")
_HASH = re.compile(r"--hash=sha256:(?P<digest>[0-9a-f]{64})")


def document(lock: Path = ROOT / "requirements.lock") -> dict[str, Any]:
    project = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "([^"]+)"', project, re.MULTILINE)
    assert version is not None
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "waterclock",
                "version": version[1],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/waterclock@{version[1]}",
            }
        },
        "components": components(lock.read_text()),
    }


def components(lock: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in lock.splitlines():
        if package := _PACKAGE.match(line):
            name, version = package["name"], package["version"]
            purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
            found.append(
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": name,
                    "version": version,
                    "purl": purl,
                    "hashes": [],
                }
            )
        elif digest := _HASH.search(line):
            found[-1]["hashes"].append({"alg": "SHA-256", "content": digest["digest"]})
    return found


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=2)
    print()
