"""Options of lists and watches that do not go together, and forms of answers."""

import base64

import pytest

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MATCH = "resourceVersionMatch"

REFUSED = {
    "a rule for no version": (f"{MATCH}=Exact", [MATCH]),
    "an unknown rule": (f"resourceVersion=1&{MATCH}=Nearly", [MATCH]),
    "exactly any version": (f"resourceVersion=0&{MATCH}=Exact", [MATCH]),
    "a rule for a next page": (f"resourceVersion=1&{MATCH}=Exact&continue=x", [MATCH]),
    "initial events of a list": ("sendInitialEvents=true", ["sendInitialEvents"]),
    "initial events without a rule": ("watch=1&sendInitialEvents=true", [MATCH]),
    "a watch that is not older than": (f"watch=1&resourceVersion=1&{MATCH}=NotOlderThan", [MATCH]),
    "a watch of exactly one version": (f"watch=1&resourceVersion=1&{MATCH}=Exact", [MATCH, MATCH]),
}


@pytest.mark.parametrize(("query", "fields"), REFUSED.values(), ids=REFUSED.keys())
async def test_options_that_do_not_go_together_are_refused(api, query, fields):
    status, answer = await api.call("GET", f"{CONFIG_MAPS}?{query}")
    assert (status, answer["reason"], answer["details"]["kind"]) == (422, "Invalid", "ListOptions")
    assert [cause["field"] for cause in answer["details"]["causes"]] == fields


async def test_a_list_may_be_newer_than_asked_for(api):
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    version = made["metadata"]["resourceVersion"]
    listed = await api.get(f"{CONFIG_MAPS}?resourceVersion={version}&{MATCH}=NotOlderThan")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]


@pytest.mark.parametrize(
    ("token", "code"),
    [("x", 400), (base64.urlsafe_b64encode(b"nothing").decode(), 400),
     (base64.urlsafe_b64encode(b"1-f:1").decode(), 410)],
    ids=["no token", "a token of another server", "a token of a page forgotten"],
)  # fmt: skip
async def test_a_continue_token_is_one_of_ours_and_not_too_old(api, token, code):
    status, _ = await api.call("GET", f"{CONFIG_MAPS}?limit=1&continue={token}")
    assert status == code


async def test_what_cannot_be_a_value_selects_nothing(api):
    status, answer = await api.call("GET", f"{CONFIG_MAPS}?labelSelector=a%3D%3D%3Db")
    assert (status, answer["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("text/html2", 406),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 200),
        ("text/html, */*;q=0.8", 200),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
    ],
)
async def test_an_answer_has_a_form_that_the_client_reads(api, accept, code):
    status, _ = await api.call("GET", CONFIG_MAPS, Accept=accept)
    assert status == code
