"""Statements over HTTP: asked for with the SDK, made as the worker does, fetched through links."""

import csv
import io
import json
from decimal import Decimal
from functools import partial

import httpx
import m3ter
import pytest

from meterlake.model.resources.events import STATEMENT_JOB
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.events.scheduled import SOURCES, fire_scheduled
from meterlake.pipeline.jobs.waiting import run_all_waiting
from meterlake.pipeline.statements.files import forget_files
from meterlake.pipeline.statements.jobs import STATEMENT_JOBS, StatementJobSource
from tests.bills import price_egress, subscribe, use
from tests.homes import ACCOUNTS, EGRESS, HEADER, Home, configure, csv_row
from tests.organizations import Clock
from tests.people import allow, deny
from tests.served import served

pytestmark = pytest.mark.usefixtures("home_database")

NOBODY = "5d9d4a3e-0000-4000-8000-000000000000"
SEPTEMBER = Month(2026, 9)


def make_bills(home):
    """Acme and bolt have a bill of September each."""
    configure(home.organization, meters=[EGRESS], accounts=ACCOUNTS)
    price_egress(home)
    subscribe(home, "acme", "bolt")
    rows = csv_row("1", "42.5") + csv_row("2", "0.25") + csv_row("3", "200", "bolt")
    assert home.ingest("a.csv", HEADER + rows).rejected == 0
    bill(home.organization, SEPTEMBER)


@pytest.fixture(scope="module")
def calm(home_database, tmp_path_factory):
    """A server whose bills nobody changes."""
    with served(tmp_path_factory.mktemp(home_database) / "home", make_bills) as found:
        yield found


@pytest.fixture
def server(request, tmp_path):
    if "calm" in request.fixturenames:
        yield request.getfixturevalue("calm")
        return
    with served(tmp_path / "home", make_bills) as found:
        yield found


@pytest.fixture
def sdk(server):
    with server.sdk() as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture
def bills(sdk):
    """The ids of bills by the codes of their accounts."""
    return {each.account_code: each.id for each in sdk.bills.list()}


def work(server):
    """Run the jobs that wait; what failed."""
    ran = run_all_waiting(server.organization, STATEMENT_JOBS)
    return [each.error for each in ran if each.error]


def fetch(url):
    answer = httpx.get(url)
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.content


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(
    ("body", "field", "rule"),
    [
        ({}, "billId", "required"),
        ({"billId": "one"}, "billId: 'one'", "an id"),
        ({"billId": NOBODY}, f"billId: '{NOBODY}'", "the id of an existing Bill"),
        ({"billId": NOBODY, "filters": {"meterIds": [NOBODY] * 11}}, "meterIds", "at most 10"),
        ({"billId": NOBODY, "includeCsvFormat": "perhaps"}, "includeCsvFormat", "true or false"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_with_its_field(http, body, field, rule):
    answer = http.post("/statementjobs", json=body)

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert field in answer.json()["message"]
    assert rule in answer.json()["message"]
    assert http.get("/statementjobs?active=false").json()["data"] == []


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(
    ("ids", "rule"),
    [
        ([], "billIds: [] is not allowed: it must have at least 1"),
        ([NOBODY] * 11, "billIds: "),
        (["one"], "billIds[0]: 'one' is not allowed: it must be an id"),
        (None, "billIds"),
    ],
)
def test_a_batch_has_one_to_ten_bills(http, ids, rule):
    answer = http.post("/statementjobs/batch", json={} if ids is None else {"billIds": ids})

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert rule in answer.json()["message"]


@pytest.mark.usefixtures("calm")
def test_a_batch_with_one_unknown_bill_makes_no_job_at_all(http, bills):
    answer = http.post("/statementjobs/batch", json={"billIds": [bills["acme"], NOBODY]})

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert f"billIds[1]: '{NOBODY}'" in answer.json()["message"]
    assert http.get(f"/statementjobs?billId={bills['acme']}").json()["data"] == []


@pytest.mark.usefixtures("calm")
def test_a_meter_that_is_unknown_is_refused(http, bills):
    body = {"billId": bills["acme"], "filters": {"meterIds": [NOBODY]}}
    answer = http.post("/statementjobs", json=body)

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert f"filters.meterIds[0]: '{NOBODY}'" in answer.json()["message"]


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("active=TRUE&status=PENDING", "at most one of active, status and billId"),
        (f"active=FALSE&billId={NOBODY}", "at most one"),
        (f"status=PENDING&billId={NOBODY}", "at most one"),
        ("status=DONE", "one of PENDING, RUNNING, COMPLETE"),
        ("status=AWAITING_FILE", "one of PENDING, RUNNING, COMPLETE"),
        ("active=perhaps", "true or false"),
        ("active=TRUE&pageSize=101", "pageSize"),
        ("active=TRUE&nextToken=abc", "nextToken"),
    ],
)
def test_a_list_has_at_most_one_filter(http, query, rule):
    answer = http.get(f"/statementjobs?{query}")

    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert rule in answer.json()["message"]


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/statementjobs/{NOBODY}"),
        ("POST", f"/statementjobs/{NOBODY}/cancel"),
        ("GET", "/statementjobs/one"),
        ("POST", f"/bills/{NOBODY}/statement/csv"),
        ("GET", f"/bills/{NOBODY}/statement/csv"),
        ("GET", f"/bills/{NOBODY}/statement/json"),
    ],
)
def test_what_is_unknown_is_not_found(http, method, path):
    assert http.request(method, path).status_code == httpx.codes.NOT_FOUND


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_a_bill_without_a_statement_has_no_link(http, bills, format_):
    answer = http.get(f"/bills/{bills['bolt']}/statement/{format_}")

    assert answer.status_code == httpx.codes.NOT_FOUND
    assert "a statement job makes it" in answer.json()["message"]


@pytest.mark.long
def test_the_bill_of_another_organization_is_unknown(calm, tmp_path):
    elsewhere = partial(make_bills)  # Prepared apart, so nothing has the ids of the first.
    with (
        served(tmp_path / "home", elsewhere) as other,
        other.http() as http,
        calm.sdk() as sdk,
    ):
        [theirs] = [each.id for each in sdk.bills.list() if each.account_code == "acme"]
        made = http.post("/statementjobs", json={"billId": theirs})
        batch = http.post("/statementjobs/batch", json={"billIds": [theirs]})
        links = [http.get(f"/bills/{theirs}/statement/{each}") for each in ("csv", "json")]

    assert [each.status_code for each in (made, batch)] == [httpx.codes.BAD_REQUEST] * 2
    assert "the id of an existing Bill" in made.json()["message"]
    assert {each.status_code for each in links} == {httpx.codes.NOT_FOUND}


def token_of(server, http, *statements):
    """A token of a service user with a policy of its own."""

    def created(path, body):
        answer = http.post(path, json=body)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    policy = created("/permissionpolicies", {"name": "p", "permissionPolicy": statements})
    user = created("/serviceusers", {"name": "robot"})
    grant = f"/permissionpolicies/{policy['id']}/addtoserviceuser"
    created(grant, {"principalId": user["id"]})
    key = created(f"/serviceusers/{user['id']}/accesskeys", {})
    asked = {"grant_type": "client_credentials"}
    auth = (key["id"], key["apiSecret"])
    given = httpx.post(f"{server.url}/oauth/token", json=asked, auth=auth)
    return given.json()["access_token"]


def test_who_may_not_see_a_bill_gets_no_statement_of_it(server, http, sdk, bills):
    hidden, shown = bills["acme"], bills["bolt"]
    sdk.statements.statement_jobs.create_batch(bill_ids=[hidden, shown])
    assert work(server) == []
    token = token_of(server, http, allow(), deny("all", f"config:bill/item/{hidden}"))

    with server.http(token) as other:
        refused = [
            other.post("/statementjobs", json={"billId": hidden}),
            other.post("/statementjobs/batch", json={"billIds": [shown, hidden]}),
            other.post(f"/bills/{hidden}/statement/csv"),
            other.get(f"/bills/{hidden}/statement/json"),
        ]
        jobs = other.get("/statementjobs?status=COMPLETE").json()["data"]

    assert {each.status_code for each in refused} == {httpx.codes.FORBIDDEN}
    assert {each["billId"]: "presignedJsonStatementUrl" in each for each in jobs} == {
        hidden: False,
        shown: True,
    }


def test_a_statement_is_read_only_with_the_right_to_read_bills(server, http, bills):
    path = f"/bills/{bills['acme']}/statement/csv"
    with server.http(token_of(server, http, allow("config:create"))) as creator:
        refused = creator.post(path)
    both = allow("config:create"), allow("config:retrieve")
    with server.http(token_of(server, http, *both)) as reader:
        made = reader.post(path)

    assert refused.status_code == httpx.codes.FORBIDDEN
    assert refused.json()["message"] == (
        "no permission for config:retrieve on bill; ask an administrator for it"
    )
    assert made.status_code == httpx.codes.OK, made.text


@pytest.mark.long
def test_who_may_only_look_makes_no_statement(server, http, bills):
    with server.http(token_of(server, http, allow("config:retrieve"))) as other:
        answers = [
            other.post("/statementjobs", json={"billId": bills["acme"]}),
            other.post("/statementjobs/batch", json={"billIds": [bills["acme"]]}),
            other.post(f"/statementjobs/{NOBODY}/cancel"),
            other.post(f"/bills/{bills['acme']}/statement/csv"),
        ]
        listed = other.get("/statementjobs?active=TRUE")

    assert {each.status_code for each in answers} == {httpx.codes.FORBIDDEN}
    assert listed.json()["data"] == []


@pytest.mark.long
@pytest.mark.sees(
    "CreateStatementJob",
    "GetStatementJob",
    "ListStatementJobs",
    "GetBillCsvStatement",
    "GetBillJsonStatement",
)
def test_a_job_makes_json_and_csv_with_links(server, sdk, bills):
    jobs = sdk.statements.statement_jobs
    made = jobs.create(bill_id=bills["acme"], include_csv_format=True)
    assert (made.statement_job_status, made.bill_id) == ("PENDING", bills["acme"])
    assert (made.presigned_json_statement_url, made.presigned_csv_statement_url) == (None, None)
    assert (made.json_statement_status, made.include_csv_format) == (None, True)
    assert [each.id for each in jobs.list(active="TRUE")] == [made.id]

    assert work(server) == []

    done = jobs.retrieve(made.id)
    assert done.statement_job_status == "COMPLETE"
    assert (done.json_statement_status, done.csv_statement_status) == ("LATEST", "LATEST")
    document = json.loads(fetch(done.presigned_json_statement_url), parse_float=Decimal)
    rows = list(csv.DictReader(io.StringIO(fetch(done.presigned_csv_statement_url).decode())))
    [usage] = [each for each in document["lines"] if "usage" in each]
    assert usage["quantity"] == "42.75"
    assert [row["quantity"] for row in usage["usage"][0]["rows"]] == ["42.75"]
    assert [row["rowType"] for row in rows] == ["LINE", "BAND", "USAGE", "LINE"]
    found = sdk.bills.retrieve(bills["acme"])
    assert (found.json_statement_generated, found.csv_statement_generated) == (True, True)
    assert found.statement_stale is False
    assert fetch(sdk.statements.get_json(bills["acme"]).download_url) == fetch(
        done.presigned_json_statement_url
    )
    assert fetch(sdk.statements.get_csv(bills["acme"]).download_url) == fetch(
        done.presigned_csv_statement_url
    )
    assert list(jobs.list(active="TRUE")) == []
    for filters in ({"bill_id": bills["acme"]}, {"status": "COMPLETE"}, {"active": "FALSE"}):
        assert [each.id for each in jobs.list(**filters)] == [made.id]
    assert list(jobs.list(bill_id=bills["bolt"])) == []
    with pytest.raises(m3ter.ConflictError, match="has ended already"):
        jobs.cancel(made.id)


@pytest.mark.long
@pytest.mark.sees("CancelStatementJob")
def test_a_job_that_waits_is_cancelled(server, sdk, bills):
    jobs = sdk.statements.statement_jobs
    made = jobs.create(bill_id=bills["acme"])

    cancelled = jobs.cancel(made.id)

    assert cancelled.statement_job_status == "CANCELLED"
    assert work(server) == []
    assert jobs.retrieve(made.id).presigned_json_statement_url is None
    assert sdk.bills.retrieve(bills["acme"]).json_statement_generated is False


@pytest.mark.long
@pytest.mark.sees("CreateStatementJobBatch")
def test_a_batch_is_an_array_with_a_job_for_each_bill(server, sdk, bills):
    made = sdk.statements.statement_jobs.create_batch(bill_ids=list(bills.values()))

    assert [each.bill_id for each in made] == list(bills.values())
    assert work(server) == []
    found = sdk.statements.statement_jobs.list(status="COMPLETE")
    assert {each.bill_id for each in found} == set(bills.values())
    # As the SDK calls it if nobody says more: all of them, page by page.
    every = list(sdk.statements.statement_jobs.list(page_size=1))
    assert sorted(each.id for each in every) == sorted(each.id for each in made)


@pytest.mark.long
def test_a_later_job_takes_the_place_of_an_earlier_one(server, sdk, bills):
    jobs = sdk.statements.statement_jobs
    first = jobs.create(bill_id=bills["acme"], include_csv_format=True)
    assert work(server) == []
    second = jobs.create(bill_id=bills["acme"])
    assert work(server) == []

    before, after = jobs.retrieve(first.id), jobs.retrieve(second.id)
    assert (before.json_statement_status, before.csv_statement_status) == ("INVALIDATED", "LATEST")
    assert before.presigned_json_statement_url is None
    assert after.json_statement_status == "LATEST"
    files = [each.key for each in server.stores.objects.list("statements/")]
    assert sorted(each.rpartition(".")[2] for each in files) == ["csv", "json"]


@pytest.mark.long
def test_a_statement_is_stale_once_its_bill_has_changed(server, sdk, bills):
    jobs = sdk.statements.statement_jobs
    made = jobs.create(bill_id=bills["acme"])
    assert work(server) == []

    # A calculation that changes nothing, and an approval, leave it as it is.
    bill(server.organization, SEPTEMBER, approve=True)

    assert jobs.retrieve(made.id).json_statement_status == "LATEST"
    assert sdk.bills.retrieve(bills["acme"]).statement_stale is False
    use(Home(server.stores, server.org_id, Clock()), ("4", "acme", 1))
    bill(server.organization, SEPTEMBER)

    assert jobs.retrieve(made.id).json_statement_status == "STALE"
    assert sdk.bills.retrieve(bills["acme"]).statement_stale is True
    assert [each.statement_stale for each in sdk.bills.list(ids=[bills["bolt"]])] == [False]
    assert sdk.statements.get_json(bills["acme"]).download_url


@pytest.mark.long
def test_a_bill_that_is_deleted_has_no_statement(server, sdk, bills):
    jobs = sdk.statements.statement_jobs
    done = jobs.create(bill_id=bills["acme"])
    assert work(server) == []
    waiting = jobs.create(bill_id=bills["acme"])

    sdk.bills.delete(bills["acme"])

    assert jobs.retrieve(done.id).json_statement_status == "INVALIDATED"
    assert [type(each).__name__ for each in work(server)] == ["NotFound"]
    failed = jobs.retrieve(waiting.id)
    assert failed.statement_job_status == "FAILED"
    assert f"no bill '{bills['acme']}'" in failed.model_extra["error"]


@pytest.mark.long
@pytest.mark.sees("CreateBillCsvStatement")
def test_a_csv_statement_is_made_at_once(sdk, bills):
    first = fetch(sdk.statements.create_csv(bills["acme"]).download_url)
    [job] = sdk.statements.statement_jobs.list(bill_id=bills["acme"])
    again = fetch(sdk.statements.create_csv(bills["acme"]).download_url)

    assert first == again
    assert job.statement_job_status == "COMPLETE"
    assert len(list(sdk.statements.statement_jobs.list(bill_id=bills["acme"]))) == 1


@pytest.mark.long
def test_lines_of_usage_of_other_meters_are_left_out(server, sdk, bills):
    configure(server.organization, meters=[{**EGRESS, "code": "other", "name": "Other"}])
    meters = {each.code: each.id for each in sdk.meters.list()}
    documents = {}
    for code in ("egress", "other"):
        filters = {"meter_ids": [meters[code]]}
        made = sdk.statements.statement_jobs.create(bill_id=bills["acme"], filters=filters)
        assert made.filters.meter_ids == [meters[code]]
        assert work(server) == []
        url = sdk.statements.get_json(bills["acme"]).download_url
        documents[code] = json.loads(fetch(url))

    types = {
        code: [line["lineItemType"] for line in each["lines"]] for code, each in documents.items()
    }
    assert types == {"egress": ["USAGE", "STANDING_CHARGE"], "other": ["STANDING_CHARGE"]}
    assert documents["egress"]["omitted"] == {"lines": 0, "convertedSubtotal": "0"}
    assert documents["other"]["omitted"] == {"lines": 1, "convertedSubtotal": "42.75"}
    assert documents["other"]["bill"]["total"] == "73.75"


@pytest.mark.long
@pytest.mark.parametrize(
    ("organization", "account", "formats"),
    [
        pytest.param("NONE", None, [], marks=pytest.mark.slow),
        pytest.param("JSON", None, ["json"], marks=pytest.mark.slow),
        ("JSON_AND_CSV", None, ["csv", "json"]),
        ("NONE", "JSON", ["json"]),
        pytest.param("JSON_AND_CSV", "NONE", [], marks=pytest.mark.slow),
    ],
)
def test_an_approval_makes_the_statements_that_the_mode_says(
    server, sdk, bills, organization, account, formats
):
    configure(
        server.organization,
        organizationConfig={
            "daysBeforeBillDue": 14,
            "currency": "USD",
            "autoGenerateStatementMode": organization,
        },
    )
    if account is not None:
        [acme] = [each for each in sdk.accounts.list() if each.code == "acme"]
        sdk.accounts.update(
            acme.id,
            code="acme",
            name="Acme",
            email_address=acme.email_address,
            version=acme.version,
            auto_generate_statement_mode=account,
        )
    bill(server.organization, SEPTEMBER)
    assert list(sdk.statements.statement_jobs.list(active="FALSE")) == []

    sdk.bills.approve(bill_ids=[bills["acme"]])
    assert work(server) == []
    sdk.bills.lock(bills["acme"])
    assert work(server) == []

    keys = [each.key for each in server.stores.objects.list("statements/")]
    assert sorted(each.rpartition(".")[2] for each in keys) == formats
    jobs = list(sdk.statements.statement_jobs.list(bill_id=bills["acme"]))
    assert len(jobs) == (1 if formats else 0)
    assert list(sdk.statements.statement_jobs.list(bill_id=bills["bolt"])) == []


@pytest.mark.long
def test_a_lock_makes_the_statement_that_an_approval_did_not(server, sdk, bills):
    sdk.bills.approve(bill_ids=[bills["acme"]])
    config = {"daysBeforeBillDue": 14, "currency": "USD", "autoGenerateStatementMode": "JSON"}
    configure(server.organization, organizationConfig=config)

    sdk.bills.lock(bills["acme"])

    [job] = sdk.statements.statement_jobs.list(active="TRUE")
    assert (job.bill_id, job.include_csv_format) == (bills["acme"], False)


@pytest.mark.long
@pytest.mark.parametrize("way", ["filters", pytest.param("run", marks=pytest.mark.slow)])
def test_many_approvals_at_once_make_statements_too(server, http, sdk, bills, way):
    config = {"daysBeforeBillDue": 14, "currency": "USD", "autoGenerateStatementMode": "JSON"}
    configure(server.organization, organizationConfig=config)
    if way == "filters":
        path = "/bills/billingperiod/2026-09-30/MONTHLY/approve"
        assert http.post(path).status_code == httpx.codes.OK
    else:
        bill(server.organization, SEPTEMBER, approve=True)

    assert work(server) == []
    found = sdk.statements.statement_jobs.list(status="COMPLETE")
    assert {each.bill_id for each in found} == set(bills.values())


@pytest.mark.long
def test_each_job_has_its_events(server, http, sdk, bills):
    made = sdk.statements.statement_jobs.create(bill_id=bills["acme"])
    assert work(server) == []
    sdk.statements.statement_jobs.cancel(
        sdk.statements.statement_jobs.create(bill_id=bills["acme"]).id
    )

    found = http.get("/events?eventName=billing.statementjob.updated").json()["data"]
    assert [each["m3terEvent"]["eventData"]["newDto"]["statementJobStatus"] for each in found] == [
        "CANCELLED",
        "COMPLETE",
    ]
    assert found[1]["m3terEvent"]["eventData"]["newDto"]["id"] == made.id
    assert found[1]["m3terEvent"]["eventData"]["newDto"]["jsonStatementStatus"] == "LATEST"
    created = http.get("/events?eventName=billing.statementjob.created").json()["data"]
    assert len(created) == 2


@pytest.mark.long
def test_a_file_that_no_bill_has_is_removed(server, sdk, bills):
    sdk.statements.create_csv(bills["acme"])
    server.stores.objects.put_bytes(f"statements/{server.org_id}/x/{NOBODY}-1.json", b"{}")

    assert forget_files(server.organization) == 1
    assert len(list(server.stores.objects.list("statements/"))) == 2
    sdk.bills.delete(bills["acme"])
    assert forget_files(server.organization) == 2


@pytest.mark.usefixtures("calm")
def test_a_saved_definition_has_effect_without_a_warning(http):
    answer = http.post("/statementdefinitions", json={"aggregationFrequency": "DAY"})

    assert answer.status_code == httpx.codes.OK
    assert "Warning" not in answer.headers


@pytest.mark.long
def test_a_definition_of_the_account_shapes_its_statement(server, sdk, bills):
    definition = sdk.statements.statement_definitions.create(
        aggregation_frequency="WHOLE_PERIOD",
        name="By region",
        dimensions=[{"name": "region", "filter": ["*"]}],
        measures=[{"name": "gb", "aggregations": ["MAX", "COUNT"]}],
        include_price_per_unit=True,
    )
    [acme] = [each for each in sdk.accounts.list() if each.code == "acme"]
    sdk.accounts.update(
        acme.id,
        code="acme",
        name="Acme",
        email_address=acme.email_address,
        version=acme.version,
        statement_definition_id=definition.id,
    )
    made = sdk.statements.statement_jobs.create(bill_id=bills["acme"])
    assert work(server) == []

    url = sdk.statements.statement_jobs.retrieve(made.id).presigned_json_statement_url
    document = json.loads(fetch(url))
    assert document["definition"] == {
        "id": definition.id,
        "version": 1,
        "name": "By region",
        "aggregationFrequency": "WHOLE_PERIOD",
        "includePricePerUnit": True,
        "generateSlimStatements": False,
    }
    [line] = [each for each in document["lines"] if "usage" in each]
    assert (line["quantity"], line["pricePerUnit"], line["convertedSubtotal"]) == (
        "42.75",
        "1",
        "42.75",
    )
    [row] = line["usage"][0]["rows"]
    assert (row["dimensions"], row["quantity"]) == ({"region": "eu"}, "42.75")
    assert row["measures"] == {"gb": {"MAX": "42.5", "COUNT": "2"}}


@pytest.mark.long
def test_dates_of_statement_jobs_fall_due(server, sdk, bills):
    made = sdk.statements.statement_jobs.create(bill_id=bills["acme"])
    name = "scheduled.statementjob.age"
    sdk.scheduled_event_configurations.create(
        name=name, entity="StatementJob", field="dtCreated", offset=0
    )
    sources = {**SOURCES, STATEMENT_JOB: StatementJobSource()}

    assert fire_scheduled(server.organization, sources=sources) == 1

    [event] = sdk.events.list(event_name=name)
    found = event.m3ter_event["eventData"]["newDto"]
    assert (found["id"], found["statementJobStatus"]) == (made.id, "PENDING")
