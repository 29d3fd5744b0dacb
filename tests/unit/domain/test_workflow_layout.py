"""Where the nodes of a graph stand: layers, no two in one place, edges that go around what they pass."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.workflow.layout import lay_out


def test_a_diamond_is_symmetric() -> None:
    layout = lay_out(["a", "b", "c", "d"], [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    assert layout.nodes == {"a": (0, 0.5), "b": (1, 0.0), "c": (1, 1.0), "d": (2, 0.5)}
    assert (layout.layers, layout.height) == (3, 2.0)


def test_an_edge_that_passes_a_layer_goes_around_what_stands_there() -> None:
    layout = lay_out(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    [bend] = layout.bends["a", "c"]
    assert abs(bend - layout.nodes["b"][1]) >= 1


def test_edges_that_need_not_cross_do_not() -> None:
    nodes = ["a", "b", "c", "x", "y", "z"]
    layout = lay_out(nodes, [("a", "z"), ("b", "y"), ("c", "x")])
    for one, other in (("a", "z"), ("b", "y"), ("c", "x")):
        assert layout.nodes[one][1] == layout.nodes[other][1]


def test_nothing_is_nothing() -> None:
    assert lay_out([], []).layers == 0


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=80))
def test_edges_lead_to_the_right_and_places_are_apart(pairs: list[tuple[int, int]]) -> None:
    nodes = [str(i) for i in range(31)]
    edges = [(str(a), str(b)) for a, b in pairs if a < b]
    layout = lay_out(nodes, edges)
    assert set(layout.nodes) == set(nodes)
    for a, b in edges:
        assert layout.nodes[a][0] < layout.nodes[b][0]
        assert len(layout.bends.get((a, b), ())) == layout.nodes[b][0] - layout.nodes[a][0] - 1
    for layer in range(layout.layers):
        rows = sorted(row for at, row in layout.nodes.values() if at == layer)
        assert all(below - above >= 0.99 for above, below in pairwise(rows))
        assert all(0 <= row <= layout.height - 0.99 for row in rows)


def test_what_goes_round_in_circles_is_drawn_all_the_same() -> None:
    """A definition cannot have a cycle; a drawing need not hang on one."""
    assert set(lay_out(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "b")]).nodes) == {"a", "b", "c"}
