"""A law of proposals: applied, they leave what `config apply` of the same files leaves."""

import re
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.errors import Invalid
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import ChangeAction, apply, export
from meterlake.pipeline.config.change_proposals import (
    ChangeOrder,
    apply_proposal,
    approve_proposal,
    propose_change_set,
    show_proposal,
)
from tests.homes import a_home
from tests.organizations import new_organization
from tests.properties.test_configuration import organizations


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    with a_home(tmp_path_factory.mktemp("proposals")) as home:
        yield home.stores


def without_ids(value):
    """A configuration by its codes alone: ids that were made up differ."""
    if isinstance(value, dict):
        return {name: without_ids(each) for name, each in value.items() if name != "id"}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


@st.composite
def changes(draw):
    """Files for an organization, and other ones for it: new bands, names and products."""
    before = draw(organizations())
    bands = st.fixed_dictionaries(
        {"lowerLimit": st.just(0), "fixedPrice": st.integers(0, 9), "unitPrice": st.integers(0, 9)}
    )
    pricings = [{**each, "pricingBands": [draw(bands)]} for each in before["pricings"]]
    names = st.sampled_from(["one", "two"])
    products = [{**each, "name": draw(names)} for each in before["products"]]
    products += [{"code": "new", "name": "New"}] * draw(st.integers(0, 2))
    changed = {"pricings": pricings, "products": products}
    kinds = draw(st.sets(st.sampled_from(sorted(changed)), min_size=1))
    return before, {kind: changed[kind] for kind in kinds}


@settings(max_examples=20, deadline=None)
@given(drawn=changes())
def test_a_proposal_leaves_what_config_apply_leaves(stores, drawn):
    before, changed = drawn
    files = [Document("changed.yaml", changed)]
    applied, proposing = (
        stores.organization(new_organization(stores.state, uuid4().hex)) for _ in range(2)
    )
    for each in (applied, proposing):
        apply(stores.state, each.id, [Document("before.yaml", before)], "ann")
    order = ChangeOrder("a", "because", files)
    try:
        done = apply(stores.state, applied.id, files, "ann")
    except Invalid as error:
        with pytest.raises(Invalid, match=re.escape(str(error))):
            propose_change_set(proposing, "ann", order)
        return
    wanted = sorted(
        (each.kind, each.name, each.action.value)
        for each in done
        if each.action is not ChangeAction.UNCHANGED
    )
    if not wanted:
        with pytest.raises(Invalid, match="it must change something"):
            propose_change_set(proposing, "ann", order)
        return
    made = propose_change_set(proposing, "ann", order)
    shown = show_proposal(proposing, made["id"])
    found = sorted((each["kind"], each["name"], each["action"]) for each in shown["changes"])
    assert (found, shown["stale"], shown["problems"]) == (wanted, [], [])
    approve_proposal(proposing, "bob", made["id"])
    apply_proposal(proposing, "bob", made["id"])
    left, right = (without_ids(export(stores.state, each.id)) for each in (applied, proposing))
    assert left == right
