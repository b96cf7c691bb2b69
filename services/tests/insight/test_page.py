"""The files of the page: to be had by everybody, and nothing beside them."""

import pytest

from kai_insight.http.guard import HEADERS
from kai_insight.http.page import Page
from services.tests.insight.town import asking

pytestmark = pytest.mark.integration
CODE = b"const answer = 42;\n" * 200


@pytest.fixture
def page(tmp_path):
    folder = tmp_path / "page"
    (folder / "parts").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<!doctype html><title>x</title>")
    (folder / "app-3F2A9C01.js").write_bytes(CODE)
    (folder / "parts" / "logo.svg").write_bytes(b"<svg/>")
    (folder / "notes.md").write_bytes(b"not for anybody")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    return Page(folder)


@pytest.fixture
async def shown(town, database, page):
    async with town.insight() as client, asking(database, client, page=page) as asked:
        yield asked


async def test_a_browser_begins_at_the_root_without_a_token(shown):
    for path in ("/", "/index.html"):
        status, headers, body = await shown.fetched(path)
        assert (status, body) == (200, b"<!doctype html><title>x</title>")
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Cache-Control"] == "no-cache"


async def test_what_has_a_hash_in_its_name_is_kept_for_ever(shown):
    status, headers, body = await shown.fetched("/app-3F2A9C01.js")
    assert (status, body) == (200, CODE)
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert headers["Content-Encoding"] == "gzip"


async def test_who_has_a_file_already_is_told_so(shown):
    _, headers, _ = await shown.fetched("/")
    status, _, body = await shown.fetched("/", headers={"If-None-Match": headers["ETag"]})
    assert (status, body) == (304, b"")


async def test_a_browser_is_told_to_load_nothing_from_elsewhere_and_to_be_in_no_other_page(shown):
    for path in ("/", "/app-3F2A9C01.js", "/api/v1/live", "/nowhere"):
        _, headers, _ = await shown.fetched(path)
        for name in ("Content-Security-Policy", "Referrer-Policy", "X-Content-Type-Options"):
            assert headers[name] == HEADERS[name]
    assert HEADERS["Content-Security-Policy"].split("; ") == [
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "/parts",
        "/parts/",
        "/notes.md",
        "/secret.txt",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/parts/../../secret.txt",
        "/parts/..%2f..%2fsecret.txt",
        "//etc/passwd",
        "/index.html/",
        "/.",
    ],
)
async def test_nothing_else_is_to_be_had(shown, path):
    status, _, document = await shown.call(path, raw=True)
    assert (status, document["error"]["code"]) == (404, "notFound")


async def test_what_lies_deeper_is_there_as_well(shown):
    status, headers, body = await shown.fetched("/parts/logo.svg")
    assert (status, headers["Content-Type"], body) == (200, "image/svg+xml; charset=utf-8", b"<svg/>")


async def test_a_build_without_a_page_says_so(town, database, tmp_path):
    async with town.insight() as client, asking(database, client, page=Page(tmp_path / "none")) as asked:
        status, _, document = await asked.call("/")
        assert (status, document["error"]["message"].startswith("this build has no page")) == (404, True)
