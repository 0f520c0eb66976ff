"""What tests ask of answers and of refusals."""

import inspect

import m3ter
import pytest


def shown(model):
    """What an answer says, under the SDK's names."""
    found = model.to_dict(mode="json", use_api_names=False)
    # Members that the type of an answer does not have keep the name of the wire.
    return {_snake(name): value for name, value in found.items()}


def expected(row, body):
    """What an answer has to say."""
    extra = {_snake(name): value for name, value in body.get("extra_body", {}).items()}
    named = {name: value for name, value in body.items() if name != "extra_body"}
    return {name: value for name, value in {**named, **extra}.items() if name not in row.hidden}


def _snake(name):
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def differing(wanted, found):
    """The members that are missing in what was found, or differ; more of them is fine."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            f"{name}: {difference}"
            for name, value in wanted.items()
            for difference in differing(value, found.get(name))
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            difference
            for pair in zip(wanted, found, strict=True)
            for difference in differing(*pair)
        ]
    return [] if wanted == found else [f"{found!r} instead of {wanted!r}"]


def listed(api, path, **filters):
    """The ids of a list, page by page."""
    return [each.id for each in api.list(**path, **filters)]


def takes(method, name):
    return name in inspect.signature(method).parameters


def refusal(error, call, *args, **body):
    with pytest.raises(error) as caught:
        call(*args, **body)
    assert isinstance(caught.value.body, dict), caught.value.body
    assert caught.value.body["message"]
    return caught.value


def refused(call, *words, answers=400, **body):
    """What the sentence of a refusal says; it names the field, the value and the rule."""
    error = refusal(m3ter.APIStatusError, call, **body)
    message = error.body["message"]
    assert error.status_code == answers, message
    missing = [word for word in words if word not in message]
    assert missing == [], message
    if answers == 409:
        assert error.response.headers["x-should-retry"] == "false"
    return message
