"""What is quick, and what is not: `pytest -m quick` reads no other folders."""

from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_what_needs_no_server_is_quick(request):
    assert request.node.get_closest_marker("quick")


def test_nothing_slow_and_nothing_with_a_server_is_quick(request):
    for each in request.session.items:
        if each.get_closest_marker("quick"):
            folder, inner, *_ = each.path.relative_to(TESTS).parts
            assert folder in {"unit", "golden", "properties"}
            assert inner != "stores"
            assert not each.get_closest_marker("slow")
