"""The page asks nobody but the server that it came from, and no name does more than stand there."""

import json
import random
from urllib.parse import urlencode, urlsplit

from e2e.browser.test_looks import VIEWS, settled

#: Elements that fetch or run something, of which the page itself has none.
ACTIVE = (
    'img, iframe, object, embed, a[href^="http"], a[href^="javascript"], [onerror], [onload], [onmouseover]'
)
MARKUP = (
    '<img src=x onerror="window.hurt=1">',
    "<script>window.hurt=1</script>",
    '"><svg onload=window.hurt=1>',
    "javascript:window.hurt=1",
    "{{constructor.constructor('window.hurt=1')()}}",
    "<a href=http://evil.example/>x</a>",
    "</title><style>*{display:none}</style>",
    "' onmouseover='window.hurt=1",
    "\u202e\u0000\ufffd",
    "&lt;b&gt;&amp;",
    "__proto__",
)


def hostile(chance):
    """Pieces of markup, put together at random."""
    letters = [*MARKUP, "<", ">", '"', "'", "&", "`", "${x}", "/", "\\", "#", "?", "%3C", "é", "𝒳", " "]
    return "".join(chance.choices(letters, k=chance.randint(1, 4)))[:120]


async def test_no_request_leaves_the_origin(mock, page):
    server = await mock(gpus=64)
    tab = await page(server, "#/waiting")
    for number, view in enumerate(VIEWS):
        await tab.goto(f"{server.url}?{number}{view}")
        await settled(tab)
    elsewhere = [url for url in tab.requests if urlsplit(url).netloc != urlsplit(server.url).netloc]
    assert elsewhere == []
    assert len(tab.requests) > 3 * len(VIEWS)


async def test_the_policy_holds_in_every_view(mock, page):
    server = await mock(gpus=64)
    tab = await page(server, "#/waiting")
    await tab.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source="window.broken = [];"
        " addEventListener('securitypolicyviolation', e => broken.push(e.violatedDirective))",
    )
    for number, view in enumerate(VIEWS):
        await tab.goto(f"{server.url}?{number}{view}")
        await settled(tab)
        assert await tab.js("window.broken") == []


async def test_names_with_markup_are_text_everywhere(mock, page):
    chance = random.Random(5)
    names = [*MARKUP, *(hostile(chance) for _ in range(40))]
    server = await mock(gpus=64, waiting=len(names), names=names, hidden=2)
    for row in server.world.waiting:
        row["text"] = chance.choice(names)
        row["user"] = chance.choice(names)
    tab = await page(server, "#/waiting")
    row = server.world.waiting[0]
    group = server.world.groups[0]
    views = [
        *VIEWS,
        f"#/cluster?{urlencode({'node': server.world.nodes[0]})}",
        f"#/waiting?{urlencode({'open': row['namespace'] + '/' + row['name']})}",
        f"#/waiting?{urlencode({'text': MARKUP[0], 'queue': MARKUP[1], 'code': MARKUP[2]})}",
        f"#/workload?{urlencode({'namespace': group.namespace, 'name': group.name})}",
        f"#/what-if?{urlencode({'change': 'drain', 'target': MARKUP[0]})}",
    ]
    own = await tab.js("[document.scripts.length, document.styleSheets.length]")
    for number, view in enumerate(views):
        await tab.goto(f"{server.url}?{number}{view}")
        await settled(tab)
        found = await tab.js(
            f"[document.querySelectorAll({json.dumps(ACTIVE)}).length, document.scripts.length,"
            " document.styleSheets.length, window.hurt ?? 0]"
        )
        assert found == [0, *own, 0], view
    assert [url for url in tab.requests if urlsplit(url).netloc != urlsplit(server.url).netloc] == []
    await tab.goto(f"{server.url}?last#/waiting")
    await tab.has("tr[data-row]", 5)
    await tab.sees("<img src=x", ".table")
