import json
import re
from functools import cache
from pathlib import Path

import pytest
from openapi_schema_validator import OAS30Validator, oas30_format_checker
from openapi_spec_validator import validate
from pydantic import Field, create_model

from meterlake.api import openapi
from meterlake.api.openapi.descriptions import PARAMETERS
from meterlake.api.openapi.schemas import components, relax_properties
from meterlake.api.openapi.texts import TEXTS
from meterlake.api.routes import OPERATIONS
from meterlake.model.resources import RESOURCES
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import (
    Code,
    CustomFieldMap,
    Days,
    Id,
    NonNegative,
    Ordinal,
    Positive,
)
from tests.api_shapes import Comparison

CONTRACT = Path(__file__).parents[4] / "shared" / "contract" / "openapi_shapes.json"

# Where the served document says something else than the contract, by pattern, and why. A line is
# `place what: theirs -> ours`; `Theirs/Ours` are two components with different names.
ACCEPTED = {
    r"\?Idempotency-Key is extra$": "every POST may be sent again with a key, and acts once",
    # The same thing in other words.
    r" format: None -> uuid$": "every id is a UUID",
    r" (min|max)Length: (None|1) -> 36$": "every id is a UUID",
    r" pattern: \^\[a-zA-Z0-9-\]\*\$ -> None$": "every id is a UUID",
    r"\?\w+ (minimum|maximum): 36 -> None$": "bounds of numbers, but an id is a text",
    r" format: None -> (date|email)$": "their prose says so",
    r" format: double -> None$": "numbers are exact decimals, no IEEE doubles",
    r" format: int32 -> int64$": "a whole number without a limit of its own has 64 bits",
    r" pattern: \^\(\[\^\[\\p\{Cntrl\}": "the same rule; their words are Java's alone",
    r" pattern: \^\[\\p\{L\}_\$\]": "the same rule; \\p{L} is not known everywhere",
    r" maxItems: (25|100) -> None$": "custom fields are a map, which has maxProperties",
    r" maxProperties: None -> (25|100)$": "custom fields are a map, which has maxProperties",
    r" minLength: 1 -> None$": "neither the words of an enum nor addresses are empty",
    r"^(Create|Update)Schedule takes.scheduleType ": "an enum instead of a pattern",
    r"^OrganizationConfigRequest\.\w+ enum: None -> ": "their response has the enum",
    r"^EndDateBillingEntitiesResponse\.\w+ type: None -> object": "it has members",
    r"^Set_String_": "a set is an array, not an object that tells whether it is empty",
    r"^EventResponse.m3terEvent type: None -> object": "an event has fields",
    r"^IntegrationM3terSignedCredentialsResponse/": "credentials are shown as they are taken, masked",
    r"^PermissionStatementWrapper/": "one form of statements; their wrapper takes any text",
    # Kinds of one resource, side by side in one schema.
    r"^(Create|Update)Schedule takes.(sourceType|operationalDataTypes)": "both kinds in one schema",
    r"^(Post|Put)Destination takes.destinationType": "both kinds in one schema, told apart by it",
    r"^(ExportDestination|DataExportConfiguration)\w+/\S+ is extra$": "both kinds in one schema",
    r"^DataExplorerGroup\.": "all kinds in one schema; units of a time zone",
    # Limits that the contract leaves out, so that nothing grows without bound.
    r" max(Length|Items|Properties): None -> ": "an upper limit",
    r" minLength: None -> 1$": "empty would say no more than absent",
    r"^ScheduledEventConfiguration\w+\.offset m(in|ax)imum: None -> -?3660$": "ten years",
    r"\.daysBeforeBillDue maximum: None -> 36525$": "a century; the due date stays a date",
    r"\.scheduledBillInterval minimum: None -> 0$": "time does not go backwards",
    r"\?(fromDocument|limit) m(in|ax)imum: None -> ": "positions and counts",
    r"(Notification|WebhookDestination)Request.code pattern: None -> ": "a code is a code everywhere",
    r"^CurrencyConversion.multiplier required: ": "without it nothing converts",
    r"^LookupTableRevisionField.name required: ": "without it nothing finds the value",
    r"^LookupTableRevisionData\S+\{\}: True -> anything$": "values are texts or numbers",
    # More than the contract has.
    r"^BillResponse.recalculationDue is extra$": "whether a top-up or a credit waits for it",
    r"^(ListBalanceTransactions\?includeReversed|BalanceTransactionResponse.reverses) is extra$": "what was taken back",
    r"^Aggregation enum: .*PERCENTILE.*TIME_WEIGHTED_AVERAGE": "two more kinds of aggregations",
    r"^Aggregation(Request|Response).percentile is extra$": "which percentile",
    r"^(GetUploadUrl|LookupTableDataUpload)Request.contentLength format: int64 -> int32$": "1 GiB needs no more",
    r"^GetUploadUrlRequest.contentType (enum|m(in|ax)Length|pattern): ": "any type may come",
    r"^UploadJobResponse.(contentType|dtCreated|createdBy|dtFinished|repeatedRows|failureReasons?|sha256) is extra$": "what became of the file",
    r"^TriggerDataExport takes\.(sourceType enum|operationalDataTypes minItems): ": "one class for both variants",
    r"^ExportFileFormat enum: .*PARQUET": "typed files, too",
    r"^DataExportDestinationType enum: .*LOCAL": "folders of the server, too",
    r"^JobResponse\.(finishedAt|scheduledFor|error|outcome|progress|result) is extra$": "how far it is, how it ended",
    r"^JobResponse\.(createdBy|exportFileFormat|month|startDate|endDate|meterIds|accountIds|dataTypes) is extra$": "what it was asked for",
    r"^DownloadCsvRequest\.approvedOnly is extra$": "a file without bills that nobody approved",
    r"^BillJobResponse\.(error|failures|failureCount|message|outcome) is extra$": "why it or its accounts failed",
    r"^MeterRequest\.derivedFields required: True -> False$": "a list that may be empty may be left out",
    r"^DeleteIntegrationConfig\?mappings is extra$": "whether its mappings go, too",
    r"^ListBillJobs\?(active|status) enum: ": "their prose has the words",
    r"^StatementJobResponse\.error is extra$": "why it failed",
    r"^ListStatementJobs\?(active|status) enum: ": "their prose has the words",
    r"\.billFrequencyInterval (exclusiveM|m)(in|ax)imum: None -> ": "some units, and a century at most",
    r"^\w+Schedule (takes|gives)\.enabled is extra$": "whether it makes jobs",
    r"^\w+(Schedule|DataExport) (takes|gives)\.focus is extra$": "lines of bills as FOCUS, too",
    r"^(Credit|Debit)LineItemResponse\.(accountingProductId|billId|amountToApplyOnBill|reasonId) is extra$": "what was written",
    r"^(Credit|Debit)LineItemRequest.amountToApplyOnBill minimum: None -> 0$": "the type of a line has the sign",
    r"^BillLineItemResponse.childAccount(Id|Code) is extra$": "as the line that its bill shows",
    r"^ObjectUrlResponse.downloadUrl format: url -> None$": "a link is a text",
    r"\.sequenceStartNumber m(in|ax)imum: None -> ": "numbers of bills are counted up for ever",
    r"^OrganizationConfig(Request|Response).lateUsage is extra$": "what is done about late usage",
    r"^OrganizationConfig(Request|Response).expectedFiles is extra$": "which files come, and when",
    r"^OrganizationConfig(Request|Response).twoPersonApproval is extra$": "who may approve",
    r"^OrganizationConfig(Request|Response).billLetter\w+ is extra$": "what e-mails of bills say",
    r"^OrganizationConfig(Request|Response).review\w+ is extra$": "what is looked at before approval",
    r"^BillDataResponse.hasMoreData is extra$": "whether the limit cut something off",
    r"^Search\w+\?nextToken is extra$": "of every answer the token leads on",
    r"\?(searchQuery|operator|sortBy|sortOrder) is extra$": "lists are narrowed and ordered as searches are",
    r"\?asOf is extra$": "an entity as it was",
    r"^GetOrgUserGroups\?inherited is extra$": "their prose has it",
    r"^ListCounterAdjustments\?sortOrder enum: ": "their prose has the words",
    r"(Response|( gives))\S* required: False -> True$": "what has to be written is shown",
    r"^(Support|UsageSavedQuery)Response.(createdBy|dtCreated|lastModifiedBy|dtLastModified) is": "audit",
    r"^(ResourceGroup|LookupTableRevision)Response.(type|lookupTableId) is extra$": "from the path",
    r"^OrgUserInvitationResponse\.(m3terUser|contactNumber) is extra$": "what was written",
    r"^OrgUserInvitationResponse\.link is extra$": "the invitation itself, if no mail is sent",
    r"^SearchBills\?excludeLineItems is extra$": "as their lists of bills have it",
    r"^IntegrationConfigResponse\.credentials is extra$": "which credentials, no secrets",
    r"^GetAvailableSystemEntities gives\[\]\.\w+ is extra$": "what each is",
    r"^(ConfigOptions\.settings|ConfigOptionsResponse\.values) is extra$": "what the options are",
    r"^IntegrationCredentialsRequestBase\.\w+ is extra$": "how one signs in, by the type",
    r"^IntegrationRunResponse\.(replayedFromIntegrationRunId|integrationConfigId|accountId|eventId|action) is extra$": "why it is",
    # Where the contract contradicts itself, or other clients.
    r"^AggregationResponse/CompoundAggregationResponse\.": "a compound aggregation is answered as one",
    r"^IntegrationRunResponse/IntegrationConfigResponse\.": "a configuration is no run",
    r"^Get(OrgUserGroups|OrgUserPermissions|IntegrationConfigForType|IntegrationRunLatestForIds) gives: ": "a page: they take pageSize, and there are several",
    r"^ListIntegrationRuns\?notifications is extra$": "what was told of an entity, too",
    r"^GetIntegrationRunLatestForIds\?(pageSize|nextToken) is extra$": "it answers with a page",
    r"^Preview\w+ gives: ": "a page of what the schedule would make",
    r" body required: True -> False$": "it has nothing that is required",
    r"^EventResponse.dtActioned required: True -> False$": "absent until somebody acts",
    r"^SupportResponse.id required: True -> False$": "empty if access was never given",
    r"^OrganizationConfigRequest.\w+ required: True -> False$": "they have defaults",
    r"^ScheduleType enum: ": "AD_HOC is no schedule that can be written",
    # Looser than the contract.
    r"^ChargeEntityType enum: |^AuthType enum: |^ListCharges\?billDate format: ": "texts",
    r"^(ListContracts|ListCommitments|GetUsageReport)\?\w+ (min|max)Length: ": "what no id is finds nothing",
}


@cache
def served():
    return json.loads(openapi.encode_document())


def operations():
    return {
        each["operationId"]: each for item in served()["paths"].values() for each in item.values()
    }


def schema(name):
    return served()["components"]["schemas"][name]


def parameters(operation_id):
    return {each["name"]: each for each in operations()[operation_id]["parameters"]}


@cache
def differences():
    if not CONTRACT.exists():
        pytest.skip("the contract is not part of the repository")
    return tuple(Comparison(json.loads(CONTRACT.read_text()), served()).differences())


@pytest.mark.long
def test_the_document_is_valid_and_says_what_it_is():
    validate(served())
    assert served()["info"].items() >= {"title": "meterlake", "version": "1.0"}.items()


@pytest.mark.long
def test_every_operation_is_in_the_document():
    found = {
        (method.upper(), path, each["operationId"])
        for path, item in served()["paths"].items()
        for method, each in item.items()
    }
    table = {(each.method, each.path, each.id) for each in OPERATIONS}
    without_token = {
        ("POST", "/oauth/token", "GenerateToken"),
        ("PUT", "/uploads/{token}", "PutUploadFile"),
        ("GET", "/downloads/{token}", "GetDownload"),
        # The link in the path says who may read.
        ("GET", "/customerpages/{token}", "GetCustomerPage"),
        ("GET", "/customerpages/{token}/usage", "GetCustomerPageUsage"),
        ("GET", "/customerpages/{token}/spend", "GetCustomerPageSpend"),
        ("GET", "/customerpages/{token}/bills", "ListCustomerPageBills"),
        ("GET", "/customerpages/{token}/bills/{id}", "GetCustomerPageBill"),
        ("GET", "/customerpages/{token}/bills/{id}/document", "GetCustomerPageDocument"),
        ("GET", "/.well-known/jwks.json", "GetKeySet"),
        ("GET", "/healthz", "GetLiveness"),
        ("GET", "/readyz", "GetReadiness"),
        ("GET", "/metrics", "GetMetrics"),
    }
    assert found == table | without_token
    assert {each[2] for each in without_token} == {
        name for name, each in operations().items() if each.get("security") == []
    }


def test_only_operations_of_a_later_version_have_no_answer():
    without = {name for name, each in operations().items() if "200" not in each["responses"]}
    assert without == {each.id for each in OPERATIONS if each.handler is None}


def test_every_operation_declares_its_errors():
    error = {"$ref": "#/components/responses/Error"}
    for name, each in operations().items():
        assert (each["responses"]["4XX"], each["responses"]["5XX"]) == (error, error), name


def test_the_document_says_what_the_contract_says_but_for_declared_differences():
    patterns = [re.compile(each) for each in ACCEPTED]
    assert not [line for line in differences() if not any(p.search(line) for p in patterns)]


def test_every_declared_difference_is_one():
    stale = [p for p in ACCEPTED if not any(re.search(p, line) for line in differences())]
    assert not stale


def test_an_entity_is_taken_with_its_limits_and_shown_without():
    taken, shown = schema("AccountRequest"), schema("AccountResponse")
    assert taken["required"] == ["name", "code", "emailAddress"]
    assert without_text(taken["properties"]["name"]) == {
        "type": "string",
        "minLength": 1,
        "maxLength": 200,
    }
    assert taken["properties"]["version"]["type"] == "integer"
    assert without_text(shown["properties"]["name"]) == {"type": "string"}
    assert shown["required"][0] == "id"
    assert {"createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"} <= set(
        shown["properties"]
    )


def without_text(found):
    return {key: value for key, value in found.items() if key != "description"}


def test_members_of_the_path_are_shown_but_not_taken():
    assert "balanceId" not in schema("BalanceChargeScheduleRequest")["properties"]
    assert "balanceId" not in schema("BalanceChargeScheduleRequest")["required"]
    assert "balanceId" in schema("BalanceChargeScheduleResponse")["properties"]


def test_what_is_computed_is_shown_but_not_taken():
    assert "productId" in schema("PlanResponse")["properties"]
    assert "productId" not in schema("PlanRequest")["properties"]


def test_lists_have_pages_and_filters():
    found = parameters("ListAccounts")
    assert found["pageSize"]["schema"] == {
        "type": "integer",
        "format": "int32",
        "minimum": 1,
        "maximum": 100,
    }
    assert found["ids"]["explode"] is True
    assert found["ids"]["schema"] == {"type": "array", "items": {"type": "string"}}
    page = operations()["ListAccounts"]["responses"]["200"]["content"]["application/json"]
    assert page["schema"] == {"$ref": "#/components/schemas/PaginatedAccountResponseData"}


def test_a_singleton_is_no_list():
    assert set(parameters("GetOrganizationConfig")) == {"orgId"}


class Sample(Value):
    """Some fields."""

    id: Id
    code: Code | None = None
    amount: NonNegative
    price: Positive | None = None
    days: Days = 7
    ordinal: Ordinal | None = None
    custom_fields: CustomFieldMap = Field(default_factory=dict)


def test_fields_say_what_their_validators_demand():
    found = components({"Sample": Sample})["Sample"]
    assert found["required"] == ["id", "amount"]
    assert found["properties"] == {
        "id": {"type": "string", "format": "uuid", "minLength": 36, "maxLength": 36},
        "code": found["properties"]["code"] | {"minLength": 1, "maxLength": 80},
        "amount": {"type": "number", "minimum": 0},
        "price": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "days": {
            "type": "integer",
            "format": "int32",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 36525,
            "default": 7,
        },
        "ordinal": {"type": "integer", "format": "int64", "minimum": 0},
        "customFields": {
            "type": "object",
            "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            "maxProperties": 100,
        },
    }


def test_answers_promise_types_without_limits():
    found = relax_properties(components({"Sample": Sample})["Sample"]["properties"])
    assert found["price"] == {"type": "number"}
    assert found["id"] == {"type": "string", "format": "uuid"}


def test_two_things_of_one_name_are_refused():
    Other = create_model("Sample", __base__=Value, sample=(int, ...))  # noqa: N806

    class Pair(Value):
        """Both."""

        one: Sample
        other: Other

    with pytest.raises(ValueError, match="two schemas are called 'Sample'"):
        components({"Pair": Pair})


def test_every_resource_that_is_served_has_a_request_and_a_response():
    for resource in RESOURCES:
        if "create" in resource.verbs:
            assert schema(f"{resource.schema}Request")
            assert schema(f"{resource.schema}Response")


def test_the_document_is_built_once():
    assert openapi.document() is openapi.document()
    assert openapi.encode_document() is openapi.encode_document()


def examples():
    """Every example with its schema, and where both stand."""
    for name, each in operations().items():
        for parameter in each["parameters"]:
            yield f"{name}?{parameter['name']}", parameter["schema"], parameter["example"]
        for part in (each.get("requestBody", {}), *each["responses"].values()):
            for kind, media in part.get("content", {}).items():
                if kind != "*/*":
                    yield name, media["schema"], media["example"]


def resolved(found):
    while "$ref" in found:
        found = schema(found["$ref"].rpartition("/")[2])
    return found


def strangers(place, found, value):
    """Members of an example that its schema does not know."""
    found = resolved(found)
    for part in (*found.get("allOf", ()), *found.get("anyOf", ())[:1]):
        yield from strangers(place, part, value)
    if isinstance(value, list):
        for each in value:
            yield from strangers(f"{place}[]", found.get("items", {}), each)
    elif isinstance(value, dict) and "properties" in found:
        for name, each in value.items():
            if name not in found["properties"]:
                yield f"{place}.{name}"
            else:
                yield from strangers(f"{place}.{name}", found["properties"][name], each)


def test_every_operation_has_a_summary_a_description_and_a_subject():
    subjects = {each["name"]: each["description"] for each in served()["tags"]}
    summaries = [each["summary"] for each in operations().values()]

    assert len(summaries) == len(set(summaries))
    for name, each in operations().items():
        assert 5 < len(each["summary"]) <= 60, name
        assert each["summary"][0].isupper(), name
        assert not each["summary"].endswith("."), name
        assert re.sub(r"\n*Permission: .*", "", each["description"]).strip(), name
        [subject] = each["tags"]
        assert subject in subjects, name
    assert all(subjects.values())
    assert [each["url"] for each in served()["servers"]] == ["/"]
    assert served()["info"]["description"]


def test_texts_are_those_of_operations():
    assert not set(TEXTS) - set(operations())
    named = {each["name"] for item in operations().values() for each in item["parameters"]}
    assert not set(PARAMETERS) - named


def test_every_parameter_says_what_it_is():
    for name, each in operations().items():
        for parameter in each["parameters"]:
            assert parameter["description"].endswith("."), (name, parameter["name"])


def test_every_body_and_every_answer_has_an_example_that_follows_its_schema():
    validators = {}
    for place, found, example in examples():
        key = json.dumps(found)
        if key not in validators:
            components = {"components": served()["components"]}
            validators[key] = OAS30Validator(
                {**found, **components}, format_checker=oas30_format_checker
            )
        assert not list(validators[key].iter_errors(example)), place
        assert not list(strangers(place, found, example)), place


def test_what_people_write_has_a_meaning_for_each_member():
    for resource in RESOURCES:
        if "create" in resource.verbs or resource.singleton:
            members = schema(f"{resource.schema}Request")["properties"]
            assert not [name for name, each in members.items() if not each.get("description")], (
                resource.name
            )
