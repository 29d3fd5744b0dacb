"""A workflow's graph on the terminal: layer by layer, each node with what it waits for and how it is."""

from collections.abc import Sequence

from waterclock.api.cli.output import coloured

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
    depths = _depths(nodes, edges)
    upstream = {node: [a for a, b in edges if b == node] for node in nodes}
    order = sorted(nodes, key=lambda node: (depths[node], list(nodes).index(node)))
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


def _depths(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How many steps each node is from a root, by the longest way."""
    depths = dict.fromkeys(nodes, 0)
    for _ in nodes:
        deeper = [(b, depths[a] + 1) for a, b in edges if depths[b] <= depths[a]]
        if not deeper:
            break
        for node, depth in deeper:
            depths[node] = max(depths[node], depth)
    return depths
