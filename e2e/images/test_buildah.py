"""What earlier builds left is cleared away, unless somebody builds."""

import json
import os

import pytest

from e2e.images.buildah import Buildah

LEFT_OVER = [{"names": None}] * 5


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Makes one more user of the same store; what a program in place of Buildah was asked for."""
    program, asked = tmp_path / "buildah", tmp_path / "asked"
    program.write_text(f"#!/bin/sh\necho \"$*\" >> {asked}\necho '{json.dumps(LEFT_OVER)}'\n")
    program.chmod(0o755)
    monkeypatch.setattr("e2e.debian.installed", lambda _: program)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    def commands():
        words = (line.split() for line in asked.read_text().splitlines())
        return [" ".join(word for word in line if "=" not in word) for line in words]

    return lambda: Buildah(tmp_path / "images"), commands


def test_what_is_left_goes_with_the_containers_that_keep_it(store):
    user, commands = store
    user().forget_layers(beyond=4)
    assert commands() == ["images --all --json", "rm --all", "rmi --prune"]


def test_a_few_layers_are_kept(store):
    user, commands = store
    user().forget_layers(beyond=5)
    assert commands() == ["images --all --json"]


def test_all_are_kept_while_another_builds(store):
    user, commands = store
    other, mine = user(), user()
    mine.forget_layers(beyond=4)
    assert commands() == ["images --all --json"]
    os.close(other._lock)
    mine.forget_layers(beyond=4)
    assert commands()[-1] == "rmi --prune"
