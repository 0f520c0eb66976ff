"""Two organizations whose files lie in one bucket: a URL that was signed for one opens its key only.

The stores here let everybody in, so a relay before them checks signatures as Amazon and Google do.
"""

import json
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from meterlake.model.errors import NotFound
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.uploads import announce, get_job, ingest_uploads, original
from tests.doubles import ceph
from tests.doubles.gcs import service_account
from tests.doubles.http_faults import relay
from tests.doubles.signed_urls import of_amazon, of_google
from tests.homes import a_home, wire_row

pytest_plugins = ["tests.doubles.fixtures"]


def content(word):
    return json.dumps([wire_row(word, where={"region": word})]).encode()


OURS, THEIRS = content("sp4rrow"), content("c4n4ryy")


@pytest.fixture(params=["moto", "gs"])
def home(request, new_place, tmp_path, monkeypatch):
    """A home with a bucket of such a store, behind a relay that checks."""
    place = new_place(request.param)
    with relay(place.server) as store, service_account() as account:
        if request.param == "gs":
            (tmp_path / "account.json").write_text(json.dumps(account))
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
            store.rule = of_google(account["private_key"])
        else:
            store.rule = of_amazon(ceph.SECRET_KEY)
        ends = {"s3_endpoint": store.url, "gcs_endpoint": store.url}
        with a_home(tmp_path, objects=place.url, **ends) as made:
            yield made


def announced(home, org_id, data):
    body = {"fileName": "f.json", "contentType": "text/json", "contentLength": len(data)}
    return announce(home.stores.organization(org_id), "test", body, "https://here.example")


def sent(made, url, data, method="PUT"):
    return httpx.request(method, url, headers=made["headers"], content=data).status_code


def spliced(ours, theirs):
    """Our URL with each part of theirs that could lead to their key."""
    (mine, query), (other, their_query) = (
        (url.partition("?")[0], url.partition("?")[2]) for url in (ours, theirs)
    )
    name = next(each for each in parse_qs(query) if each.endswith("-Signature"))
    signature = parse_qs(query)[name][0]
    yield f"{other}?{query}"
    yield f"{mine}/../../{other.split('uploads/')[1]}?{query}"
    yield f"{other}?{their_query.partition(f'&{name}=')[0]}&{name}={signature}"
    yield f"{ours}&key={urlsplit(theirs).path}"


@pytest.mark.long
def test_a_url_that_was_signed_for_one_organization_opens_no_key_of_the_other(home):
    other = initialize(home.stores.settings, "Other").org_id
    ours, theirs = announced(home, home.org_id, OURS), announced(home, other, THEIRS)
    assert len(OURS) == len(THEIRS), "only the key tells one URL from the other"
    for org_id, made in ((home.org_id, ours), (other, theirs)):
        key = f"uploads/{org_id}/{made['jobId']}"
        assert urlsplit(made["url"]).path.endswith(f"/{key}")

    for url in spliced(ours["url"], theirs["url"]):
        assert sent(ours, url, OURS) == 403, url
    assert list(home.stores.objects.list("")) == []
    assert sent(theirs, theirs["url"], THEIRS) == 200
    for url in (theirs["url"].partition("?")[0], *spliced(ours["url"], theirs["url"])):
        for method in ("GET", "HEAD", "DELETE", "PUT"):
            assert sent(ours, url, OURS, method) == 403, (method, url)
    assert sent(ours, ours["url"], OURS) == 200

    for org_id, made, data in ((other, theirs, THEIRS), (home.org_id, ours, OURS)):
        assert [each.accepted for each in ingest_uploads(home.stores.organization(org_id))] == [
            1 if org_id == home.org_id else 0
        ]
        assert (
            home.stores.objects.get(original(home.stores.organization(org_id), made["jobId"]).key)
            == data
        )
    for look in (get_job, original):
        with pytest.raises(NotFound):
            look(home.organization, theirs["jobId"])
