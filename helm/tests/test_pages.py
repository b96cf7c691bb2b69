"""Values that stand on pages are values of the chart, and come through to Config or shard."""

import json

import pytest

from e2e.harness import ROOT
from e2e.page import bodies

#: Keys of values, of which other YAML on pages has none.
SECTIONS = ("certificates", "global", "networkPolicy", "operator", "redis", "scheduler")
PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md"))
SHOWN = [
    pytest.param(body, id=f"{page}: {', '.join(body)}")
    for page in PAGES
    for body in bodies(page)
    if "kind" not in body and set(body) <= set(SECTIONS)
]
OTHERS = {"contributing.md": 2, "monitoring.md": 1}


def test_all_that_has_no_kind_is_known():
    without = {page: sum("kind" not in body for body in bodies(page)) for page in PAGES}
    assert sum(without.values()) == len(SHOWN) + sum(OTHERS.values())
    assert all(without[page] == count for page, count in OTHERS.items())


@pytest.mark.parametrize("values", SHOWN)
def test_values_on_a_page_change_what_is_installed(helm, values):
    usual = helm.render()
    authority = usual.one("Secret", "kai-admission-webhook-tls-secret")["data"]["ca.crt"]
    text = json.dumps(values).replace("<base64 of ca.crt of the webhooks>", authority)
    assert helm.render(values=json.loads(text)) != usual
