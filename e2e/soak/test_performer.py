"""What is asked of kubectl is what kubectl takes."""

import json

from e2e.soak.actions import Action, Change
from e2e.soak.journal import Clock, Journal
from e2e.soak.performer import Performer
from kai.kube import resources

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}}


class Discovering:
    """A client that knows queues."""

    async def discover(self, api_version, kind):
        return resources.QUEUES


async def test_a_patch_by_hand_is_json_as_kubectl_reads_no_yaml_that_begins_with_a_brace(
    tmp_path, monkeypatch
):
    asked = tmp_path / "asked"
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {asked}\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    journal, patch = Journal(), {"spec": {"resources": {"cpu": {"limit": 500}}}}
    performer = Performer(Discovering(), tmp_path / "kubeconfig", None, journal=journal, clock=Clock())
    await performer.perform(Action(0.0, "limit changed", Change(QUEUE, patch, kubectl=True)))
    assert journal.entries[0].outcome == "done"
    assert json.loads(asked.read_text().splitlines()[-1]) == patch
