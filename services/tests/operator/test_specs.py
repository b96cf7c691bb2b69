"""Which specification is in force."""

from kai_operator.specs import Specs


def a(kind, name, uid=None, **spec):
    return {"kind": kind, "metadata": {"name": name, "uid": uid or f"uid-{name}"}, "spec": spec}


def nothing(_):
    """Recalled of what was before."""


def read(specs, config, *shards):
    return specs.read(config, list(shards))


def test_what_cannot_be_used_is_told_and_what_was_before_stays_in_force(build):
    specs = Specs(build.product(), nothing)
    assert read(specs, a("Config", "kai-config", maps={"x": {}})).config == {"maps": {"x": {}}}
    reading = read(specs, a("Config", "kai-config", maps={"y": {}}, binderr={}))
    assert reading.config == {"maps": {"x": {}}}
    assert reading.problems == {"uid-kai-config": ("spec.binderr is not known",)}


def test_one_shard_that_cannot_be_used_stops_no_other(build):
    reading = read(
        Specs(build.product(), nothing), a("Config", "kai-config"), a("S", "good"), a("S", "bad", argz={})
    )
    assert reading.shards.keys() == {"uid-good"}
    assert reading.problems == {"uid-bad": ("spec.argz is not known",)}


def test_a_shard_goes_on_as_it_was(build):
    specs = Specs(build.product(), nothing)
    read(specs, a("Config", "kai-config"), a("S", "blue", partitionLabelValue="blue"))
    reading = read(specs, a("Config", "kai-config"), a("S", "blue", partitionLabelValue="red", x=1))
    assert reading.shards["uid-blue"]["partitionLabelValue"] == "blue"
    assert "uid-blue" in reading.problems


def test_without_any_config_that_can_be_used_nothing_is_known_of_shards(build):
    reading = read(Specs(build.product(), nothing), a("Config", "kai-config", x=1), a("S", "blue"))
    assert reading.config is None
    assert not reading.shards
    assert reading.problems["uid-blue"] == (
        "Config kai-config cannot be used, and was not before; mend it first",
    )


def test_a_config_that_was_deleted_and_made_again_has_no_past(build):
    specs = Specs(build.product(), nothing)
    read(specs, a("Config", "kai-config", uid="1", maps={}))
    assert read(specs, a("Config", "kai-config", uid="2", x=1)).config is None


def test_of_two_shards_that_want_the_same_the_older_one_has_it(build):
    def aged(name, time):
        shard = a("S", name, partitionLabelValue="blue")
        shard["metadata"]["creationTimestamp"] = time
        return shard

    older, newer = aged("b", "2030-01-01T00:00:00Z"), aged("a", "2030-01-02T00:00:00Z")
    reading = read(Specs(build.product(), nothing), a("Config", "kai-config"), newer, older)
    assert reading.shards.keys() == {"uid-b"}
    assert reading.problems == {"uid-a": ("wants what b has",)}


def test_a_shard_that_is_given_what_another_serves_goes_on_as_it_was(build):
    specs = Specs(build.product(), nothing)
    config, red = a("Config", "kai-config"), a("S", "a", partitionLabelValue="red")
    read(specs, config, red, a("S", "b", partitionLabelValue="blue"))
    for _ in range(2):
        reading = read(specs, config, red, a("S", "b", partitionLabelValue="red"))
        served = {uid: spec["partitionLabelValue"] for uid, spec in reading.shards.items()}
        assert served == {"uid-a": "red", "uid-b": "blue"}
        assert reading.problems == {"uid-b": ("wants what a has",)}
        assert not reading.unread
    assert specs.in_force("uid-b")["spec"] == {"partitionLabelValue": "blue"}


def test_one_that_is_given_what_another_served_before_is_told_of_that(build):
    specs = Specs(build.product(), nothing)
    config, red = a("Config", "kai-config"), a("S", "a", partitionLabelValue="red")
    read(
        specs, config, red, a("S", "b", partitionLabelValue="blue"), a("S", "c", partitionLabelValue="green")
    )
    wanted = {"b": "red", "c": "blue"}
    reading = read(specs, config, red, *(a("S", name, partitionLabelValue=of) for name, of in wanted.items()))
    served = {uid: spec["partitionLabelValue"] for uid, spec in reading.shards.items()}
    assert served == {"uid-a": "red", "uid-b": "blue", "uid-c": "green"}
    assert reading.problems == {"uid-b": ("wants what a has",), "uid-c": ("wants what b has",)}


def test_of_one_whose_part_another_has_been_given_nothing_may_run(build):
    specs = Specs(build.product(), nothing)
    config, blue = a("Config", "kai-config"), a("S", "b", partitionLabelValue="blue")
    read(specs, config, a("S", "a", partitionLabelValue="red"), blue)
    reading = read(specs, config, a("S", "a", partitionLabelValue="blue"), blue)
    assert reading.shards.keys() == {"uid-a"}
    assert reading.problems == {"uid-b": ("wants what a has",)}
    assert reading.lost == {"uid-b"}
    assert not reading.unread


def test_one_of_which_nothing_is_known_is_left_alone_though_another_has_what_it_wants(build):
    specs = Specs(build.product(), nothing)
    config, red = a("Config", "kai-config"), a("S", "a", partitionLabelValue="red")
    reading = read(specs, config, red, a("S", "b", partitionLabelValue="red"))
    assert not reading.lost
    assert reading.unread


def test_what_was_written_down_is_in_force_where_what_stands_there_cannot_be_used(build):
    written = {"uid-kai-config": {"maps": {"x": {}}}, "uid-blue": {"partitionLabelValue": "blue"}}

    def recall(manifest):
        return {**manifest, "spec": written[manifest["metadata"]["uid"]]}

    specs = Specs(build.product(), recall)
    reading = read(specs, a("Config", "kai-config", x=1), a("S", "blue", y=1))
    assert reading.config == {"maps": {"x": {}}}
    assert reading.shards["uid-blue"]["partitionLabelValue"] == "blue"
    assert reading.problems.keys() == {"uid-kai-config", "uid-blue"}


def test_what_was_written_down_by_a_release_that_read_it_otherwise_is_no_help(build):
    specs = Specs(build.product(), lambda manifest: {**manifest, "spec": {"former": 1}})
    assert read(specs, a("Config", "kai-config", x=1)).config is None
