"""Names: what fits on a line, and the handler and the id that go by a name."""

import re
import unicodedata

from waterclock.core.domain.job.validate import Problems
from waterclock.proto.names import is_user_id

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def check_line(field: str, text: str | None, problems: Problems) -> None:
    """Text of a single line, which may go into logs, headers and terminals."""
    if text is not None and _CONTROL.search(text):
        problems.add(field, "must not contain line breaks or control characters")


def single_line(text: str) -> str:
    return _CONTROL.sub(" ", text).strip()


def snake_case(name: str) -> str:
    """`Daily Data Cleanup` is served by the handler `daily_data_cleanup`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", plain).lower()).strip("_")


def id_of_name(name: str) -> str | None:
    """The id of what is declared under a name only; None if the name has nothing that an id could be made of."""
    for chosen in (name, snake_case(name)):
        if is_user_id(chosen):
            return chosen
    return None
