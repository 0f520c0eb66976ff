"""Meter groups: named, put on meters, in the way of nothing but their own deletion."""

import pytest

FIELD = {"category": "MEASURE", "code": "gb", "name": "Sent"}
NOBODY = "2054cfc5-18df-47ce-926c-5817033073b4"


def meter(http, **changes):
    body = {"name": "Egress", "code": "egress", "dataFields": [FIELD], "derivedFields": []}
    return http.post("/meters", json={**body, **changes})


def test_a_group_that_does_not_exist_is_refused(http):
    answer = meter(http, groupId=NOBODY)

    assert answer.status_code == 400
    assert "groupId" in answer.json()["message"]


@pytest.mark.sees(
    "ListMeterGroups", "PostMeterGroup", "GetMeterGroup", "PutMeterGroup", "DeleteMeterGroup"
)
def test_a_group_lives_from_creation_to_deletion(http):
    group = http.post("/metergroups", json={"name": "Traffic"}).json()
    assert (group["name"], group["version"]) == ("Traffic", 1)
    made = meter(http, groupId=group["id"]).json()
    assert made["groupId"] == group["id"]
    assert http.delete(f"/metergroups/{group['id']}").status_code == 409

    renamed = http.put(f"/metergroups/{group['id']}", json={"name": "Network", "version": 1})
    assert renamed.json()["version"] == 2
    assert http.get(f"/metergroups/{group['id']}").json() == renamed.json()
    assert [row["name"] for row in http.get("/metergroups").json()["data"]] == ["Network"]
    events = http.get("/events", params={"resourceId": group["id"]}).json()["data"]
    assert [event["eventName"] for event in events] == [
        "configuration.metergroup.updated",
        "configuration.metergroup.created",
    ]

    assert http.delete(f"/meters/{made['id']}").status_code == 200
    assert http.delete(f"/metergroups/{group['id']}").json()["name"] == "Network"
    assert http.get(f"/metergroups/{group['id']}").status_code == 404
