"""What the API server refuses while one of our processes is away, as a page tells it."""

import re
from pathlib import Path

from kai.validation.registration import webhook_configurations

PAGE = Path(__file__).resolve().parents[3] / "docs" / "architecture.md"
ROW = re.compile(r"^\| ([a-z-]+) \| `([a-z.-]+)` \|", re.MULTILINE)


def waited_for(*, refuse_queue_deletion):
    """Webhooks without which nothing is stored, each with who answers."""
    told = webhook_configurations(
        lambda component, path: {"service": {"name": component}}, refuse_queue_deletion=refuse_queue_deletion
    )
    return {
        (webhook["clientConfig"]["service"]["name"], webhook["name"])
        for configuration in told
        for webhook in configuration["webhooks"]
        if webhook["failurePolicy"] == "Fail"
    }


def test_the_page_names_all_webhooks_that_the_api_server_waits_for_and_no_others():
    page = PAGE.read_text()
    section = page[page.index("## Who may be absent") : page.index("## What may be wrong")]
    told = set(ROW.findall(section))
    assert told == waited_for(refuse_queue_deletion=True)
    deletion = ("queue-controller", "queue-deletion.kai.scheduler")
    assert told - waited_for(refuse_queue_deletion=False) == {deletion}


def test_who_is_waited_for_has_a_row_that_says_what_cannot_be_done_meanwhile():
    absent = PAGE.read_text().partition("## Who may be absent")[2]
    for process, _ in waited_for(refuse_queue_deletion=True):
        row = re.search(rf"^\| {process} \| (.+) \|$", absent, re.MULTILINE)
        assert row is not None, process
        assert re.search(r"cannot be created|no .* can be", row[1]), process
