"""Editing a kubeconfig leaves what is not ours as it was, to the byte."""

import json
import os
from pathlib import Path

import pytest
import yaml

from kai_local.box import kubeconfig
from kai_local.box.kubeconfig import Entry, KubeconfigError

OURS = Entry(
    "kai-test", {"server": "https://127.0.0.1:1", "certificate-authority-data": "Q0E="}, {"token": "t"}
)

BLOCK = """\
# my clusters
apiVersion: v1
clusters:
- cluster:
    server: https://prod.example   # do not touch
  name: prod
contexts:
  - name: prod
    context: {cluster: prod, user: admin}
current-context: "prod"
kind: Config
preferences: {}
users:
- name: admin
  user:
    exec:
      command: login
      args: ["--now"]
# the end
"""


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        "apiVersion: v1\nkind: Config\n",
        BLOCK.replace("# the end\n", ""),
        BLOCK.replace("# the end\n", "").removesuffix("\n"),
        BLOCK.replace("\n", "\n\n"),
    ],
    ids=["comments", "no entries", "users last", "no line break at the end", "blank lines"],
)
def test_adding_and_removing_gives_back_the_same_bytes(text: str) -> None:
    added = kubeconfig.with_entry(text, OURS)
    assert yaml.safe_load(added)["users"][-1] == {"name": "kai-test", "user": {"token": "t"}}
    removed = kubeconfig.without_entry(added, "kai-test")
    assert removed.removesuffix("\n") == text.removesuffix("\n")


def test_every_line_of_the_user_survives_an_addition() -> None:
    added = kubeconfig.with_current_context(kubeconfig.with_entry(BLOCK, OURS), "kai-test")
    kept = [line for line in BLOCK.splitlines() if not line.startswith("current-context")]
    rest = iter(added.splitlines())
    assert all(any(line == other for other in rest) for line in kept)
    assert yaml.safe_load(added)["current-context"] == "kai-test"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(yaml.safe_load(BLOCK)),
        "{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: x}}]}",
        "apiVersion: v1\nclusters: []\ncontexts: null\nusers:\nkind: Config\n",
        "---\napiVersion: v1\nclusters: [{name: a, cluster: {server: x}}]\n...\n",
    ],
    ids=["json", "flow", "empty sections", "explicit document"],
)
def test_other_styles_keep_their_meaning(text: str) -> None:
    before = yaml.safe_load(text)
    added = yaml.safe_load(kubeconfig.with_entry(text, OURS))
    assert [item["name"] for item in added["clusters"]] == [
        *[item["name"] for item in before.get("clusters") or []],
        "kai-test",
    ]
    removed = yaml.safe_load(kubeconfig.without_entry(kubeconfig.with_entry(text, OURS), "kai-test"))
    assert {k: v for k, v in removed.items() if v} == {k: v for k, v in before.items() if v}


def test_an_entry_of_the_same_name_is_replaced() -> None:
    newer = Entry("kai-test", {"server": "https://127.0.0.1:2"}, {"token": "u"})
    document = yaml.safe_load(kubeconfig.with_entry(kubeconfig.with_entry(BLOCK, OURS), newer))
    assert [c["cluster"]["server"] for c in document["clusters"]] == [
        "https://prod.example",
        "https://127.0.0.1:2",
    ]


ELSEWHERE = {"name": "there", "cluster": {"server": "https://there.example"}}


@pytest.mark.parametrize(
    ("clusters", "contexts", "server"),
    [
        ([], [], ""),
        ([{"name": "kai-test", "cluster": {"server": "https://127.0.0.1:1"}}], [], ""),
        ([{"name": "kai-test", "cluster": {"server": "https://198.18.16.1:6443"}}], [], ""),
        ([{**ELSEWHERE, "name": "kai-test"}], [], "https://there.example"),
        ([ELSEWHERE], [], ""),
        ([ELSEWHERE], [{"name": "kai-test", "context": {"cluster": "there"}}], "https://there.example"),
        (
            [ELSEWHERE],
            [{"name": "x", "context": {"cluster": "there", "user": "kai-test"}}],
            "https://there.example",
        ),
        (["odd"], ["odd", {"name": "kai-test"}], ""),
    ],
    ids=["none", "a box", "real nodes", "a cluster", "another name", "a context", "a user", "odd"],
)
def test_what_bears_our_name_and_is_of_another_cluster_is_found(
    tmp_path: Path, clusters: list[object], contexts: list[object], server: str
) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts}))
    assert kubeconfig.others_server(path, "kai-test") == server
    assert kubeconfig.others_server(tmp_path / "none", "kai-test") == ""


def test_the_current_context_is_that_of_the_first_file_that_has_one(tmp_path: Path) -> None:
    none, some, absent = tmp_path / "none", tmp_path / "some", tmp_path / "absent"
    none.write_text("kind: Config\n")
    some.write_text(BLOCK)
    assert kubeconfig.current_context([absent, none, some]) == "prod"
    assert kubeconfig.current_context([absent]) == kubeconfig.current_context([none]) == ""


def test_current_context_comes_back_only_if_it_is_still_ours(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(BLOCK)
    kubeconfig.add(path, OURS)
    before = kubeconfig.use_context(path, "kai-test")
    kubeconfig.restore_context(path, "kai-test", before)
    assert yaml.safe_load(path.read_text())["current-context"] == "prod"
    kubeconfig.restore_context(path, "kai-test", "other")
    assert yaml.safe_load(path.read_text())["current-context"] == "prod"


@pytest.mark.parametrize("name", ["2024", "2024-01-01", "1e3", "yes", "0x10"])
def test_a_context_whose_name_looks_like_something_else_comes_back_by_its_name(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "config"
    path.write_text(f"contexts:\n- name: {name}\ncurrent-context: {name}\n")
    assert kubeconfig.current_context([path]) == name
    before = kubeconfig.use_context(path, "kai-test")
    assert before == name
    kubeconfig.restore_context(path, "kai-test", before)
    assert kubeconfig.current_context([path]) == name


def test_removing_a_current_context_leaves_none() -> None:
    text = kubeconfig.with_current_context(kubeconfig.with_entry(BLOCK, OURS), "kai-test")
    assert "current-context" not in yaml.safe_load(kubeconfig.without_entry(text, "kai-test"))


def test_a_file_of_ours_alone_is_private_and_vanishes_with_us(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config"
    kubeconfig.add(path, OURS)
    kubeconfig.use_context(path, "kai-test")
    assert path.stat().st_mode & 0o777 == 0o600
    kubeconfig.remove(path, "kai-test")
    assert list(path.parent.iterdir()) == []


def test_mode_and_symlink_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text(BLOCK)
    real.chmod(0o640)
    link.symlink_to(real)
    kubeconfig.add(link, OURS)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "kai-test" in real.read_text()


def test_a_lock_that_stays_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    (tmp_path / "config.lock").touch()
    monkeypatch.setattr(kubeconfig, "_LOCK_PATIENCE", 0.01)
    with pytest.raises(KubeconfigError, match=r"config\.lock"):
        kubeconfig.add(path, OURS)


@pytest.mark.parametrize("text", ["- a\n", "a: [\n"], ids=["a list", "broken"])
def test_a_file_that_is_no_kubeconfig_is_refused_untouched(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=str(path)):
        kubeconfig.add(path, OURS)
    assert path.read_text() == text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes("apiVersion: v1\n".encode("utf-16"))
    for read in (lambda: kubeconfig.current_context([path]), lambda: kubeconfig.add(path, OURS)):
        with pytest.raises(KubeconfigError, match=f"kubeconfig {path} is not UTF-8"):
            read()
    with pytest.raises(KubeconfigError, match=f"kubeconfig {tmp_path}: Is a directory"):
        kubeconfig.current_context([tmp_path])


def test_several_files_are_used_as_kubectl_does(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in "abc")
    paths = kubeconfig.search_path({"KUBECONFIG": os.pathsep.join(map(str, [first, second, third]))})
    assert kubeconfig.file_to_extend(paths) == third
    second.write_text("apiVersion: v1\nkind: Config\n")
    third.write_text("current-context: x\n")
    assert kubeconfig.file_to_extend(paths) == second
    assert kubeconfig.file_of_current_context(paths) == third
    assert kubeconfig.search_path({"HOME": str(tmp_path)}) == [tmp_path / ".kube/config"]
