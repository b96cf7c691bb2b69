"""Defaults by kind, from a ConfigMap: an entry that cannot be meant is left out, and stops no other."""

import json

import pytest

from kai_pod_grouper.grouping import type_defaults
from kai_pod_grouper.grouping.type_defaults import TypeDefault
from kai_pod_grouper.objects.documents import Document

GOOD = {"typeName": "Job", "group": "batch", "priorityName": "build"}


def parse(*entries):
    return type_defaults.parse(json.dumps(entries), of="ConfigMap kai/defaults")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            {"typeName": "Pod", "priorytyName": "build"},
            "unknown key 'priorytyName'; did you mean 'priorityName'?",
        ),
        (
            {"typeName": "Pod", "premptibility": "preemptible"},
            "unknown key 'premptibility'; did you mean 'preemptibility'?",
        ),
        (
            {"typeName": "Pod", "preemptibility": "preemptable"},
            "preemptibility is 'preemptable'; it must be preemptible or non-preemptible or semi-preemptible",
        ),
        ({"typeName": "Pod", "priorityName": 5}, "priorityName is 5; it must be a text"),
        ({"priorityName": "build"}, "it names no kind; set typeName"),
        (None, "it names no kind; set typeName"),
        ("Pod", "it is 'Pod'; it must be a mapping"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused_by_name_and_the_others_count(entry, told):
    found = parse(GOOD, entry)
    assert found.entries == {"Job.batch": TypeDefault("Job", "batch", "build")}
    [problem] = found.problems
    assert problem.startswith(f"ConfigMap kai/defaults: data.types[1] is left out: {told}")


def test_keys_are_read_in_any_case_and_null_as_nothing():
    found = parse({"TYPENAME": "Job", "Group": None, "preemptibility": "Preemptible"})
    assert found.problems == ()
    assert (
        found.of(
            Document.of_body({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}})
        ).preemptibility
        == "Preemptible"
    )


def test_of_two_entries_for_a_kind_the_last_that_can_be_used_counts():
    found = parse(GOOD, {**GOOD, "priorityName": "train"}, {**GOOD, "priority": "inference"})
    assert found.entries["Job.batch"].priority_name == "train"
    assert [problem.partition(" data.")[2].partition(";")[0] for problem in found.problems] == [
        "types[1] counts instead of an earlier entry for Job.batch",
        "types[2] is left out: unknown key 'priority'",
    ]
