"""What somebody may not see is named in no text that he is told."""

import pytest

from kai.live.redaction import redacted


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("pods of secret/job-1 make room", "pods of somebody's work make room"),
        ("secret/pg-a, open/pg-b and 2 more", "somebody's work, open/pg-b and 2 more"),
        ("secret/job/train.", "somebody's work."),
        ("8/16 of secret", "8/16 of secret"),
        ("https://secret/x", "https://secret/x"),
        ("not-secret/x", "not-secret/x"),
        (
            {"takenBy": ["secret/a", "open/b"], "ahead": 3},
            {"takenBy": ["somebody's work", "open/b"], "ahead": 3},
        ),
        (({"secret/a": None},), [{"somebody's work": None}]),
    ],
)
def test_names_in_hidden_namespaces_are_taken_out_of_any_text(told, left):
    assert redacted(told, {"secret"}) == left
