"""A workflow's graph on the terminal: layer by layer, each node with what it waits for and how it is."""

from collections.abc import Sequence

from waterclock.api.cli.output import coloured
from waterclock.core.domain.workflow.layout import lay_out

_MARKS = {
    "SUCCESS": "✓",
    "FAILED": "✗",
    "TIMED_OUT": "✗",
    "CANCELLED": "⊘",
    "SKIPPED": "–",
    "MISSED": "–",
    "RUNNING": "▶",
    "QUEUED": "…",
    "RETRYING": "↻",
    "WAITING": "·",
}


def draw(nodes: Sequence[str], edges: Sequence[tuple[str, str]], states: dict[str, str]) -> str:
    """
    ✓ fetch      SUCCESS
    └▶ clean     RUNNING   after fetch
       └▶ load   WAITING   after clean
    """
    layout = lay_out(nodes, edges)
    depths = {node: layer for node, (layer, _) in layout.nodes.items()}
    upstream = {node: [a for a, b in edges if b == node] for node in nodes}
    order = sorted(nodes, key=layout.nodes.__getitem__)
    labels = {node: f"{'   ' * (depths[node] - 1)}{'└▶ ' if depths[node] else ''}{node}" for node in order}
    width = max(map(len, labels.values()), default=0)
    lines = []
    for node in order:
        state = states.get(node, "")
        mark = f"{_MARKS[state]} " if state else ""
        after = f"after {', '.join(upstream[node])}" if upstream[node] else ""
        lines.append(
            f"{mark}{labels[node]:<{width}}  {coloured(f'{state:<9}') if state else ''}  {after}".rstrip()
        )
    return "\n".join(lines)
