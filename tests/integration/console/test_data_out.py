"""The pages of data out and of integrations: made, checked, sent once more, and not offered."""

import hashlib
import re
from html import unescape

import pytest
from argon2 import PasswordHasher

from meterlake.console.data_out.data_out import when_of
from meterlake.model.catalog.catalog import Meter
from meterlake.pipeline.access import login
from meterlake.pipeline.export.run import run_export
from meterlake.stores import open_stores
from tests.console_world import CONSOLE, a_console
from tests.deliveries import add_runs, content_for, new_webhook, send_due
from tests.doubles.receivers import running_receiver
from tests.homes import configure
from tests.people import allow

OUT = f"{CONSOLE}/data-out"
ATTACK = '"><script>alert(1)</script>'


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("console")
    (folder / "exports").mkdir()
    changes = {"webhook_allow": ("127.0.0.1",), "export_folder": folder / "exports"}
    with a_console(folder / "home", **changes) as found:
        configure(found.home.organization, features={"preview": True})
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        yield found


@pytest.fixture
def ada(world):
    return world.browser("ada@example.com")


def follow(browser, path, text):
    browser.go(path)
    found = re.search(rf'<a href="([^"]*)">\s*{re.escape(text)}\s*</a>', browser.page.text)
    assert found is not None, browser.text
    browser.go(found[1])


def test_the_form_of_a_destination_has_the_fields_of_its_provider(ada):
    ada.go(f"{OUT}/destinations/new")
    assert "Google Cloud Storage" in ada.text
    assert 'name="bucketName"' not in ada.page.text
    names = ("iamRoleArn", "projectNumber", "poolId", "providerId")
    shown = {}
    for provider in ("S3", "GCS", "LOCAL"):
        ada.go(f"{OUT}/destinations/new?destinationType={provider}")
        assert ada.fields()["destinationType"] == [provider]
        shown[provider] = tuple(each for each in names if f'name="{each}"' in ada.page.text)
    assert shown == {"S3": names[:1], "GCS": names[1:], "LOCAL": ()}

    made = {"name": "Bucket", "code": "bucket", "bucketName": "bucket"}
    ada.go(f"{OUT}/destinations/new?destinationType=S3")
    ada.send({**ada.fields(), **made, "iamRoleArn": "nothing"})
    assert ada.page.status_code == 400
    assert ada.fields()["bucketName"] == ["bucket"]
    assert 'name="poolId"' not in ada.page.text
    ada.send({**ada.fields(), "iamRoleArn": "arn:aws:iam::123456789012:role/exports"})
    ada.go(f"{ada.path}/edit")
    assert 'name="iamRoleArn"' in ada.page.text
    assert 'name="poolId"' not in ada.page.text


def test_a_destination_is_made_and_checked(ada):
    ada.go(f"{OUT}/destinations/new?destinationType=LOCAL")
    made = {"name": "Archive", "code": "archive", "bucketName": "archive"}
    ada.send({**made, "destinationType": "LOCAL"})
    follow(ada, f"{OUT}/destinations", "Archive")
    told = ada.press("check")

    assert "Exports can be written to" in told
    assert "Write: done" in told


def test_an_export_asks_for_names_not_ids(ada):
    ada.go(f"{OUT}/jobs/new")

    for name in ("destinationIds", "meterIds", "accountIds"):
        assert f'<textarea name="{name}"' not in ada.page.text
    assert ada.page.text.count('type="checkbox" name="accountIds"') > 1
    assert "Needed for usage: the first instant." in ada.text


def test_a_notification_says_that_it_never_goes_out_and_who_sends_it(world, ada):
    ada.go(f"{OUT}/notifications/new")
    made = {"name": "Bills", "code": "bills", "description": "Of bills"}
    ada.send({**ada.fields(), **made, "eventName": "configuration.commitment.created"})
    assert ada.page.status_code == 200
    assert ada.path.startswith(f"{OUT}/notifications/")
    assert "It never goes out" in ada.text
    place = ada.path
    webhook = new_webhook(world.home.organization, "http://127.0.0.1:9/", name="Of bills")
    ada.go(f"{CONSOLE}/integrations/new?destination=WEBHOOK&entityType=Notification")
    chosen = {"destinationId": webhook["id"], "entityId": place.rpartition("/")[2]}
    ada.send({**ada.fields(), **chosen, "name": "Bills to chat"})
    follow(ada, f"{CONSOLE}/integrations", "Bills to chat")
    assert f'<a href="{place}">Bills</a>' in ada.page.text
    ada.go(place)
    assert "Bills to chat" in ada.text


def test_usage_of_the_previous_month_is_asked_for_and_the_job_says_so(world, ada):
    ada.go(f"{OUT}/jobs/new?month=previous")
    assert "Without a choice: CSV, packed (csv.gz)." in ada.text
    fields = ada.fields()
    assert fields["sourceType"] == ["USAGE"]
    first, last = (fields[name][0][:10] for name in ("startDate", "endDate"))
    assert first < last
    assert first.endswith("-01")
    assert last.endswith("-01")
    with world.home.organization.reading() as reader:
        [meter] = [each.id for each in reader.all(Meter) if each.entity.code == "egress"]
    ada.send({**fields, "meterIds": meter})
    assert re.search(
        r"Asked for .* by Ada Lovelace Usage of .* Meters egress Customers all", ada.text
    )
    assert "Format CSV" in ada.text
    ada.press("cancel")
    assert "Usage: egress" in ada.go(f"{OUT}/jobs")


@pytest.mark.long
def test_a_folder_is_offered_only_where_the_server_lets_exports_go_to_folders(ada, tmp_path):
    ada.go(f"{OUT}/destinations/new?destinationType=LOCAL")
    assert "A folder in the server's folder of exports." in ada.text
    assert "bucket" not in ada.text.lower().partition("prefix")[2]
    with a_console(tmp_path / "home") as closed:
        configure(closed.home.organization, features={"preview": True})
        closed.join("ada@example.com", allow())
        other = closed.browser("ada@example.com")
        other.go(f"{OUT}/destinations/new?destinationType=LOCAL")
        assert "This server has none: who runs it sets METERLAKE_EXPORT_FOLDER." in other.text
        assert 'href="?destinationType=LOCAL"' not in other.page.text
        assert 'href="?destinationType=S3"' in other.page.text


def test_only_what_failed_is_sent_once_more(world, ada):
    organization = world.home.organization
    with running_receiver() as receiver:
        webhook = new_webhook(organization, receiver.url(), name="Complete")
        add_runs(organization, [content_for(webhook)])
        send_due(world.home.stores)
        ada.go(f"{OUT}/webhooks/{webhook['id']}")
        assert "sends 0 runs once more" in ada.press("replay", since="2020-01-01", status="FAILED")
        assert "sends 1 run once more" in ada.press("replay", since="2020-01-01", status="COMPLETE")


def test_an_export_is_made_cancelled_and_run_again(ada):
    ada.go(f"{OUT}/jobs/new")
    ada.send({"sourceType": "OPERATIONAL", "operationalDataTypes": "ACCOUNTS"})
    assert ada.path.startswith(f"{OUT}/jobs/")
    assert "Export of operational" in ada.text

    assert "You cancelled the export." in ada.press("cancel")
    place = ada.path
    assert "Export of operational Cancelled" in ada.text
    assert "begin another one" not in ada.text
    ada.go(f"{OUT}/jobs?status=CANCELLED")
    assert re.search(r'href="([^"]+/jobs/[0-9a-f-]{36})"', ada.page.text)[1] == place
    assert "Operational: Accounts Ada Lovelace Cancelled" in ada.text
    ada.go(f"{CONSOLE}/runs?kinds=EXPORT")
    assert "Cancelled" in ada.text
    ada.go(f"{CONSOLE}/runs/{place.rpartition('/')[2]}")
    assert "The worker exports once more, with the configuration of its time." in ada.text
    assert "Bills are made" not in ada.text
    ada.go(place)
    assert "The worker exports once more." in ada.press("retry")
    assert "Pending" in ada.go(f"{OUT}/jobs?status=PENDING")


def test_the_files_of_an_export_are_listed_verified_and_downloaded(world, ada):
    ada.go(f"{OUT}/destinations/new?destinationType=LOCAL")
    made = {"name": "Books", "code": "books", "bucketName": "books", "destinationType": "LOCAL"}
    ada.send(made)
    ada.go(f"{OUT}/jobs/new")
    destination = re.search(r'name="destinationIds" value="([^"]*)"[^>]*>\s*Books', ada.page.text)
    assert destination is not None
    chosen = {"sourceType": "OPERATIONAL", "operationalDataTypes": "ACCOUNTS"}
    ada.send({**chosen, "destinationIds": destination[1]})
    place = ada.path
    assert "below" not in ada.text
    asked = {"HX-Request": "true", "HX-Target": "div#job"}
    assert "HX-Refresh" not in ada.client.get(place, headers=asked).headers
    home = world.home.stores.settings
    folder = home.home.parents[1] / "exports"
    with open_stores(home.model_copy(update={"export_folder": folder})) as stores:
        run_export(stores, place.rpartition("/")[2])
    # The part that asks by itself learns that the export ended: files and buttons are all over the page.
    assert ada.client.get(place, headers=asked).headers["HX-Refresh"] == "true"
    [file] = (folder / "books").rglob("*.csv.gz")

    assert file.name in ada.go(place)
    assert hashlib.sha256(file.read_bytes()).hexdigest() in ada.text
    assert "All files are as the manifest says." in ada.press("verify", place="books")
    link = re.search(r'href="([^"]*name=[^"]*csv.gz[^"]*)"', ada.page.text)
    assert link is not None
    ada.go(unescape(link[1]))
    assert ada.page.content == file.read_bytes()

    file.write_bytes(b"other")
    ada.go(place)
    assert "Some files are not as the manifest says." in ada.press("verify", place="books")


def test_a_delivery_is_shown_try_by_try_and_sent_once_more(world, ada):
    organization = world.home.organization
    with running_receiver() as receiver:
        webhook = new_webhook(organization, receiver.url(), name="Chat")
        [id_] = add_runs(organization, [content_for(webhook)])
        send_due(world.home.stores)
        ada.go(f"{OUT}/webhooks/{webhook['id']}")
        assert f'href="{CONSOLE}/integrations/runs/{id_}"' in ada.page.text
        ada.go(f"{CONSOLE}/integrations/runs/{id_}")
        assert re.search(r"Tries Try When Answer Error 1 .* 20\d", ada.text)

        assert "The worker sends it once more" in ada.press("replay")
        assert not ada.path.endswith(id_)
        ada.go(f"{OUT}/webhooks/{webhook['id']}")
        assert "The worker sends a test." in ada.press("ping")
        ada.go(f"{OUT}/webhooks/{webhook['id']}")
        assert "The worker sends 1 run once more" in ada.press(
            "replay", since="2020-01-01", status="COMPLETE"
        )
        assert "The webhook gets nothing more." in ada.press("off")
        assert "The webhook gets notifications." in ada.press("on")


def test_an_integration_is_listed_disabled_and_enabled(world, ada):
    webhook = new_webhook(world.home.organization, "http://127.0.0.1:9/", name=ATTACK)
    ada.go(f"{CONSOLE}/integrations/new")
    assert "Notifications To Webhook" in ada.text
    ada.go(f"{CONSOLE}/integrations/new?destination=WEBHOOK&entityType=Notification")
    ada.send({**ada.fields(), "destinationId": webhook["id"], "name": "To chat"})
    follow(ada, f"{CONSOLE}/integrations", "To chat")
    assert "Nothing was sent yet." in ada.text
    assert "<script>alert" not in ada.page.text

    assert "It sends nothing more." in ada.press("disable")
    assert "The integration sends again." in ada.press("enable")


def test_the_form_of_an_integration_has_what_its_system_asks_for(ada):
    ada.go(f"{CONSOLE}/integrations/new?destination=STRIPE_TEST&entityType=Bill")
    fields = ada.fields()
    assert fields["configData.splitBy"] == ["AGGREGATION"]
    assert "tokenUrl" not in ada.page.text
    key = "sk_test_" + "4" * 24
    wanted = {"credentials.type": "STRIPE_SIGNED_REQUEST", "credentials.apiKey": key}
    ada.send({**fields, "name": "Invoices", "configData.splitBy": "PRODUCT", **wanted})
    follow(ada, f"{CONSOLE}/integrations", "Invoices")

    ada.go(f"{ada.path}/edit")
    assert ada.fields()["configData.splitBy"] == ["PRODUCT"]
    assert key not in ada.page.text
    ada.send({**ada.fields(), "name": "Invoices 2"})
    ada.go(f"{CONSOLE}/integrations")
    assert "Invoices 2" in ada.text
    follow(ada, f"{CONSOLE}/integrations", "Invoices 2")
    assert "the credentials are missing" not in ada.text


def test_a_system_that_is_not_installed_is_named(ada):
    ada.go(f"{CONSOLE}/integrations/new?destination=ABACUS")

    assert ada.page.status_code == 404
    assert "ABACUS" in ada.text


def test_who_may_only_read_sees_no_button(world):
    reader = world.browser("reader@example.com")
    webhook = new_webhook(world.home.organization, "http://127.0.0.1:9/", name="Read")
    for path in ("destinations", "schedules", "jobs", "webhooks", "notifications"):
        reader.go(f"{OUT}/{path}")
        assert reader.page.status_code == 200
        assert f"{OUT}/{path}/new" not in reader.page.text
    reader.go(f"{OUT}/webhooks/{webhook['id']}")
    assert not any(map(reader.offers, ("ping", "off", "replay")))


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"cronExpression": "0 6 * * *"}, "cron 0 6 * * *"),
        ({"scheduleType": "DAILY", "period": 1}, "every day"),
        ({"scheduleType": "HOURLY", "period": 6}, "every 6 hours"),
        ({}, ""),
    ],
)
def test_a_schedule_says_when_in_words(schedule, said):
    assert when_of(schedule) == said
