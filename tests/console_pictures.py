"""The pictures of the console in the documents: `python -m tests.console_pictures docs/pictures`."""

import sys
import tempfile
from pathlib import Path
from shutil import which
from typing import Final, Literal, NamedTuple
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

from meterlake.pipeline.home.sample import MONTH
from tests.console_world import CONSOLE, sample_console
from tests.people import PASSWORD, allow

PERSON: Final = "ada@example.com"
TIMEOUT_MS: Final = 180_000
QUESTION: Final = {
    "meter": "llm_tokens",
    "field": "output_tokens",
    "function": "SUM",
    "by": "DAY",
    "group": "model",
    "from": f"{MONTH}-02",
    "to": f"{MONTH}-31",
}


class Picture(NamedTuple):
    """What a window shows of a page.

    Attributes:
        name: The name of the file, without its suffix.
        address: The page, or the list from which a link leads to it.
        row: Words of the row of the list, whose first link to below `address` is followed.
        query: What is added to the address of the link.
        scheme: Light or dark.
        width: Pixels of the window.
        height: Pixels of the window.
    """

    name: str
    address: str
    row: str = ""
    query: str = ""
    scheme: Literal["light", "dark"] = "light"
    width: int = 1280
    height: int = 800


PICTURES: Final = (
    Picture("month", f"months/{MONTH}"),
    Picture("month-dark", f"months/{MONTH}", scheme="dark"),
    Picture("month-narrow", f"months/{MONTH}", width=360),
    Picture("bill", f"bills?month={MONTH}", row="nordwind-logistics"),
    Picture("customer", "customers?q=nordwind", row="Nordwind", query=f"?month={MONTH}"),
    Picture("data-in", "data-in"),
    Picture("plan", "catalogue/plans", row="Models Pro"),
    Picture("usage", f"usage?{urlencode(QUESTION)}"),
    Picture("revenue", f"revenue?month={MONTH}"),
)


def take_pictures(folder: Path) -> None:
    """Write all pictures of a console with the sample data into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as home,
        sample_console(Path(home)) as world,
        sync_playwright() as driver,
    ):
        world.join(PERSON, allow())
        browser = driver.chromium.launch(
            executable_path=which("chromium"), args=["--no-sandbox", "--no-proxy-server"]
        )
        for picture in PICTURES:
            take_picture(browser, world.url, picture, folder)
        browser.close()


def take_picture(browser: Browser, url: str, picture: Picture, folder: Path) -> None:
    """Sign in by a window of the picture's size, and write what it shows."""
    context = browser.new_context(
        base_url=url,
        color_scheme=picture.scheme,
        viewport={"width": picture.width, "height": picture.height},
        java_script_enabled=False,
    )
    context.set_default_timeout(TIMEOUT_MS)
    tab = context.new_page()
    tab.goto(CONSOLE)
    tab.get_by_label("E-mail address").fill(PERSON)
    tab.get_by_label("Password").fill(PASSWORD)
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/console/months/**")
    open_page(tab, picture)
    tab.screenshot(path=folder / f"{picture.name}.png")
    context.close()


def open_page(tab: Page, picture: Picture) -> None:
    """Go to the page of a picture."""
    address = f"{CONSOLE}/{picture.address}"
    tab.goto(address)
    if picture.row:
        below = address.partition("?")[0] + "/"
        row = tab.get_by_role("row").filter(has_text=picture.row).first
        link = row.locator(f'a[href^="{below}"]').first.get_attribute("href")
        tab.goto(f"{link}{picture.query}")


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]))
