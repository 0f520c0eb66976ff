from datetime import UTC, datetime

import pytest

from meterlake.model.configuration.exports import AdHocExport, ExportDestination, ExportSchedule
from meterlake.model.errors import Invalid
from meterlake.model.rules.exports import check_ad_hoc
from meterlake.model.values.problems import read
from tests.entity_rules import refused, required
from tests.organizations import added, after, empty, everything

S3 = {"name": "Ours", "code": "ours", "bucketName": "abc", "iamRoleArn": "arn:aws:iam::12:role/r"}
GCS = {
    "name": "Theirs",
    "code": "theirs",
    "destinationType": "GCS",
    "bucketName": "abc",
    "projectNumber": "1",
    "poolId": "pool",
    "providerId": "provider",
}
CRON = {"cronExpression": "0 6 * * *"}
BILLS = {
    "name": "Bills",
    "code": "bills",
    "sourceType": "OPERATIONAL",
    "operationalDataTypes": ["BILLS"],
}
USAGE = {"name": "Usage", "code": "usage", "sourceType": "USAGE", "timePeriod": "YESTERDAY"}


CALLS = {
    "code": "calls",
    "name": "Calls",
    "dataFields": [{"category": "MEASURE", "code": "n", "name": "Calls"}],
    "derivedFields": [],
}
OF_EGRESS = {"meterId": "egress", "fieldCode": "region"}
CALLED = {"meterId": "calls", "fieldCode": "n", "fieldType": "MEASURE", "function": "SUM"}
REGIONS = OF_EGRESS | {"fieldType": "DIMENSION", "function": "COUNT"}


def scheduled(document, **changes):
    """The configuration with two destinations, another meter and a schedule."""
    document = {name: value for name, value in {**document, **changes}.items() if value is not None}
    return after(
        [
            *everything(),
            *added("exportDestinations", **S3),
            *added("exportDestinations", **GCS),
            *added("meters", **CALLS),
            *added("exportSchedules", **document),
        ]
    )


def test_what_is_required_is_what_both_variants_require():
    assert required(ExportDestination, S3) == {"name", "code", "bucketName", "iamRoleArn"}
    assert required(ExportSchedule, BILLS | CRON) == {"name", "code", "sourceType"}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"bucketName": "ab"}, "bucketName"),
        ({"bucketName": "b" * 64}, "bucketName"),
        ({"iamRoleArn": "arn:aws:iam::x:role/r"}, "iamRoleArn"),
        ({"iamRoleArn": "role/r"}, "iamRoleArn"),
        ({"destinationType": "AZURE"}, "destinationType"),
        ({"partitionOrder": "SIZE_FIRST"}, "partitionOrder"),
        ({"code": "c" * 81}, "code"),
        ({"name": "n" * 201}, "name"),
    ],
)
def test_a_destination_that_breaks_the_contract_is_refused(changes, place):
    assert refused(ExportDestination, S3, **changes) == {place}


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (S3 | {"destinationType": "S3", "iamRoleArn": None}, "iamRoleArn"),
        (GCS | {"poolId": None}, "poolId"),
        (GCS | {"iamRoleArn": "arn:aws:iam::12:role/r", "providerId": None}, "providerId"),
    ],
)
def test_a_destination_needs_all_of_its_variant(document, name):
    with pytest.raises(Invalid, match=f"{name} is required"):
        after(added("exportDestinations", **document))


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (
            S3 | {"poolId": "pool"},
            "poolId: 'pool' .* it has no meaning where destinationType is S3",
        ),
        (GCS | {"iamRoleArn": "arn:aws:iam::12:role/r"}, "iamRoleArn: .* destinationType is GCS"),
        (
            {"name": "n", "code": "n", "destinationType": "LOCAL", "bucketName": "abc"}
            | {"serviceAccountEmail": "a@b.example"},
            "serviceAccountEmail: .* it has no meaning where destinationType is LOCAL",
        ),
    ],
)
def test_what_only_another_variant_has_is_refused(document, sentence):
    with pytest.raises(Invalid, match=sentence):
        after(added("exportDestinations", **document))


def test_a_destination_has_nothing_of_the_other_variant():
    first = ExportDestination.from_wire(S3 | {"poolId": "", "bucketName": "b" * 63})
    second = ExportDestination.from_wire(GCS | {"iamRoleArn": None})

    assert first.to_wire()["destinationType"] == "S3"
    assert first.to_wire()["partitionOrder"] == "TIME_FIRST"
    assert "poolId" not in first.to_wire()
    assert "iamRoleArn" not in second.to_wire()
    assert ExportDestination.from_wire(S3 | {"partitionOrder": None}).partition_order


@pytest.mark.parametrize(
    ("document", "changes", "sentence"),
    [
        (BILLS, {}, "exactly one of scheduleType and cronExpression"),
        (BILLS | CRON, {"scheduleType": "DAY", "period": 1}, "exactly one of scheduleType and"),
        (BILLS | CRON, {"period": 1}, "period: 1 .* the cronExpression says when"),
        (BILLS | CRON, {"offset": 1}, "offset: 1 .* the cronExpression says when"),
        (BILLS, {"scheduleType": "DAY"}, "period is required"),
        (BILLS, {"scheduleType": "MINUTE", "period": 14}, "period: 14 .* 15 to 4320 for MINUTE"),
        (BILLS, {"scheduleType": "MINUTE", "period": 4321}, "15 to 4320 for MINUTE"),
        (BILLS, {"scheduleType": "HOUR", "period": 73}, "1 to 72 for HOUR"),
        (BILLS, {"scheduleType": "DAY", "period": 4}, "1 to 3 for DAY"),
        (BILLS, {"scheduleType": "MINUTE", "period": 15, "offset": 1}, "leave it out for MINUTE"),
        (BILLS, {"scheduleType": "HOUR", "period": 1, "offset": 60}, "at most 59 for HOUR"),
        (BILLS, {"scheduleType": "DAY", "period": 1, "offset": 24}, "at most 23 for DAY"),
        (
            BILLS,
            {"cronExpression": "*/10 * * * *"},
            "let there be 15 minutes between them at least",
        ),
        (
            BILLS,
            {"cronExpression": "59,0 * * * *"},
            "let there be 15 minutes between them at least",
        ),
        (BILLS, {"cronExpression": "daily"}, "cronExpression: 'daily'"),
        (BILLS | CRON, {"operationalDataTypes": []}, "operationalDataTypes is required"),
        (USAGE | CRON, {"timePeriod": None}, "timePeriod is required"),
        (USAGE | CRON, {"groups": [{"groupType": "ACCOUNT"}]}, "aggregations is required"),
        (BILLS | CRON, {"destinationIds": ["nowhere"]}, "an existing ExportDestination"),
        (
            USAGE | CRON,
            {"aggregations": [CALLED], "groups": [{"groupType": "DIMENSION", **OF_EGRESS}]},
            "groups.meterId: .* the meter of one of the aggregations",
        ),
        (BILLS | CRON, {"timePeriod": "TODAY"}, "timePeriod: 'TODAY' .* where sourceType is OPER"),
        (BILLS | CRON, {"meterIds": ["egress"]}, "meterIds: .* where sourceType is OPER"),
        (
            USAGE | CRON,
            {"operationalDataTypes": ["BILLS"]},
            "operationalDataTypes: .*BILLS.* USAGE",
        ),
        *(
            (USAGE | CRON, {"meterIds": ["calls"], **parts}, f"{name}.meterId: .* one of meterIds")
            for name, parts in {
                "aggregations": {"aggregations": [REGIONS]},
                "dimensionFilters": {"dimensionFilters": [OF_EGRESS | {"values": ["eu"]}]},
            }.items()
        ),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(document, changes, sentence):
    with pytest.raises(Invalid, match=sentence):
        scheduled(document, **changes)


@pytest.mark.parametrize(
    ("document", "changes"),
    [
        (BILLS, {"scheduleType": "MINUTE", "period": 15}),
        (BILLS, {"scheduleType": "MINUTE", "period": 4320}),
        (BILLS, {"scheduleType": "HOUR", "period": 72, "offset": 59}),
        (BILLS, {"scheduleType": "DAY", "period": 3, "offset": 23}),
        (BILLS, {"cronExpression": "*/15 * * * *", "exportFileFormat": "JSONL"}),
        (USAGE | CRON, {"destinationIds": ["ours", "theirs"], "meterIds": ["egress"]}),
        (USAGE | CRON, {"meterIds": ["calls", "egress"], "aggregations": [REGIONS]}),
    ],
)
def test_a_schedule_within_the_limits_is_accepted(document, changes):
    (schedule,) = scheduled(document, **changes).all(ExportSchedule)

    assert schedule.entity.code == document["code"]


def test_a_schedule_has_nothing_of_the_other_variant():
    usage = ExportSchedule.from_wire(USAGE | CRON | {"operationalDataTypes": []})
    bills = ExportSchedule.from_wire(BILLS | CRON | {"timePeriod": None, "groups": []})

    assert "operationalDataTypes" not in usage.to_wire()
    assert {"timePeriod", "meterIds", "groups"}.isdisjoint(bills.to_wire())


ID = "00000000-0000-4000-8000-000000000000"
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"sourceType": "USAGE", "operationalDataTypes": ["BILLS"]}, "operationalDataTypes"),
        (BILLS | {"meterIds": [ID]}, "meterIds"),
        (BILLS | {"aggregations": [REGIONS | {"meterId": ID}]}, "aggregations"),
    ],
)
def test_usage_and_operational_data_are_never_asked_for_together(document, name):
    with pytest.raises(Invalid, match=f"{name}: .* it has no meaning where sourceType is"):
        check_ad_hoc(read(AdHocExport, document), empty(), NOON)


def check_until(end):
    document = {"sourceType": "USAGE", "startDate": "2026-09-01T00:00:00Z", "endDate": end}
    check_ad_hoc(read(AdHocExport, document), empty(), NOON)


@pytest.mark.parametrize("end", ["2026-10-02T00:00:00.000001Z", "2026-10-02T00:00:00-01:00"])
def test_usage_is_not_exported_beyond_tomorrow(end):
    with pytest.raises(Invalid, match="2026-10-02T00:00:00Z or earlier"):
        check_until(end)


@pytest.mark.parametrize("end", ["2026-10-02T00:00:00Z", "2026-10-02T01:00:00+01:00"])
def test_usage_is_exported_until_tomorrow_begins(end):
    check_until(end)
