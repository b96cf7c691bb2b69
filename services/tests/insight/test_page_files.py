"""The page in the package is what its sources give, and asks for nothing from elsewhere."""

import hashlib
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WEB = ROOT / "services" / "kai_insight" / "web"
PAGE = ROOT / "services" / "kai_insight" / "page"
#: What the page is made of; build.mjs reads the same.
SOURCES = ("src", "build.mjs", "package.json", "package-lock.json", "tsconfig.json")


def digest() -> str:
    """Of the names and bytes of all sources, as build.mjs records it."""
    files = [file for name in SOURCES for file in (WEB / name, *(WEB / name).rglob("*")) if file.is_file()]
    told = "".join(
        f"{name} {hashlib.sha256((WEB / name).read_bytes()).hexdigest()}\n"
        for name in sorted(str(file.relative_to(WEB)) for file in files)
    )
    return hashlib.sha256(told.encode()).hexdigest()


def test_the_built_page_is_of_these_sources() -> None:
    recorded = (PAGE / "sources.sha256").read_text().strip()
    assert recorded == digest(), "run `make page`, and commit what it builds"


def test_the_page_consists_of_files_beside_each_other() -> None:
    html = (PAGE / "index.html").read_text()
    named = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert sorted(named) == ["app.css", "app.js", "icon.svg"]
    assert all((PAGE / name).is_file() for name in named)


def test_nothing_in_it_is_inline_so_that_its_policy_can_forbid_that() -> None:
    html = (PAGE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)", html) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", html) == []
    built = (PAGE / "app.js").read_text()
    assert "dangerouslySetInnerHTML:" not in built
    assert "eval(" not in built.replace("data-eval(", "")
    assert re.findall(r"new Function\b", built) == []


def test_no_address_elsewhere_is_fetched() -> None:
    styles = (PAGE / "app.css").read_text()
    assert re.findall(r"url\((?!data:)|@import", styles) == []
    # Names of XML's kinds of elements look like addresses, and nobody asks them.
    names = {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/1999/xhtml",
    }
    built = (PAGE / "app.js").read_text()
    assert set(re.findall(r"https?://[\w./-]+", built)) <= names


def test_the_lock_pins_all_by_integrity_and_records_no_download_address() -> None:
    text = (WEB / "package-lock.json").read_text()
    assert "://" not in re.sub(r'"url": "[^"]*"', "", text)
    packages = {name: each for name, each in json.loads(text)["packages"].items() if name}
    assert len(packages) > 50
    assert [name for name, each in packages.items() if not each.get("integrity")] == []
    declared = json.loads((WEB / "package.json").read_text())
    wanted = {**declared["dependencies"], **declared["devDependencies"]}
    assert [
        name for name, version in wanted.items() if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version)
    ] == []
