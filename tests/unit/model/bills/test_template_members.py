"""Templates of bodies name members that a bill and its account have."""

import pytest

from meterlake.model.bills.template_members import check_members
from meterlake.model.errors import Invalid

BANDS = """{% for l in bill.lineItems %}{% for b in l.usagePerPricingBand %}{{ b.price }}
{% endfor %}{% endfor %}"""


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ bil.id }}", "`bil`, in line 1: did you mean `bill`?"),
        ("{{ invoice }}", "`invoice`, in line 1: there are account, bill"),
        ("\n{{ bill.totalAmount | tojson }}", "`totalAmount`, in line 2"),
        ("{{ bill.billtotal }}", "did you mean `billTotal`?"),
        ("{{ bill['billTotl'] }}", "did you mean `billTotal`?"),
        ("{{ account.emailAdress }}", "did you mean `emailAddress`?"),
        ("{{ account.address.town }}", "`town`"),
        ("{% for l in bill.lineItems %}{{ l.amont }}{% endfor %}", "`amont`"),
        ("{% for l in bill.lineItems if l.typ %}1{% endfor %}", "`typ`"),
        ("{% for l in bill.lineItems %}{{ loop.number }}{% endfor %}", "`number`"),
        ("{% for l in bill.lineItems %}1{% else %}{{ l }}{% endfor %}", "`l`"),
        ("{{ bill.lineItems[0].totl }}", "`totl`"),
        ("{{ bill.lineItems[:2][0].totl }}", "`totl`"),
        ("{{ (bill.lineItems | first).totl }}", "`totl`"),
        ("{{ bill.lineItems | map(attribute='totl') | list }}", "`totl`"),
        ("{{ bill.lineItems | sum(attribute='subtotl') }}", "did you mean `subtotal`?"),
        ("{{ bill.lineItems | sort(attribute='typ') | list }}", "`typ`"),
        ("{{ bill.lineItems | selectattr('lineItemTyp', 'eq', 'USAGE') | list }}", "`lineItemTyp`"),
        ("{{ bill.lineItems.subtotal }}", "a loop over the list"),
        ("{{ bill.total | default(0) }}", "`total`"),
        ("{{ 1 if bill.isLocked else 2 }}", "`isLocked`"),
        ("{% if bill.lokced %}1{% endif %}", "did you mean `locked`?"),
        ("{{ bill.billTotal | round(account.digits) }}", "`digits`"),
        (BANDS, "did you mean `unitPrice`?"),
    ],
)
def test_a_name_that_nothing_has_is_refused_with_the_nearest(template, said):
    with pytest.raises(Invalid) as refused:
        check_members("configData.template", template)
    assert refused.value.args[0] == "configData.template"
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "template",
    [
        "{{ bill | tojson }}",
        "{{ account.customFields.anything.at.all }} {{ account.customFields['Tier 1'] }}",
        "{{ account.id }} {{ account.version }} {{ account.address.country }} {{ bill.billDate.year }}",
        "{% for l in bill.lineItems %}{{ l.segment.region }}{{ loop.index }}{{ loop.last }}{% endfor %}",
        "{{ bill.lineItems | map(attribute='usagePerPricingBand') | first | map(attribute='unitPrice') | list }}",
        "{{ bill.lineItems | selectattr('lineItemType', 'eq', 'USAGE') | sum(attribute='subtotal') }}",
        "{% for key in bill %}{{ key }}{% endfor %}",
        "{{ bill.lineItems | length }} {{ bill.currency | lower }} {{ bill.dueDate | default('') }}",
        "{{ bill.currencyConversions[0].multiplier }}",
    ],
)
def test_what_there_is_can_be_named(template):
    check_members("configData.template", template)
