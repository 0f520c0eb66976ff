"""Attempts to leave the sandbox of JSON templates, or to fill the machine: refused, or within limits."""

import time
import tracemalloc

import pytest
from pydantic_core import PydanticCustomError

from meterlake.model.errors import Invalid
from meterlake.model.values import json_templates
from meterlake.model.values.json_templates import check_template
from meterlake.pipeline.integrations.connectors import http
from meterlake.pipeline.integrations.connectors.http import BODY_MAX, render_json

BILL = {
    "id": "b1",
    "text": "a'<b>\"" * 20_000,
    "lineItems": [{"id": f"l{number}", "n": number} for number in range(300)],
}
# What leads from a value to Python itself.
ATTRIBUTES = (
    "{{ ''.__class__.__mro__ }}",
    "{{ bill.__class__ }}",
    "{{ bill['__class__'] }}",
    "{{ bill['__cla' 'ss__'] }}",
    "{{ bill | attr('__class__') }}",
    "{{ bill.lineItems | map(attribute='__class__') | list }}",
    "{{ bill.lineItems | map('attr', '__class__') | list }}",
    "{{ bill.lineItems | sum(attribute='__class__') }}",
    "{{ bill.lineItems | sort(attribute='__class__.__name__') }}",
    "{{ bill.lineItems | selectattr('__class__') | list }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{% for a in bill.lineItems %}{{ loop.__class__ }}{% endfor %}",
    "{% for a in bill.lineItems %}{{ loop._iterable }}{% endfor %}",
    "{{ bill.keys }}",
    "{{ bill.text.format }}",
    "{{ (bill.lineItems | map('upper')).gi_frame }}",
)
CALLS = (
    "{{ cycler('a', 'b').next() }}",
    "{{ joiner() }}",
    "{{ namespace(a=1) }}",
    "{{ lipsum(n=100) }}",
    "{{ range(10**9) | list }}",
    "{{ range(10) | list }}",
    "{{ dict(a=bill) }}",
    "{{ bill.clear() }}",
    "{{ bill.text.format(bill) }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ 'a' * 10 ** 9 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ ('a' | center(1000000000)) }}",
    "{{ bill | pprint }}",
    "{% for a in bill recursive %}{{ loop(bill) }}{% endfor %}",
    "{% set a = bill %}{{ a }}",
    "{% with a = bill %}{{ a }}{% endwith %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends '/etc/passwd' %}",
    "{% filter upper %}{% endfilter %}",
    "{% block a %}{% endblock %}",
)
SIZES = (
    "{{ " + "(" * 9_000 + "1" + ")" * 9_000 + " }}",
    "{% if bill %}" * 3_000 + "1" + "{% endif %}" * 3_000,
    "{{ " + "-" * 20_000 + "1 }}",
    "{{ bill" + ".a" * 20_000 + " }}",
    "{{ bill" + " | tojson" * 1_000 + " }}",
    "{{ bill.text" + " | list | string" * 3 + " }}",
    "[{{ bill.lineItems | map('string') | map('string') | list | string }}",
    "[{% for a in bill.lineItems %}{% for b in bill.lineItems %}{{ bill.text }}{% endfor %}{% endfor %}1]",
    "{% for a in bill.lineItems %}" * 3 + "{% endfor %}" * 3 + "1",
    "[{% for a in bill.lineItems %}{{ bill.text | tojson }},{% endfor %}1]",
    "{{ 5 | round(900000000, 'ceil') }}",
)


@pytest.mark.parametrize("template", [*ATTRIBUTES, *CALLS, *SIZES], ids=lambda text: text[:40])
def test_an_attempt_is_refused_when_it_is_saved_or_sends_nothing(template, monkeypatch):
    monkeypatch.setattr(http, "SECONDS_MAX", 0.3)
    before = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises((PydanticCustomError, Invalid)) as refused:
            render_json(check_template(template), {"bill": BILL})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert "template" in str(refused.value)
    assert peak < 200 << 20
    assert time.process_time() - before < 15


@pytest.mark.parametrize("template", ["{{ bill.text }}", "{{ bill.lineItems | tojson }}"])
def test_a_body_has_the_size_that_it_may_have(template):
    large = {"text": "1" * (BODY_MAX + 1), "lineItems": ["1" * BODY_MAX]}
    with pytest.raises(Invalid, match="at most"):
        render_json(template, {"bill": large})


def test_filters_together_make_no_more_than_they_may(monkeypatch):
    monkeypatch.setattr(json_templates, "TEXT_MAX", 1_000_000)
    template = (
        "[{% for a in bill.lineItems %}{% if bill.text | upper | lower %}{% endif %}{% endfor %}1]"
    )
    with pytest.raises(Invalid, match="filters make at most 1,000,000 characters"):
        render_json(template, {"bill": BILL})

    assert render_json(template, {"bill": {**BILL, "text": "short"}}) == b"[1]"


@pytest.mark.parametrize(
    ("template", "body"),
    [
        ("{{ bill.lineItems | map(attribute='n') | sum }}", b"44850"),
        ("{{ bill.lineItems | selectattr('n', 'gt', 297) | list | length }}", b"2"),
        ("{{ bill.id | upper | tojson }}", b'"B1"'),
        ("{{ (bill.lineItems | sort(attribute='n', reverse=true) | first).n }}", b"299"),
    ],
)
def test_what_templates_are_for_goes_on(template, body):
    assert check_template(template) == template
    assert render_json(template, {"bill": BILL}) == body
