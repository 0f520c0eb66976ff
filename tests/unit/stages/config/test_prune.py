from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.resources import resource_of
from meterlake.model.resources.proposal import Document
from meterlake.stages.config.prune import in_use, left_out
from tests.organizations import added, after, everything


def names(records):
    return [f"{resource_of(each.entity).name} {each.entity.code}" for each in records]


def pruned(content, before):
    return left_out(before, [Document("a", content)], [])


def test_a_kind_that_no_document_lists_is_left_alone():
    before = after(everything())

    assert pruned({}, before) == []
    assert pruned({"accounts": None, "organizationConfig": {}}, before) == []
    assert left_out(before, [Document("empty", None)], []) == []


def test_what_refers_to_others_goes_before_them():
    before = after(everything())

    found = names(pruned({"planTemplates": [], "plans": [], "pricings": []}, before))

    assert found == ["pricings egress", "plans basic", "planTemplates cloud"]


def test_what_stays_and_refers_to_something_that_goes_is_named():
    before = after([*everything(), *added("accounts", code="c", name="C", emailAddress="a@b.de")])
    gone = pruned({"accounts": [], "currencies": []}, before)
    settings = before.single(OrganizationConfig)

    assert sorted(str(each).partition(", which")[0] for each in in_use(gone, before)) == [
        "Account 'acme' is still referenced by AccountPlan 'acme-basic'",
        f"Currency 'USD' is still referenced by OrganizationConfig {settings.id!r}",
    ]
