"""Declarations as YAML, for people to read and keep: one item of a list at a time, so that none waits for the rest."""

from functools import cache
from typing import Any

from waterclock.proto.answers import Declaration


def item(declaration: Declaration) -> str:
    """An item of the list that a file of declarations is; a comment where there is nothing to declare."""
    import yaml

    if declaration.definition is None:
        return f"# left out: {declaration.job_id}: {_line(declaration.left_out)}\n"
    remark = (
        f"# {declaration.job_id} is paused, which a declaration does not say\n"
        if declaration.status == "PAUSED"
        else ""
    )
    text: str = yaml.dump(
        [declaration.definition],
        Dumper=_dumper(),
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=120,
    )
    return remark + text


def _line(text: str) -> str:
    """Nothing that would end a comment."""
    return " ".join(text.split())


@cache
def _dumper() -> Any:
    """Texts of several lines are written as such, where YAML can."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            """The same value twice is written twice."""
            return True

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value.strip("\n") else None
        if not value.replace("\n", "").isprintable():
            style = '"'  # what YAML takes for a line break, or leaves out
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper
