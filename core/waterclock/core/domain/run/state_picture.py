"""The run state machine as a picture for the docs, drawn from the table that the code runs by."""

from waterclock.core.domain.run.states import TERMINAL, TRANSITIONS

_HEAD = """# The states of a run

Made from `core/waterclock/core/domain/run.py` by `python -m waterclock.core.domain.state_picture`.
An event for which a state has no arrow is stale: it stays in the log and changes nothing.

"""


def picture() -> str:
    """A Markdown page with a Mermaid diagram and the same as a table."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for status, steps in TRANSITIONS.items():
        for kind, target in steps.items():
            tag = str(kind.__struct_config__.tag)  # type: ignore[attr-defined]
            for reached in target if isinstance(target, tuple) else (target,):
                arrows.setdefault((status or "[*]", reached), []).append(tag)
    lines = ["```mermaid", "stateDiagram-v2"]
    for (start, end), tags in arrows.items():
        if start != end:
            lines.append(f"    {start} --> {end}: {', '.join(tags)}")
    lines += [f"    {status} --> [*]" for status in sorted(TERMINAL)]
    lines.append("```")
    table = ["", "| from | event | to |", "|---|---|---|"]
    for (start, end), tags in arrows.items():
        table += [f"| {'(new)' if start == '[*]' else start} | {tag} | {end} |" for tag in tags]
    return _HEAD + "\n".join(lines + table) + "\n"


if __name__ == "__main__":
    print(picture(), end="")
