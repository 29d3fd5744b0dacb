"""README.md as the package's description: its links lead from the repository's address, not from nowhere."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"(\]\()(?![a-z]+:|#)([^)\s]+)(\))")


class PackageReadme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        base = metadata["urls"]["Source"].rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        absolute = _RELATIVE.sub(rf"\g<1>{base}/\g<2>\g<3>", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}
