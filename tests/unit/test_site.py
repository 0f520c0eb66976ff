"""The site of the documentation: complete, searchable, and without anything from elsewhere."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from tests.browser import opened

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PARTS = ["Tutorials", "How-to", "Reference", "Explanation"]
OUTSIDE = ["CONTRIBUTING.md", "SECURITY.md", "index.md", "sample-data.md"]
PAGES = sorted([*(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")), *OUTSIDE])
# Attributes by which a browser loads something. A link that somebody follows loads nothing.
LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
REMOTE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
BLOCKS = re.compile(r"<(h[1-6]|ul|ol|li|table|tr|pre|blockquote)\b")
WAIT_S = 120

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built by a process whose every request would fail."""
    pytest.importorskip("mkdocs", reason="MkDocs is not installed")
    folder = tmp_path_factory.mktemp("site") / "site"
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **nowhere},
        check=True,
        capture_output=True,
        text=True,
    )
    return folder


def html_of(site: Path, page: str) -> Path:
    path = site / page
    return path.with_name("index.html") if path.stem == "README" else path.with_suffix(".html")


class Loads(HTMLParser):
    """What a browser loads with a page, also by its style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.found += style_loads(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name == LOADED.get(tag)]


def style_loads(text: str) -> list[str]:
    found = re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", text)
    return [first or second for first, second in found]


def listed(items) -> list[str]:
    """The pages of a navigation, from above to below."""
    found = []
    for item in items:
        value = next(iter(item.values())) if isinstance(item, dict) else item
        found += listed(value) if isinstance(value, list) else [value]
    return found


def test_the_navigation_has_four_parts_and_every_page_once():
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert [next(iter(item)) for item in navigation] == ["Home", *PARTS]
    assert sorted(listed(navigation)) == PAGES
    [explanation] = navigation[-1].values()
    decisions = [f"decisions/{path.name}" for path in (DOCS / "decisions").glob("*.md")]
    assert set(decisions) <= set(listed(explanation))


def test_the_site_has_every_page_and_its_markdown(site):
    assert [page for page in PAGES if not html_of(site, page).exists()] == []
    assert sorted(path.relative_to(site).as_posix() for path in site.rglob("*.md")) == PAGES


def test_the_markdown_of_the_site_links_to_what_is_there(site):
    broken = []
    for page in site.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", page.read_text()):
            target = page.parent / link
            if not target.exists() or not target.resolve().is_relative_to(site.resolve()):
                broken.append((page.name, link))
    assert broken == []


@pytest.mark.long
def test_nothing_is_loaded_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) == len(PAGES) + 1  # and one for what is not found
    for path in pages:
        text = path.read_text()
        found = Loads(text).found
        assert any(each.endswith(".js") for each in found)
        assert [each for each in found if REMOTE.match(each)] == [], path
        # What the theme's script would load: diagrams, facts of a repository.
        assert 'class="mermaid"' not in text
        assert "data-md-component=source" not in text.replace('"', "")
    styles = list(site.rglob("*.css"))
    assert len(styles) >= 2
    for path in styles:
        assert [each for each in style_loads(path.read_text()) if REMOTE.match(each)] == [], path


@pytest.mark.parametrize("link", ["//cdn.example/a.js", "https://cdn.example/a.js"])
def test_what_a_page_loads_from_elsewhere_is_found(link):
    page = f'<script src={link}></script><p style="background: url({link})"><a href="{link}">'
    assert Loads(page).found == style_loads(f"@import '{link}'; b {{c: url({link})}}") == [link] * 2
    assert REMOTE.match(link)
    assert not REMOTE.match("../assets//a.js")


def test_the_search_has_every_page_with_its_text(site):
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    texts = {entry["location"]: entry["text"] for entry in entries}
    pages = {location.partition("#")[0] for location in texts}
    assert pages == {html_of(site, page).relative_to(site).as_posix() for page in PAGES}
    assert "NoBillingPeriods" in texts["billing.html#usage-on-no-bill"]


@pytest.mark.long
def test_code_hosts_and_the_site_show_the_same_lists_tables_and_code(site):
    host = MarkdownIt("commonmark").enable("table")
    for page in PAGES:
        [article] = re.findall(r"<article.*?</article>", html_of(site, page).read_text(), re.DOTALL)
        expected = BLOCKS.findall(host.render((site / page).read_text()))
        assert BLOCKS.findall(article) == expected, page


def test_llms_txt_lists_the_markdown_of_every_page(site):
    head, *parts = re.split(r"^## ", (site / "llms.txt").read_text(), flags=re.MULTILINE)
    assert re.match(r"# meterlake\n\n> [^\n]+\n\n", head)
    assert [part.splitlines()[0] for part in parts] == PARTS
    rows = [line for part in [head, *parts] for line in part.splitlines() if line.startswith("- ")]
    found = [re.fullmatch(r"- \[(.+)\]\(([\w./-]+\.md)\): (.+[.?])", row) for row in rows]
    assert None not in found
    assert sorted(each[2] for each in found) == PAGES
    assert [each[1] for each in found if f"# {each[1]}\n" not in (site / each[2]).read_text()] == []


@pytest.fixture
def url(site):
    handler = partial(SimpleHTTPRequestHandler, directory=site)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
def test_a_browser_searches_and_loads_nothing_from_elsewhere(url, tmp_path):
    shown = "[...document.querySelectorAll('.md-search-result__item a')].map((a) => a.href)"
    with opened(f"{url}/index.html?q=retract", tmp_path) as evaluate:
        end = time.monotonic() + WAIT_S
        while not (found := evaluate(shown)) and time.monotonic() < end:
            time.sleep(0.2)
        loaded = evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    assert any(each.startswith(f"{url}/backfills.html") for each in found)
    assert f"{url}/search/search_index.json" in loaded
    assert [each for each in loaded if not each.startswith((url, "data:"))] == []
