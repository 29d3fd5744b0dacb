"""Cycles are found, and spelled as they are."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.job.nodes import find_cycle, spell

graphs = st.dictionaries(
    st.integers(0, 7).map(str), st.lists(st.integers(0, 9).map(str), max_size=4), max_size=8
)


def reachable(edges: dict[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(edges.get(start, ()))
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead.extend(edges.get(node, ()))
    return found


@given(graphs)
def test_a_cycle_is_found_exactly_when_a_node_reaches_itself(edges: dict[str, list[str]]) -> None:
    cycle = find_cycle(edges)
    assert (cycle is not None) == any(node in reachable(edges, node) for node in edges)
    if cycle is not None:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(later in edges[earlier] for earlier, later in pairwise(cycle))


def test_cycles_are_spelled_out() -> None:
    cycle = find_cycle({"x": ["a"], "a": ["b"], "b": ["a"]})
    assert cycle is not None
    assert spell(cycle) == "a -> b -> a"
    assert find_cycle({"a": ["a"]}) == ["a", "a"]
    assert find_cycle({"a": ["b", "c"], "b": ["d"], "c": ["d"]}) is None
    assert find_cycle({}) is None


def test_a_long_chain_is_no_trouble() -> None:
    chain = {str(n): [str(n + 1)] for n in range(50_000)}
    assert find_cycle(chain) is None
    found = find_cycle({**chain, "50000": ["0"]})
    assert found is not None
    assert len(found) == 50_002
