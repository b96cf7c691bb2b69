"""``kai snapshot``: whose scheduler is asked where none is named by its address."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from kai.replay import archive
from kai_cli.__main__ import app
from kai_local.box.state import ClusterFiles, ClusterRecord
from kai_local.processes.records import ProcessRecord

CONTEXTS = """
apiVersion: v1
kind: Config
current-context: prod
contexts:
- {name: prod, context: {cluster: prod, user: me}}
- {name: kai-local, context: {cluster: kai-local, user: me}}
clusters:
- {name: prod, cluster: {server: "https://127.0.0.1:1"}}
- {name: kai-local, cluster: {server: "https://127.0.0.1:2"}}
users: [{name: me, user: {token: t}}]
"""


def snapshot_of(pool):
    said = {"schedulerName": "kai-scheduler", "partitionParams": {"NodePoolLabelValue": pool}}
    return archive.write(archive.Archive(config=None, params=said, raw_objects={"pods": []}, taken_at=1.0))


@pytest.fixture
def a_scheduler():
    """Serves the snapshot of a node pool; says where."""
    running = []

    def serve(pool, answer=None):
        class Scheduler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(snapshot_of(pool) if answer is None else answer)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Scheduler)
        running.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def contexts(tmp_path, monkeypatch):
    """A kubeconfig with the current context prod, and one of a cluster in a box."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "config"
    path.write_text(CONTEXTS)
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def a_box(*addresses):
    """The cluster ``local`` of this machine, with schedulers at these addresses."""
    box = ClusterFiles.of("local")
    box.make()
    programs = [
        ProcessRecord(f"scheduler-{n}", "ready", debug_address=address) for n, address in enumerate(addresses)
    ]
    box.write(ClusterRecord("local", "ready", 1.0, ProcessRecord("supervisor", "ready"), processes=programs))


def taken(tmp_path, *options, more=()):
    file = tmp_path / "snapshot.zip"
    result = CliRunner().invoke(app, [*options, "snapshot", "-o", str(file), *more])
    return result, archive.read(file.read_bytes()).params if file.exists() else None


@pytest.mark.parametrize("options", [[], ["--context", "other"], ["--kubeconfig", "{config}"]])
def test_a_cluster_on_this_machine_does_not_answer_for_another(a_scheduler, contexts, tmp_path, options):
    a_box(a_scheduler(""))
    result, params = taken(tmp_path, *(each.format(config=contexts) for each in options))
    assert (result.exit_code, params) == (1, None)
    context = "other" if "other" in options else "prod"
    assert f"context {context!r} is of no cluster of `kai local` on this machine" in result.stderr
    assert "(there are local; name one with --name)" in result.stderr
    assert "--address" in result.stderr


def test_a_kubeconfig_that_is_not_there_is_told_and_no_other_cluster_asked(a_scheduler, contexts, tmp_path):
    a_box(a_scheduler(""))
    result, params = taken(tmp_path, "--kubeconfig", str(tmp_path / "none"))
    assert (result.exit_code, params) == (1, None)
    assert result.stderr == f"kai: kubeconfig {tmp_path}/none does not exist\n"


@pytest.mark.parametrize(
    ("options", "more"),
    [(["--context", "kai-local"], []), ([], ["--name", "local"])],
    ids=["context", "name"],
)
def test_a_cluster_on_this_machine_is_asked_by_context_or_name(
    a_scheduler, contexts, tmp_path, options, more
):
    a_box(a_scheduler("pool"))
    result, params = taken(tmp_path, *options, more=more)
    assert result.exit_code == 0, result.stderr
    assert params["partitionParams"]["NodePoolLabelValue"] == "pool"


def test_the_usual_cluster_is_asked_where_no_context_is_set(a_scheduler, contexts, tmp_path):
    contexts.write_text(CONTEXTS.replace("current-context: prod\n", ""))
    a_box(a_scheduler(""))
    result, _ = taken(tmp_path)
    assert result.exit_code == 0, result.stderr


def test_of_several_schedulers_that_of_the_lease_is_asked(a_scheduler, contexts, tmp_path):
    a_box(a_scheduler("h200"), a_scheduler(""))
    for lease, pool in (("kai-scheduler-h200", "h200"), ("kai-scheduler", "")):
        result, params = taken(tmp_path, "--context=kai-local", "--scheduler-lease", lease)
        assert result.exit_code == 0, result.stderr
        assert params["partitionParams"]["NodePoolLabelValue"] == pool


def test_a_lease_that_no_scheduler_has_is_told_with_those_that_there_are(a_scheduler, contexts, tmp_path):
    a_box(a_scheduler("h200"))
    result, params = taken(tmp_path, "--context=kai-local", "--scheduler-lease", "kai-scheduler-a100")
    assert (result.exit_code, params) == (1, None)
    assert result.stderr == (
        "kai: no scheduler of cluster 'local' has Lease 'kai-scheduler-a100'; "
        "take --scheduler-lease kai-scheduler-h200\n"
    )


@pytest.fixture
def nobody():
    """Where a scheduler is to serve that does not listen yet."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize("answer", [None, b"no archive"], ids=["silent", "unreadable"])
def test_a_scheduler_that_gives_no_snapshot_hides_no_other(a_scheduler, contexts, tmp_path, nobody, answer):
    a_box(nobody if answer is None else a_scheduler("", answer=answer), a_scheduler("h200"))
    result, params = taken(tmp_path, "--context=kai-local", "--scheduler-lease", "kai-scheduler-h200")
    assert result.exit_code == 0, result.stderr
    assert params["partitionParams"]["NodePoolLabelValue"] == "h200"


def test_where_none_with_the_lease_answers_those_that_are_silent_are_told(
    a_scheduler, contexts, tmp_path, nobody
):
    a_box(nobody, a_scheduler("h200"))
    result, params = taken(tmp_path, "--context=kai-local")
    assert (result.exit_code, params) == (1, None)
    assert result.stderr.startswith(
        "kai: no scheduler of cluster 'local' that answers has Lease 'kai-scheduler'; "
        f"take --scheduler-lease kai-scheduler-h200; no scheduler answers at {nobody}: "
    )
