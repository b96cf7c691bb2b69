"""Which pods have ended."""

import pytest

from kai.model.rules.phases import has_ended


@pytest.mark.parametrize(
    ("phase", "ended"),
    [
        ("Succeeded", True),
        ("Failed", True),
        ("Running", False),
        ("Pending", False),
        ("Unknown", False),
        ("", False),
        ("succeeded", False),
    ],
)
def test_what_succeeded_or_failed_has_ended(phase: str, ended: bool) -> None:
    assert has_ended(phase) is ended
