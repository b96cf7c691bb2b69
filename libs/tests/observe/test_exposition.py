"""The text that Prometheus is given."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from kai.observe import PlainCounter, exposition, new_registry


def told(registry):
    return exposition.encode(registry).decode().splitlines()


def test_a_counter_ends_in_total_and_a_plain_one_as_it_is_called():
    registry = CollectorRegistry()
    Counter("kai_binds", "Binds", ("result",), registry=registry).labels("bound").inc(2)
    PlainCounter("kai_scheduled_by_action", "Scheduled", ("action",), registry=registry).add(3, "reclaim")
    assert told(registry) == [
        "# HELP kai_binds_total Binds",
        "# TYPE kai_binds_total counter",
        'kai_binds_total{result="bound"} 2.0',
        "# HELP kai_scheduled_by_action Scheduled",
        "# TYPE kai_scheduled_by_action counter",
        'kai_scheduled_by_action{action="reclaim"} 3.0',
    ]


@pytest.mark.parametrize(
    ("make", "kind", "name"),
    [
        (lambda registry: Counter("x_total", "", ("a",), registry=registry), "counter", "x_total"),
        (lambda registry: PlainCounter("x", "", ("a",), registry=registry), "counter", "x"),
        (lambda registry: PlainCounter("x", "", registry=registry), "counter", "x"),
        (lambda registry: Gauge("x", "", ("a",), registry=registry), "gauge", "x"),
        (lambda registry: Histogram("x", "", ("a",), registry=registry), "histogram", "x"),
    ],
)
def test_a_family_is_told_with_its_type_before_it_has_series(make, kind, name):
    registry = CollectorRegistry()
    make(registry)
    assert f"# TYPE {name} {kind}" in told(registry)


def test_a_plain_counter_without_labels_begins_at_nothing_and_adds_up():
    registry = CollectorRegistry()
    counter = PlainCounter("attempts", "Attempts", registry=registry)
    assert registry.get_sample_value("attempts") == 0
    counter.add(1)
    counter.add(2)
    assert registry.get_sample_value("attempts") == 3


def test_when_a_series_was_made_is_not_told():
    registry = CollectorRegistry()
    Counter("x", "", registry=registry).inc()
    Histogram("y", "", registry=registry).observe(1)
    assert not [line for line in told(registry) if "_created" in line]


def test_texts_and_labels_may_hold_anything():
    registry = CollectorRegistry()
    odd = 'a"b\\c\nd'
    Gauge("x", 'one\ntwo \\ "three"', ("label",), registry=registry).labels(odd).set(1)
    (family,) = text_string_to_metric_families(exposition.encode(registry).decode())
    assert family.documentation == 'one\ntwo \\ "three"'
    assert [sample.labels for sample in family.samples] == [{"label": odd}]


def test_a_whole_process_can_be_read_back():
    families = list(text_string_to_metric_families(exposition.encode(new_registry()).decode()))
    assert {"process_open_fds", "python_info"} <= {family.name for family in families}
