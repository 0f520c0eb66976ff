"""Hooks of the site: pages from outside of `docs/`, `llms.txt`, and the Markdown of each page.

Pages are plain Markdown with links that a code host follows. The hooks make these links right here.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

# Pages of the repository that do not lie in `docs/`, and their places on the site.
FROM_OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "sample_data/README.md": "sample-data.md",
}
_REPOSITORY_PATHS = {place: path for path, place in FROM_OUTSIDE.items()}
# Code is kept as it is: what looks like a link in it is none.
_CODE_OR_LINK = re.compile(
    r"^```.*?^```$|`[^`\n]+`|\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in `docs/`."""
    root = Path(config.config_file_path).parent
    for path, place in FROM_OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let each link lead to its target's place on the site."""
    place = page.file.src_uri
    page.meta.setdefault("description", summary(markdown))
    here = posixpath.dirname(_REPOSITORY_PATHS.get(place, f"docs/{place}"))

    def relink(match: re.Match[str]) -> str:
        if match["path"] is None:
            return match[0]
        target = posixpath.normpath(posixpath.join(here, match["path"]))
        there = FROM_OUTSIDE.get(target, target.removeprefix("docs/"))
        path = posixpath.relpath(there, posixpath.dirname(place) or ".")
        return f"]({path}{match['anchor'] or ''})"

    return _CODE_OR_LINK.sub(relink, markdown)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Add `llms.txt`: the pages in the order of the navigation, each with its summary."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    lines += ["The links lead to the Markdown of the pages. The HTML lies beside it.", ""]
    lines += [_listed(item) for item in nav.items if isinstance(item, Page)]
    for part in nav.items:
        if isinstance(part, Section):
            lines += ["", f"## {part.title}", "", *map(_listed, _pages(part))]
    files.append(File.generated(config, "llms.txt", content="\n".join(lines) + "\n"))
    return nav


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Write the page's Markdown beside its HTML."""
    place = Path(config.site_dir) / page.file.src_uri
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(page.markdown or "", "utf-8")
    return output


def _pages(section: Section) -> Iterator[Page]:
    for item in section.children:
        if isinstance(item, Section):
            yield from _pages(item)
        elif isinstance(item, Page):
            yield item


def _listed(page: Page) -> str:
    text = page.file.content_string
    [title] = re.findall(r"\A(?:<!--.*?-->\s*)?# (.+)$", text, re.MULTILINE)
    return f"- [{title}]({page.file.src_uri}): {summary(text)}"


def summary(markdown: str) -> str:
    """The first two sentences of a page below its title: who it is for, and what it is about."""
    _, opening, *_ = _COMMENT.sub("", markdown).split("\n\n")
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(opening.split()))
    return " ".join(re.split(r"(?<=[.?]) (?=[A-Z])", text.replace("`", ""))[:2])
