from meterlake.model.customers.accounts import Account
from meterlake.stages.config.describe import describe, describe_all
from tests.organizations import DOCUMENTS, added, after, changed, everything


def test_documents_come_back_as_they_were_written():
    described = describe_all(after(everything()))

    # Of what there is once, files change the keys that they have: all of them are written.
    settings = described["organizationConfig"]
    assert settings["suppressedEmptyBills"] is False
    described["organizationConfig"] = {
        name: settings[name] for name in DOCUMENTS["organizationConfig"]
    }
    assert {name: described[name] for name in DOCUMENTS} == DOCUMENTS


def test_what_is_at_its_default_is_left_out():
    documents = changed("pricings", cumulative=False, segment={}, tiersSpanPlan=False)

    assert describe_all(after(documents))["pricings"] == DOCUMENTS["pricings"]


def test_access_is_not_described():
    assert set(describe_all(after(everything()))) == {
        *DOCUMENTS,
        "billConfig",
        "currencies",
        "customFields",
    }


def test_what_has_no_code_is_named_by_its_id():
    template = {k: v for k, v in DOCUMENTS["planTemplates"][0].items() if k != "code"}
    documents = added("planTemplates", **template, id="t")
    documents += added("plans", code="pro", name="Pro", planTemplateId="t")

    described = describe_all(after(documents, after(everything())))

    ids = [each["id"] for each in described["planTemplates"] if "id" in each]
    assert [plan["planTemplateId"] for plan in described["plans"]] == ["cloud", *ids]


def test_a_code_that_looks_like_an_id_is_not_trusted():
    code = "2054cfc5-18df-47ce-926c-5817033073b4"
    configuration = after(added("accounts", code=code, name="X", emailAddress="a@b.example"))

    record = configuration.find(Account, code)

    assert describe(record, configuration)["id"] == record.id


def test_what_has_no_code_is_named_by_what_tells_it_from_the_others_or_not_at_all():
    template = {k: v for k, v in DOCUMENTS["planTemplates"][0].items() if k != "code"}
    documents = added("planTemplates", **{**template, "name": "Yearly"}, id="x")
    documents += added("plans", code="pro", name="Pro", planTemplateId="x")
    documents += added("meterGroups", name="Alone")
    documents += added("meterGroups", name="Traffic", id="y")
    documents += added("meters", **{**DOCUMENTS["meters"][0], "code": "m", "groupId": "y"})

    described = describe_all(after(documents, after(everything())))

    assert [each.get("id") for each in described["planTemplates"]] == ["cloud Yearly", None]
    assert {each["code"]: each["planTemplateId"] for each in described["plans"]} == {
        "basic": "cloud",
        "pro": "cloud Yearly",
    }
    assert described["meterGroups"] == [{"name": "Alone"}, {"id": "Traffic", "name": "Traffic"}]
    assert described["meters"][1]["groupId"] == "Traffic"


def test_only_what_nothing_tells_apart_keeps_its_id():
    ids = ("2054cfc5-18df-47ce-926c-5817033073b4", "2054cfc5-18df-47ce-926c-5817033073b5")
    documents = [each for id_ in ids for each in added("meterGroups", name="Twin", id=id_)]
    documents += added("meterGroups", name="Single")

    described = describe_all(after(documents))["meterGroups"]

    assert [each.get("id") for each in described] == [None, *ids]
