"""Organizations share what a sender has room for."""

import pytest

from meterlake.pipeline.integrations.fair_shares import Shares, order_by_turns


def fill(shares, *orgs):
    """Have organizations take what they may, one at a time and in turn."""
    while takers := [org for org in orgs if shares.room(org)]:
        for org in takers:
            shares.take(org, min(1, shares.room(org)))


@pytest.mark.parametrize(
    ("orgs", "each", "free"), [("a", 750, 250), ("ab", 429, 142), ("abcdefghi", 108, 35)]
)
def test_whoever_comes_next_finds_room(orgs, each, free):
    shares = Shares(1000)
    fill(shares, *orgs)

    assert max(shares.taken.values()) == each
    assert 1000 - shares.total == free
    assert shares.room("new") > 0
    assert {shares.room(org) for org in orgs} == {0}


def test_what_may_be_taken_at_once_is_what_may_be_taken_one_by_one():
    at_once, one_by_one = Shares(1000), Shares(1000)
    fill(one_by_one, "a")

    assert at_once.room("a") == one_by_one.taken["a"]


def test_no_more_is_taken_than_there_is():
    shares = Shares(10)
    fill(shares, *map(str, range(30)))

    assert shares.total == 10
    assert shares.room("new") == 0
    shares.give_back("0")
    assert shares.room("new") == 1


def test_organizations_take_turns_and_so_do_their_queues():
    due = {"q1": "a", "q2": "a", "q3": "b", "q4": "a", "q5": "c"}

    assert list(order_by_turns(due, {}, "")) == ["q1", "q3", "q5", "q2", "q4"]
    # Those after the last ones are first.
    assert list(order_by_turns(due, {"a": "q2"}, "a")) == ["q3", "q5", "q4", "q1", "q2"]
    assert list(order_by_turns({}, {"a": "q2"}, "a")) == []
