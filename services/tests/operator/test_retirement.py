"""For how long a Prometheus stays that nobody asks for any more, and a volume that holds a past."""

from datetime import UTC, datetime, timedelta

import pytest

from kai.model.names import RETENTION
from kai_operator.bodies import RETIRED
from kai_operator.kinds import ref_of
from kai_operator.retirement import kept

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SINCE = "2026-04-30T12:00:00Z"


@pytest.fixture
def a_prometheus(build):
    def make(name="prometheus", *, since=None, retention="2w"):
        annotations = {RETIRED: since} if since else None
        spec = {"serviceAccountName": name} | ({"retention": retention} if retention else {})
        made = build.manifest(
            "Prometheus",
            name,
            api_version="monitoring.coreos.com/v1",
            annotations=annotations,
            spec=spec,
        )
        return build.live(made, status={"replicas": 1})

    return make


def stamps(found):
    return {each["metadata"]["name"]: each["metadata"]["annotations"][RETIRED] for each in found.objects}


def test_when_it_was_switched_off_is_written_on_it(a_prometheus):
    found = kept([a_prometheus()], [], now=NOW)
    assert stamps(found) == {"prometheus": "2026-05-01T12:00:00Z"}
    assert found.due == NOW + timedelta(days=14)
    (note,) = found.notes
    assert note == (
        "Prometheus kai-scheduler/prometheus is switched off, and kept with what it scraped until "
        "2026-05-15T12:00:00Z"
    )
    (manifest,) = found.objects
    assert "status" not in manifest
    assert "resourceVersion" not in manifest["metadata"]


@pytest.mark.parametrize(
    ("since", "retention", "until"),
    [
        (SINCE, "2d", datetime(2026, 5, 2, 12, tzinfo=UTC)),
        ("2026-04-30T14:00:00+02:00", "2d", datetime(2026, 5, 2, 12, tzinfo=UTC)),
        (SINCE, "1d12h", datetime(2026, 5, 2, tzinfo=UTC)),
        (SINCE, None, datetime(2026, 5, 30, 12, tzinfo=UTC)),
        (SINCE, "for ever", datetime(2026, 5, 30, 12, tzinfo=UTC)),
        ("yesterday", "2d", NOW + timedelta(days=2)),
        ("2027-04-30T12:00:00Z", "2d", NOW + timedelta(days=2)),
        ("9999-12-31T00:00:00Z", "2d", NOW + timedelta(days=2)),
        (SINCE, "1d", None),
        (SINCE, "1h", None),
    ],
)
def test_it_stays_as_long_after_that_as_it_keeps_what_it_scraped(a_prometheus, since, retention, until):
    found = kept([a_prometheus(since=since, retention=retention)], [], now=NOW)
    assert found.due == until
    assert len(found.objects) == (until is not None)


def test_what_is_wanted_or_on_its_way_out_is_nobody_s_matter_here(a_prometheus):
    live = a_prometheus()
    assert kept([live], [live], now=NOW).objects == []
    live["metadata"]["deletionTimestamp"] = SINCE
    assert kept([live], [], now=NOW).objects == []


def test_it_keeps_its_account_and_its_service_and_no_others(a_prometheus, build):
    reached = build.service("usage-prometheus")
    reached["spec"]["selector"] = {"prometheus": "prometheus"}
    near = [build.live(build.account("prometheus")), build.live(reached)]
    others = [build.live(build.account("binder")), build.live(build.service("admission"))]
    found = kept([a_prometheus(), *near, *others], [], now=NOW)
    assert {ref_of(each) for each in found.objects} == {ref_of(each) for each in [a_prometheus(), *near]}


def test_the_one_of_an_earlier_name_stays_beside_the_new_one(a_prometheus):
    found = kept([a_prometheus("before"), a_prometheus()], [a_prometheus()], now=NOW)
    assert stamps(found) == {"before": "2026-05-01T12:00:00Z"}


@pytest.fixture
def a_volume(build):
    def make(name="kai-insight", **annotations):
        made = build.manifest("PersistentVolumeClaim", name, annotations=annotations)
        return build.live({**made, "spec": {"volumeName": "pv-1"}})

    return make


def test_a_volume_is_kept_as_long_as_what_is_on_it_is_worth_something(a_volume):
    found = kept([a_volume(**{RETENTION: "2d"})], [], now=NOW)
    assert stamps(found) == {"kai-insight": "2026-05-01T12:00:00Z"}
    assert found.due == NOW + timedelta(days=2)
    (note,) = found.notes
    assert note == (
        "PersistentVolumeClaim kai-scheduler/kai-insight is switched off, and kept with what is on it until "
        "2026-05-03T12:00:00Z"
    )
    assert found.objects[0]["spec"] == {"volumeName": "pv-1"}
    later = kept([a_volume(**{RETENTION: "2d", RETIRED: SINCE})], [], now=NOW + timedelta(days=1))
    assert later.objects == []


def test_a_volume_that_says_nothing_of_that_goes_at_once(a_volume):
    assert kept([a_volume("kai-redis")], [], now=NOW).objects == []
