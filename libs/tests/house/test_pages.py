"""Pages can be found, and what they point to is there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, ROOT / "SECURITY.md", ROOT / "e2e" / "README.md", *DOCS]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@cache
def text(page: Path) -> str:
    """A page without what stands there to be copied."""
    return FENCED.sub("", page.read_text())


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(text(page)) if "://" not in link]


@cache
def anchors(page: Path) -> set[str]:
    """Its headings, as those who show pages make addresses of them."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(text(page)))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


def broken(page: Path) -> list[str]:
    found = []
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken(page) == []


def test_every_page_is_in_the_index_of_the_readme():
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in links(README)}
    assert [page.name for page in DOCS if page not in linked] == []
