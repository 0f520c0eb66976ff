"""Pages and PDF files of bills: what templates may do, which scripts there are, and equal bytes."""

import copy
import io
import json
import os
import random
import re
import subprocess
import sys
from decimal import Decimal, localcontext
from importlib.util import find_spec
from pathlib import Path

import pypdf
import pytest

from meterlake.model.bills.document import DocumentFormat
from meterlake.model.bills.statements import StatementLine
from meterlake.model.errors import BadTemplate, Invalid, NoGlyph, NotAvailable
from meterlake.model.values.money import plain
from meterlake.pipeline.documents import render
from meterlake.pipeline.documents.render import RenderOptions, options_of, render_document
from meterlake.settings import Settings
from tests.document_world import band, document, line, pages_of, text_of, unicode_text_of, usage
from tests.pdf_layout import faults_of_layout

HTML, PDF = DocumentFormat.HTML, DocumentFormat.PDF
SCRIPTS = {
    "arabic": "استهلاك البيانات",
    "hebrew": "שימוש בנתונים",
    "devanagari": "डेटा उपयोग क्षेत्र",
    "bengali": "ডেটা ব্যবহার",
    "tamil": "தரவு பயன்பாடு",
    "thai": "การใช้ข้อมูล น้ำ",
    "burmese": "ဒေတာ အသုံးပြုမှု",
    "amharic": "የውሂብ አጠቃቀም",
    "chinese": "数据使用量",
    "japanese": "データ使用量",
    "korean": "데이터 사용량",
    "greek": "Χρήση δεδομένων",
    "cyrillic": "Использование данных",
    "vietnamese": "Lưu lượng dữ liệu",
    "georgian": "მონაცემები",
}
# Letters of these are in the file as the letters that they are; others are joined and moved.
PLAIN = ("chinese", "japanese", "korean", "greek", "cyrillic", "vietnamese", "georgian", "amharic")


def a_document(*descriptions, **members):
    texts = descriptions or ("Sent",)
    lines = [line(n, 5, description=each) for n, each in enumerate(texts, start=1)]
    return document(*lines, **members)


def with_template(folder, format_, text, **options):
    path = folder / ("bill.html" if format_ is HTML else "bill.typ")
    path.write_text(text, "utf-8")
    return render_document(a_document(), format_, RenderOptions(path, **options))


MISTAKES = [
    (HTML, "a\n{{ bill.nothing }}", "bill.html, line 2", "has no attribute 'nothing'"),
    (HTML, "a\n\n{% if %}", "bill.html, line 3", "Expected an expression"),
    (HTML, "{{ bill.number|safe }}", "bill.html, line 1", "No filter named 'safe'"),
    (HTML, "{% autoescape false %}{% endautoescape %}", "bill.html", "always escaped"),
    (HTML, "{{ ''.__class__.__mro__ }}", "bill.html, line 1", "unsafe"),
    (HTML, "{{ bill.update({'x': 1}) }}", "bill.html, line 1", "unsafe"),
    (HTML, "\n{% include '../../../../etc/passwd' %}", "bill.html, line 2", "is not found in"),
    (HTML, "{% include '/etc/passwd' %}", "bill.html, line 1", "is not found in"),
    (HTML, "{{ range(10**9)|list }}", "bill.html, line 1", "Range too big"),
    (HTML, "{{ cycler }}", "bill.html, line 1", "'cycler' is undefined"),
    (HTML, "{{ 1 / 0 }}", "bill.html, line 1", "division by zero"),
    (PDF, "a\n#nothing", "bill.typ, line 2", "unknown variable: nothing"),
    (PDF, "#let a =\n#foo(", "bill.typ, line", "expected expression"),
    (PDF, '#read("/etc/passwd")', "bill.typ, line 1", "file not found"),
    (PDF, '#read("../../../../../../etc/passwd")', "bill.typ, line 1", "escape"),
    (PDF, '\n#import "@preview/cetz:0.3.0"', "bill.typ, line 2", "failed to download package"),
    (PDF, '#import "@local/own:0.1.0"', "bill.typ, line 1", "package"),
    (PDF, '#image("http://127.0.0.1/logo.png")', "bill.typ, line 1", "file not found"),
    (PDF, "#while true { [a] }", "bill.typ, line 1", "condition is always true"),
    (PDF, "#let f(n) = f(n + 1)\n#f(0)", "bill.typ, line 1", "maximum function call depth"),
    (PDF, "#set document(date: none)", "bill.typ", "document date"),
]

# A process for each takes its time: the others are tried less often.
OFTEN = (0, 2, 7, 13, 15)


@pytest.mark.parametrize(
    ("format_", "text", "where", "why"),
    [
        pytest.param(*each, marks=() if number in OFTEN else pytest.mark.slow)
        for number, each in enumerate(MISTAKES)
    ],
    ids=[f"{each[0]}-{number}" for number, each in enumerate(MISTAKES)],
)
def test_a_bad_template_is_refused_with_its_line(tmp_path, format_, text, where, why):
    with pytest.raises(BadTemplate) as error:
        with_template(tmp_path, format_, text)
    assert str(error.value).startswith(f"template {where}")
    assert why in str(error.value)


@pytest.mark.parametrize("format_", [pytest.param(HTML, marks=pytest.mark.slow), PDF])
def test_a_template_reads_no_file_outside_its_folder_through_a_link(tmp_path, format_):
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "secret.txt").write_text("TOPSECRET")
    (own / "link.txt").symlink_to(tmp_path / "secret.txt")
    text = "{% include 'link.txt' %}" if format_ is HTML else '#read("link.txt")'
    with pytest.raises(BadTemplate, match="outside"):
        with_template(own, format_, text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("format_", "text"),
    [
        pytest.param(
            HTML,
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            marks=pytest.mark.slow,
        ),
        (PDF, "#for a in range(99999999) { for b in range(99999) { } }"),
    ],
)
def test_a_template_that_does_not_end_is_ended(tmp_path, format_, text):
    with pytest.raises(BadTemplate, match="was not made within 1 s"):
        with_template(tmp_path, format_, text, seconds=1)


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        (HTML, "{{ 'aaaaaaaaaa' * 10 ** 10 }}"),
        pytest.param(
            PDF,
            '#let a = "a" * 200000000\n#let b = range(40).map(n => a + str(n))\n#b.len()',
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_template_that_takes_all_memory_is_ended(tmp_path, monkeypatch, format_, text):
    monkeypatch.setattr(render, "MEMORY", 1 << 30)
    with pytest.raises(BadTemplate, match="memory"):
        with_template(tmp_path, format_, text, seconds=20)


def test_parts_beside_a_template_are_read(tmp_path):
    (tmp_path / "part.html").write_text("<b>{{ bill.number }}</b>")
    (tmp_path / "part.typ").write_text("#let greet(name) = [Hello #name]")
    page = with_template(
        tmp_path, HTML, "{% include 'part.html' %} {{ totals.total|grouped('.', ',') }}"
    )
    assert page == b"<b>INV-7</b> 5,00"
    pdf = with_template(
        tmp_path,
        PDF,
        '#import "part.typ": greet\n#let doc = json(bytes(sys.inputs.document))\n#greet(doc.customer.name)',
    )
    assert pages_of(pdf) == ["Hello Acme"]


@pytest.mark.parametrize(
    ("name", "format_", "rule"),
    [("none.html", HTML, "exists"), ("bill.typ", HTML, ".html"), ("bill.html", PDF, ".typ")],
)
def test_a_file_that_is_no_template_of_the_format_is_refused(tmp_path, name, format_, rule):
    if name != "none.html":
        (tmp_path / name).touch()
    with pytest.raises(Invalid, match="template") as error:
        render_document(a_document(), format_, RenderOptions(tmp_path / name))
    assert rule in str(error.value)


@pytest.mark.slow
def test_our_own_templates_can_be_copied_and_changed(tmp_path):
    for name, data in render.own_templates().items():
        (tmp_path / name).write_bytes(data)
    changed = tmp_path / "bill.html"
    changed.write_text(changed.read_text().replace("Bill to", "Rechnung an"))
    found = a_document()
    assert b"Rechnung an" in render_document(found, HTML, RenderOptions(tmp_path))
    own = render_document(found, PDF, RenderOptions())
    assert render_document(found, PDF, RenderOptions(tmp_path)) == own


def test_a_page_escapes_values_and_needs_nothing_beside_itself():
    evil = "<script>alert(1)</script>\"'&"
    party = {**document()["customer"], "name": evil, "address": [evil]}
    page = render_document(a_document(evil, customer=party), HTML, RenderOptions()).decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 3
    for each in ("<script", "http://", "https://", "url(", "@import", "<link", "<img"):
        assert each not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize(("amount", "owes"), [(5, True), (-5, False)])
def test_who_owes_nothing_is_not_asked_to_pay(amount, owes):
    bill = document(line(1, amount))
    bill["seller"]["fields"]["paymentDetails"] = "IBAN DE00"
    page = render_document(bill, HTML, RenderOptions()).decode()
    pdf = " ".join(pages_of(render_document(bill, PDF, RenderOptions())))

    for found in (page, pdf):
        assert ("payable by" in found, "IBAN DE00" in found) == (owes, owes)
        assert ("nothing is to be paid" in found) == (not owes)


def test_text_is_no_program_of_the_typesetter():
    evil = '#read("/etc/passwd") $x^2$ *bold* `raw` @ref <label> // comment'
    assert evil.replace(" ", "") in text_of(render_document(a_document(evil), PDF, RenderOptions()))


@pytest.mark.long
def test_scripts_are_shown():
    found = a_document(*SCRIPTS.values())
    read = unicode_text_of(render_document(found, PDF, RenderOptions()))
    page = render_document(found, HTML, RenderOptions()).decode()
    for script, text in SCRIPTS.items():
        assert script not in PLAIN or text.replace(" ", "") in read
        assert f"<bdi>{text}</bdi>" in page


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Data 🦖", "'🦖' (U+1F996 T-REX)"),
        pytest.param("ગુજરાતી", "U+0A97 GUJARATI LETTER GA", marks=pytest.mark.slow),
        pytest.param("x\U000f0000", "U+F0000", marks=pytest.mark.slow),
    ],
)
def test_a_character_without_a_font_is_named(text, named):
    with pytest.raises(NoGlyph) as error:
        render_document(a_document("fine", text), PDF, RenderOptions())
    assert str(error.value).startswith("sections[0].lines[1].description has ")
    assert named in str(error.value)
    assert "--fonts" in str(error.value)


@pytest.mark.slow
def test_a_folder_of_fonts_adds_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(render, "PACKAGES", ("justmytype_western_core",))
    found = a_document(SCRIPTS["thai"])
    with pytest.raises(NoGlyph, match="THAI"):
        render_document(found, PDF, RenderOptions())
    source = Path(find_spec("justmytype_intl_sea").origin).parent
    data = next(source.rglob("NotoSansThai*.ttf")).read_bytes()
    (tmp_path / "thai.ttf").write_bytes(data)
    assert render_document(found, PDF, RenderOptions(fonts=tmp_path))
    with pytest.raises(Invalid, match="a folder with fonts"):
        render_document(found, PDF, RenderOptions(fonts=tmp_path / "none"))


def test_without_the_typesetter_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(render, "find_spec", lambda _: None)
    with pytest.raises(NotAvailable, match=r"pip install 'meterlake\[documents\]'"):
        render_document(a_document(), PDF, RenderOptions())


_AGAIN = """
import json, sys
from meterlake.model.bills.document import DocumentFormat
from meterlake.pipeline.documents.render import RenderOptions, render_document
document = json.load(sys.stdin)
for each in (DocumentFormat.PDF, DocumentFormat.HTML):
    sys.stdout.buffer.write(render_document(document, each, RenderOptions()))
"""


def test_another_process_gives_the_same_bytes():
    found = a_document(*SCRIPTS.values())
    first = render_document(found, PDF, RenderOptions())
    assert render_document(copy.deepcopy(found), PDF, RenderOptions()) == first


@pytest.mark.slow
def test_another_process_zone_and_locale_give_the_same_bytes():
    found = a_document(*SCRIPTS.values())
    first = b"".join(render_document(found, each, RenderOptions()) for each in (PDF, HTML))
    variables = {"TZ": "Asia/Tokyo", "LC_ALL": "de_DE.UTF-8", "PYTHONHASHSEED": "1"}
    again = subprocess.run(
        [sys.executable, "-c", _AGAIN],
        input=json.dumps(found).encode(),
        capture_output=True,
        env={**os.environ, **variables},
        check=True,
    )
    assert again.stdout == first


@pytest.mark.long
def test_a_pdf_says_what_it_is():
    found = document(StatementLine(line(1, 5), [usage("4", "4")]), line(2, 6))
    reader = pypdf.PdfReader(io.BytesIO(render_document(found, PDF, RenderOptions())))
    assert reader.metadata.title == "Invoice INV-7"
    assert reader.metadata["/CreationDate"] == "D:20261001000000Z"
    assert [each.title for each in reader.outline if not isinstance(each, list)] == [
        "Cloud",
        "Usage by day",
    ]
    assert "Page 1 of 2" in reader.pages[0].extract_text()
    draft = document(line(1, 5), bill={"status": "PENDING"})
    data = render_document(draft, PDF, RenderOptions())
    assert pypdf.PdfReader(io.BytesIO(data)).metadata.title == "Draft invoice INV-7"
    assert all("DRAFT" in each for each in pages_of(data))


@pytest.mark.long
def test_heads_of_tables_come_again_on_every_page():
    found = document(*(line(n, 5, description=f"Line {n}") for n in range(1, 81)))
    pages = pages_of(render_document(found, PDF, RenderOptions()))
    assert len(pages) > 1
    assert [each for each in pages[:-1] if "DESCRIPTION" not in each] == []


def test_settings_name_templates_of_an_organization(tmp_path):
    settings = Settings(home=tmp_path, document_templates=tmp_path, _env_file=None)

    def template(code, format_=HTML, **own):
        return options_of(settings, code, format_, **own).template

    assert template("sample") is None
    (tmp_path / "bill.html").touch()
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "bill.html").touch()
    (tmp_path.parent / "bill.html").touch()
    assert template("sample") == tmp_path / "sample" / "bill.html"
    for code in ("other", "..", "../sample", "/", "a/../sample"):
        assert template(code) == tmp_path / "bill.html"
    assert template("sample", PDF) is None
    assert template("sample", DocumentFormat.JSON) is None
    assert template("sample", template=Path("own")) == Path("own")


def check_all_is_there(found):
    """Every line with its numbers, in order, and every sum, in what other programs read."""
    pdf = text_of(render_document(found, PDF, RenderOptions()))
    page = render_document(found, HTML, RenderOptions()).decode()
    for section in found["sections"]:
        place = 0
        for each in section["lines"]:
            for number in (f"{each['number']}{each['description']}", _shown(each["amount"])):
                at = pdf.find(number.replace(" ", ""), place)
                assert at >= 0, (number, pdf[place : place + 200])
                place = at
            assert f">{_shown(each['amount'])}<" in page
        assert f"Subtotal{section['title']}{_shown(section['subtotal'])}".replace(" ", "") in pdf
    assert f"TotalUSD{_shown(found['totals']['total'])}" in pdf


def _shown(text):
    """An amount as people read it."""
    whole, point, fraction = text.partition(".")
    return text if whole == "-0" else f"{int(whole):,}{point}{fraction}"


LONG_NUMBERS = [
    # units, unit price, of two bands: as the sample has them, then as long as they get.
    ("4481.0967741935483871", "0.0198"),
    ("12345678901.123456789012", "0.000000123456"),
    ("12345678901234567890123456.123456789012", "0.0198"),
]


@pytest.mark.parametrize(("units", "price"), LONG_NUMBERS)
@pytest.mark.parametrize("count", [1, 2])
def test_long_numbers_stand_whole_beside_each_other(units, price, count):
    with localcontext(prec=80):
        amount = Decimal(units) * Decimal(price)
        bands = [band(str(n * 1000), units, price, n, amount + n) for n in range(count)]
        cents = sum(Decimal(each["bandSubtotal"]) for each in bands).quantize(Decimal("0.01"))
        members = {"unit": "GB-month", "currency": "EUR", "usagePerPricingBand": bands}
        found = document(line(1, cents, description="Average storage", **members))
        [each] = found["sections"][0]["lines"]
        numbers = [each["units"], each["amount"]]
        numbers += [price] if count == 1 else [units, price, plain(amount), plain(amount + 1)]

    faults = faults_of_layout(
        render_document(found, PDF, RenderOptions()), [_shown(one) for one in numbers]
    )

    assert not faults


@pytest.mark.long
def test_a_memo_names_its_bill_by_number_or_date():
    """Never by an id, which no customer knows."""
    shown = {}
    for number, date in (("INV-3", "2026-08-01"), (None, "2026-08-01"), (None, None)):
        found = a_document()
        found["sections"][0]["lines"][0]["reference"] = {
            "billId": "5d9d4a3e-0000-4000-8000-000000000000",
            "billNumber": number,
            "billDate": date,
            "lineId": "5d9d4a3e-0000-4000-8000-000000000001",
            "line": 4,
        }
        pdf = " ".join(pages_of(render_document(found, PDF, RenderOptions()))[0].split())
        page = re.sub("<[^>]*>", "", render_document(found, HTML, RenderOptions()).decode())
        assert "5d9d4a3e" not in pdf + page
        shown[number, date] = [
            re.search("About (line 4 of .*?)(?:\n| 1 GB| Subtotal|$)", text)[1].strip()
            for text in (pdf, page)
        ]

    assert shown == {
        ("INV-3", "2026-08-01"): ["line 4 of bill INV-3 of 2026-08-01"] * 2,
        (None, "2026-08-01"): ["line 4 of the bill of 2026-08-01"] * 2,
        (None, None): ["line 4 of an earlier bill"] * 2,
    }


def random_document(rng):
    """A bill of random lines and bands."""
    lines = []
    for number in range(1, rng.randrange(2, 40)):
        amount = Decimal(rng.randrange(-(10**9), 10**9)).scaleb(-2)
        units = [rng.randrange(1, 99) for _ in range(rng.randrange(4))]
        bands = [
            band(str(each), str(count), "0.5", str(each % 2), str(Decimal(count) / 2 + each % 2))
            for each, count in enumerate(units)
        ]
        product = rng.choice(("Cloud", "Store", "Net"))
        names = {"productId": product, "productName": product, "productCode": product.lower()}
        named = f"Used {rng.randrange(10**6)}"
        lines.append(line(number, amount, description=named, usagePerPricingBand=bands, **names))
    return document(*lines)


def test_every_line_and_sum_of_a_bill_is_in_its_documents():
    check_all_is_there(random_document(random.Random(1)))


@pytest.mark.slow
def test_every_line_and_sum_of_very_many_bills_is_in_their_documents():
    for seed in range(50):
        check_all_is_there(random_document(random.Random(f"0/{seed}")))


@pytest.mark.slow
def test_ten_thousand_lines_take_a_bounded_time():
    import resource

    found = document(*(line(n, 5, description=f"Line {n}") for n in range(1, 10_001)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    pages = len(pypdf.PdfReader(io.BytesIO(render_document(found, PDF, RenderOptions()))).pages)
    assert pages > 100
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 20
