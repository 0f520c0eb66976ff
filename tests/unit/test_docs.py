"""Documents cannot lie: what they list is compared with the code, what they command is run.

`python tests/unit/test_docs.py` writes the generated parts anew.
"""

import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

from meterlake.cli import run
from meterlake.model.measurements.rejection import Reason
from meterlake.settings import SCOPES, Settings, variable
from meterlake.stores.dependent_settings import DEPENDENCIES
from tests.laws import CI_EXAMPLES
from tests.slow_suite import TENTH_MINUTES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "meterlake"
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
# Written by programs, in the form that these give them.
GENERATED = {"api-coverage.md", "cli.md", "configuration.md", "dictionary.md"}
WRITTEN = [path for path in DOCUMENTS if path.name not in GENERATED]
LINE_LENGTH = 160
PICTURE_MAX = 130_000
# The table of dependencies and the index are no lists of decisions.
DECISIONS = [
    path
    for path in sorted((DOCS / "decisions").glob("*.md"))
    if path.stem not in {"README", "dependencies"}
]
DECISION_PARTS = ("Context", "Decision", "Cost", "Would change it")
# The ways in which measurements come in, as the page on the architecture calls them.
DOORS = (
    "files on the command line",
    "drop folder",
    "upload URL",
    "bucket inbox",
    "POSTed batches",
)
SETTINGS_BLOCK = re.compile(
    r"(<!-- settings:begin[^\n]*-->\n).*?(<!-- settings:end -->)", re.DOTALL
)
DEPENDENCIES_BLOCK = re.compile(
    r"(<!-- dependencies:begin[^\n]*-->\n).*?(<!-- dependencies:end -->)", re.DOTALL
)
# Generated from the code, or with commands for people's own paths.
NOT_RUN = {"cli.md"}
# Many commands, each of which has quicker tests of its own.
SLOW = {"analyst.md", "backfills.md", "calculations.md", "operations.md"}
# What a page says that its commands show.
SHOWN = {"first-bill.md": "16.50 EUR"}


def settings_table() -> str:
    rows = ["| variable | default | whose | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default is None else f"`{field.default}`"
        whose = SCOPES[name].value
        rows.append(f"| `METERLAKE_{name.upper()}` | {default} | {whose} | {field.description} |")
    return "\n".join(rows) + "\n"


def dependencies_table() -> str:
    rows = ["| setting | depends on | otherwise | at the start |", "|---|---|---|---|"]
    for each in DEPENDENCIES:
        needs = ", ".join(f"`{variable(name)}`" for name in each.needs)
        start = "refused" if each.refused else "said"
        lost = f"{each.lost}: {each.rule}"
        rows.append(f"| `{variable(each.name)}` | {needs} | {lost} | {start} |")
    return "\n".join(rows) + "\n"


def name_of(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def folders() -> list[str]:
    """The packages below `src/meterlake`; revisions of the database and pages of rooms aside."""
    found = {path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("*.*")}
    named = {path.as_posix() for path in found if "__pycache__" not in path.parts}
    aside = ("migrations/", "console/templates/")
    return sorted(name for name in named if name != "." and not any(map(name.count, aside)))


def outside_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """What links may name behind `#`: headings that code hosts and makers of sites name alike.

    Hosts keep each space and hyphen, Python-Markdown joins them, so a sign between spaces parts
    the two: `A & B` is `a--b` here and `a-b` there. A name of its own is the same everywhere.
    """
    text = outside_code(document.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    on_hosts = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    shown = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each).replace("`", "") for each in headings)
    on_sites = {slugify(each, "-") for each in shown}
    return (on_hosts & on_sites) | set(re.findall(r'^<a id="([^"]+)"></a>$', text, re.MULTILINE))


def titled_blocks(document: Path) -> dict[str, str]:
    """The files that a page has its reader save: blocks with a title."""
    found = re.findall(
        r'^```\w+ title="(.+?)"\n(.*?)^```$', document.read_text(), re.DOTALL | re.MULTILINE
    )
    return dict(found)


def commands(document: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    # What runs until it is stopped is started by tests of its own.
    endless = {"meterlake serve", "meterlake demo --console"}
    ours = ("meterlake ", "mkdir -p ")
    return [line for line in lines if line.startswith(ours) and line not in endless]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_a_section_stands_once(path):
    """In the changelog, each version has its own."""
    found = re.findall("^## .*$", path.read_text("utf-8"), re.MULTILINE)
    assert len(found) == len(set(found))


def test_the_settings_in_the_documents_are_those_of_the_code():
    text = (ROOT / "docs" / "operations.md").read_text()
    [block] = re.findall(r"settings:begin[^\n]*-->\n(.*?)<!-- settings:end", text, re.DOTALL)
    assert block == settings_table()


def test_the_settings_that_depend_on_others_are_in_the_documents():
    text = (ROOT / "docs" / "operations.md").read_text()
    [block] = re.findall(
        r"dependencies:begin[^\n]*-->\n(.*?)<!-- dependencies:end", text, re.DOTALL
    )
    assert block == dependencies_table()


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_documented(reason):
    assert reason.value in (ROOT / "docs" / "file-formats.md").read_text()


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text()
    ci = (ROOT / ".ci" / "run").read_text()
    assert "pip install -c constraints.txt -e . && meterlake demo" in readme
    assert "pip install -c constraints.txt -e '.[test]' && pytest" in readme
    assert "-c constraints.txt -e '.[test]'" in ci
    assert {"meterlake demo", "pytest"} <= set(ci.splitlines())
    assert "-e '.[docs]' && mkdocs build --strict" in readme
    assert re.search("^mkdocs build .*--strict", ci, re.MULTILINE)
    # What decides about a landing is the same on every day.
    assert ".ci/slow" not in ci
    assert "date" not in ci
    for command in (".ci/run", ".ci/all", ".ci/matrix postgresql", ".ci/slow", ".ci/slow --tenth"):
        assert f"`{command}`" in readme
        assert os.access(ROOT / command.split()[0], os.X_OK)
    # Others for each commit, and which ones is printed.
    assert "--hypothesis-profile=ci" in readme
    assert "--hypothesis-profile=ci --hypothesis-seed=$seed" in ci
    assert re.search(r"^echo .*\$laws", ci, re.MULTILINE)
    assert (TENTH_MINUTES, CI_EXAMPLES) == (15, 50)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document):
    for link, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", document.read_text()):
        target = document.parent / link if link else document
        assert target.exists(), link
        is_page = target.suffix == ".md"
        assert not (anchor and is_page) or anchor in anchors(target), f"{link}#{anchor}"


def test_an_anchor_is_the_same_on_a_code_host_and_on_a_site(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('# Plain words\n\n## A & B\n\n<a id="named"></a>\n\n## C -- d\n')
    assert anchors(page) == {"plain-words", "named"}


@pytest.mark.parametrize("document", WRITTEN, ids=name_of)
def test_a_page_opens_with_what_it_is_for_and_whom(document):
    _, opening, *_ = document.read_text().split("\n\n")
    assert re.search(r"\bis for\b", opening), opening


@pytest.mark.parametrize("document", WRITTEN, ids=name_of)
def test_lines_of_a_page_are_short(document):
    lines = outside_code(document.read_text()).splitlines()
    # A row of a table is one line, however much it says.
    assert [line for line in lines if len(line) > LINE_LENGTH and not line.startswith("|")] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_code_hosts_and_makers_of_sites_read_lists_and_code_alike(document):
    """Python-Markdown wants a blank line before a list, and four spaces for what is within it."""
    text = document.read_text()
    prose = outside_code(text)
    assert re.findall(r"^ {1,3}(?:[-*+]|\d+\.) .*$", prose, re.MULTILINE) == []
    assert re.findall(r"\n\n {1,3}\S.*", prose) == []
    paragraphs = re.findall(r"(?:^|\n\n)(?: {4})?(?![-*+|#><\s]|\d+\. )(.+(?:\n.+)*)", prose)
    assert [each for each in paragraphs if re.search(r"\n(?:[-*+]|\d+\.|\|) ", each)] == []
    opened = re.findall(r"^```.*$", text, re.MULTILINE)[::2]
    assert [each for each in opened if not re.fullmatch(r'```\w*( title="[^"]+")?', each)] == []


@pytest.mark.parametrize("folder", folders())
def test_the_architecture_shows_every_folder(folder):
    inner, _, last = folder.rpartition("/")
    # `stages/ingest/validate` also tells where `stages/validate` is.
    mention = rf"`{inner}/(\w+/)?{last}`" if inner else rf"`{last}`"
    assert re.search(mention, (DOCS / "architecture.md").read_text())


def test_the_architecture_shows_every_door():
    page = (DOCS / "architecture.md").read_text()
    listed = page.split("## The five doors")[1].split("\n\n")[1]
    assert re.findall(r"^\| ([^|]+?) \|", listed, re.MULTILINE)[1:] == list(DOORS)


def test_the_architecture_shows_which_room_may_use_which():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rooms = [
        contract["layers"]
        for contract in contracts["contracts"]
        if contract.get("containers") == ["meterlake.pipeline"]
    ]
    page = (DOCS / "architecture.md").read_text()
    [shown] = re.findall(r"rooms:begin[^\n]*-->\n```\n(.*?)```", page, re.DOTALL)
    assert rooms in ([], [shown.splitlines()])


@pytest.mark.long
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.slow] if path.name in SLOW else [])
        for path in DOCUMENTS
        if commands(path) and path.name not in NOT_RUN
    ],
)
def test_the_commands_of_a_document_run_in_their_order(document, tmp_path, monkeypatch, capsys):
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    monkeypatch.chdir(tmp_path)
    for name, text in titled_blocks(document).items():
        (tmp_path / name).write_text(text)
    for line in commands(document):
        if line == "meterlake demo":
            continue  # CI runs it, and a test of its own does from a wheel.
        if line.startswith("mkdir -p "):
            Path(line.removeprefix("mkdir -p ")).mkdir(parents=True)
            continue
        code = run(shlex.split(line)[1:])
        assert code == 0, (line, capsys.readouterr())
    assert SHOWN.get(document.name, "") in capsys.readouterr().out


def test_how_do_i_answers_forty_questions_by_commands_or_links():
    text = (DOCS / "how-do-i.md").read_text()
    answers = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(answers) == 40
    for answer in answers:
        question = answer.splitlines()[0]
        assert question.endswith("?")
        assert re.search(r"\b[Yy]our?\b", outside_code(answer)), question
        assert re.search(r"^```sh$|\]\([\w./-]+\.md", answer, re.MULTILINE), question


def test_the_changelog_has_versions_with_dates_and_sections():
    text = (DOCS / "changelog.md").read_text()
    found = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
    assert len(found) == len(re.findall(r"^## ", text, re.MULTILINE))
    assert found[0] == ("Unreleased", "")
    released = [(date, tuple(map(int, version.split(".")))) for version, date in found[1:]]
    assert released == sorted(released, reverse=True)
    newest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert found[1][0] == newest
    sections = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("page", DECISIONS, ids=lambda path: path.stem)
def test_every_decision_has_a_date_and_says_what_was_decided(page):
    _, *decisions = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    assert decisions
    for decision in decisions:
        title, date, parts = decision.strip().split("\n\n")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", date), title
        labels = re.findall(r"^- \*\*(.+?):\*\* ", parts, re.MULTILINE)
        assert "Decision" in labels, title
        assert labels == [label for label in DECISION_PARTS if label in labels], title


def test_the_index_of_decisions_has_every_page_and_every_room_has_one():
    index = (DOCS / "decisions" / "README.md").read_text()
    pages = {path.stem for path in (DOCS / "decisions").glob("*.md")} - {"README"}
    assert set(re.findall(r"^\| \[.+?\]\((\w+)\.md\)", index, re.MULTILINE)) == pages
    rooms = {name for name in folders() if re.fullmatch(r"pipeline/\w+", name)}
    assert {room.removeprefix("pipeline/") for room in rooms} <= pages


def test_every_trouble_of_others_has_tests_that_are_there():
    page = (DOCS / "troubles.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| [\w-]+#\d|\| DuckLake", line)]
    assert len(rows) >= 15
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for path, name in named:
            assert f"\ndef {name}(" in (ROOT / path).read_text(), f"{path}::{name}"


def test_documents_show_every_picture_and_only_those_that_are_there():
    shown = {
        (document.parent / address).resolve()
        for document in DOCUMENTS
        for address in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", document.read_text())
    }
    assert shown == set((DOCS / "pictures").iterdir()) != set()
    assert {path.suffix for path in shown} == {".png"}
    assert [path.name for path in shown if path.stat().st_size > PICTURE_MAX] == []


def test_what_is_installed_is_named_without_a_host():
    for path in (ROOT / "constraints.txt", ROOT / "pyproject.toml"):
        assert "://" not in path.read_text(), path


if __name__ == "__main__":
    path = ROOT / "docs" / "operations.md"
    for block, table in (
        (SETTINGS_BLOCK, settings_table()),
        (DEPENDENCIES_BLOCK, dependencies_table()),
    ):
        path.write_text(block.sub(lambda m, table=table: m[1] + table + m[2], path.read_text()))
