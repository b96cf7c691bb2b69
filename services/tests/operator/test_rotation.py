"""Certificates are renewed, and at each moment everybody trusts whatever anybody shows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kai.runtime import certificates
from kai.runtime.certificates import KeyPair
from kai_operator.rotation import ISSUED, NEXT_SINCE, REPLACED, Held, Terms, turn
from kai_operator.secret_data import certificate_secret, held_in

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
HOSTS = {"server-tls": "scheduler.kai.svc", "client-tls": "binder.kai.svc"}
TERMS = Terms(lifetime=DAY, renew_before=8 * HOUR, authority_lifetime=10 * DAY, settling=5 * MINUTE)


def taken(found, now, hosts=HOSTS, terms=TERMS, unwritten=None):
    return turn("grpc", hosts, found, terms=terms, now=now, unwritten=unwritten)


def locked(key):
    """The same key, for whoever knows the pass phrase."""
    return serialization.load_pem_private_key(key, password=None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )


def shown(held):
    return [pair for pair in (held.pair, held.following) if pair is not None]


@pytest.fixture(scope="module")
def first():
    return taken(dict.fromkeys(HOSTS), NOW)


def test_what_is_missing_is_made(first):
    assert first.held.keys() == HOSTS.keys()
    for name, host in HOSTS.items():
        held = first.held[name]
        assert certificates.covers(held.pair.certificate, [host])
        assert certificates.fits(held.pair)
        assert certificates.signed_by_one_of(held.pair.certificate, first.trusted)
        assert held.trusted == first.trusted
        assert held.following is None
    assert len(certificates.split(first.trusted)) == 1


def test_nothing_changes_before_it_is_due(first):
    assert taken(first.held, NOW + 15 * HOUR).held == first.held
    assert first.due <= NOW + 16 * HOUR


def test_a_renewal_is_trusted_before_it_is_shown_and_the_old_one_until_nobody_shows_it(first):
    at = NOW + 17 * HOUR
    second = taken(first.held, at)
    assert second.held["server-tls"].pair == first.held["server-tls"].pair
    assert second.held["server-tls"].following is not None
    assert len(certificates.split(second.trusted)) == 2
    assert taken(second.held, at + 4 * MINUTE).held == second.held
    assert second.due == at + 5 * MINUTE

    third = taken(second.held, second.due)
    assert third.held["server-tls"].pair == second.held["server-tls"].following
    assert third.held["server-tls"].following is None
    assert third.trusted == second.trusted

    fourth = taken(third.held, third.due)
    assert fourth.held["server-tls"].pair == third.held["server-tls"].pair
    [left] = certificates.split(fourth.trusted)
    assert certificates.signed_by_one_of(fourth.held["client-tls"].pair.certificate, left)
    assert not certificates.signed_by_one_of(first.held["client-tls"].pair.certificate, left)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda held: replace(held, pair=KeyPair(b"nonsense", held.pair.key)),
        lambda held: replace(held, pair=KeyPair(held.pair.certificate, b"nonsense")),
        lambda held: replace(held, pair=KeyPair(held.pair.certificate, locked(held.pair.key))),
        lambda held: replace(held, trusted=b""),
        lambda held: replace(held, pair=taken({"x": None}, NOW, {"x": "x.svc"}).held["x"].pair),
        lambda held: None,
    ],
    ids=["certificate", "key", "key with a pass phrase", "authority", "another name", "gone"],
)
def test_what_cannot_be_used_is_made_anew_at_once(first, spoil):
    hosts = {"server-tls": HOSTS["server-tls"]}
    spoilt = spoil(first.held["server-tls"])
    found = taken({"server-tls": spoilt}, NOW + HOUR, hosts)
    pair = found.held["server-tls"].pair
    assert pair != first.held["server-tls"].pair
    assert certificates.signed_by_one_of(pair.certificate, found.trusted)


@pytest.mark.parametrize("later", [17 * HOUR, 30 * HOUR], ids=["renewed", "ended"])
def test_what_could_not_be_written_is_issued_again(first, later):
    """Each time another one would change what everybody trusts, each time."""
    once = taken(first.held, NOW + later)
    again = taken(first.held, NOW + later + HOUR, unwritten=once.issued)
    assert once.issued.keys() == HOSTS.keys()
    assert again.issued == once.issued
    assert again.trusted == once.trusted
    # The pair in use is trusted as long as it is shown, for nobody has seen the next one.
    assert again.held["server-tls"].following == once.held["server-tls"].following


def test_what_could_not_be_written_until_it_is_to_be_renewed_is_issued_anew(first):
    once = taken(dict.fromkeys(HOSTS), NOW)
    again = taken(dict.fromkeys(HOSTS), NOW + 17 * HOUR, unwritten=once.issued)
    assert not {one.pair for one in again.issued.values()} & {one.pair for one in once.issued.values()}


def test_one_that_ended_while_nobody_looked_is_made_anew_at_once(first):
    late = taken(first.held, NOW + 3 * DAY)
    for held in late.held.values():
        assert certificates.validity(held.pair.certificate)[1] > NOW + 3 * DAY


@pytest.mark.parametrize("waited", [4 * MINUTE, 8 * HOUR], ids=["not settled", "settled"])
def test_one_that_ended_gives_way_to_the_next_which_others_know_already(first, waited):
    """The operator was away: until shortly before the end, or from the renewal to the end."""
    end = certificates.validity(first.held["server-tls"].pair.certificate)[1]
    second = taken(first.held, end - waited)
    late = taken(second.held, end)
    for name, held in late.held.items():
        assert held.pair == second.held[name].following
        assert held.following is None
    assert late.trusted == second.trusted
    assert late.due == end + 5 * MINUTE


def test_one_that_is_spoilt_gives_way_to_a_new_one_where_the_next_is_spoilt_too(first):
    second = taken(first.held, NOW + 17 * HOUR).held
    spoilt = replace(second["server-tls"], pair=KeyPair(b"", b""), following=KeyPair(b"", b""))
    third = taken({**second, "server-tls": spoilt}, NOW + 18 * HOUR)
    assert certificates.signed_by_one_of(third.held["server-tls"].pair.certificate, third.trusted)
    assert third.held["server-tls"].following is None


@pytest.mark.parametrize("since", [0, MINUTE], ids=["settled", "not settled"])
def test_a_next_one_that_cannot_be_used_is_forgotten(first, since):
    at = NOW + HOUR
    spoilt = replace(
        first.held["server-tls"],
        following=KeyPair(b"nonsense", b"nonsense"),
        following_since=int((at - since).timestamp()) if since else 1,
    )
    found = taken({**first.held, "server-tls": spoilt}, at)
    assert found.held == first.held
    assert found.due == first.due or found.due > at


def test_those_of_a_clock_that_was_ahead_are_made_anew_once_it_is_right(first):
    """Nobody else takes a certificate of tomorrow."""
    found = taken(first.held, NOW - 30 * DAY)
    for held in found.held.values():
        begin, end = certificates.validity(held.pair.certificate)
        assert begin <= NOW - 30 * DAY < end
        assert certificates.signed_by_one_of(held.pair.certificate, found.trusted)


def test_one_more_is_trusted_beside_the_others(first):
    hosts = {**HOSTS, "more-tls": "queue-controller.kai.svc"}
    found = taken({**first.held, "more-tls": None}, NOW + HOUR, hosts)
    assert found.held["server-tls"].pair == first.held["server-tls"].pair
    assert len(certificates.split(found.trusted)) == 2
    assert {held.trusted for held in found.held.values()} == {found.trusted}


def test_certificates_of_an_earlier_release_stay_until_they_are_due():
    """Ten years, of an authority whose key is gone; with names and keys as the chart made them."""
    authority = certificates.new_authority("chart", now=NOW, lifetime=3650 * DAY)
    held = {
        name: Held(
            trusted=authority.certificate,
            pair=certificates.issue(authority, [host], now=NOW, lifetime=3650 * DAY),
            issued=int(NOW.timestamp()),
        )
        for name, host in HOSTS.items()
    }
    assert taken(held, NOW + 1000 * DAY).held == held
    renewed = taken(held, NOW + 3650 * DAY - 7 * HOUR)
    assert all(one.following for one in renewed.held.values())


def test_a_secret_holds_what_was_put_into_it(first):
    second = taken(first.held, NOW + 17 * HOUR)
    third = taken(second.held, second.due)
    for held in (*first.held.values(), *second.held.values(), *third.held.values()):
        assert held_in(certificate_secret("x", "kai-scheduler", held)) == held


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "eA=="}, {"tls.crt": "%", "tls.key": "%"}])
def test_a_secret_of_which_nothing_can_be_used_holds_nothing(data):
    assert held_in({"metadata": {"name": "x"}, "data": data}) is None


@pytest.mark.parametrize("written", ["soon", "-1", "9" * 20, "9" * 5000])
def test_a_time_that_is_none_does_not_keep_a_certificate_from_being_renewed(first, written):
    second = taken(first.held, NOW + 17 * HOUR)
    secret = certificate_secret("server-tls", "kai-scheduler", second.held["server-tls"])
    secret["metadata"]["annotations"] = dict.fromkeys((ISSUED, NEXT_SINCE, REPLACED), written)
    third = taken({**second.held, "server-tls": held_in(secret)}, NOW + 18 * HOUR)
    assert third.held["server-tls"].pair == second.held["server-tls"].following


@settings(max_examples=15)
@given(
    steps=st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=3, max_size=25),
    lags=st.lists(st.integers(0, 5), min_size=4, max_size=4),
)
@example(steps=[(10, False), *[(20, False)] * 3, (20, True), (0, False)], lags=[0, 0, 0, 1])
def test_whoever_is_late_within_the_settling_time_trusts_whatever_anybody_shows(steps, lags):
    """Minutes pass, the operator may be away for some; each process reads its files up to 5 minutes late.

    It may be away until a pair is about to end, but for the time in which the next one settles.
    """
    terms = replace(TERMS, lifetime=90 * MINUTE, renew_before=45 * MINUTE, authority_lifetime=2 * HOUR)
    longest = terms.renew_before - terms.settling
    now, looked, history, found = NOW, NOW - DAY, [], dict.fromkeys(HOSTS)
    for minutes, away in steps:
        later = now + minutes * MINUTE
        if not away or later - looked > longest:
            found, looked = dict(taken(found, now, terms=terms).held), now
        history.append((now, found))
        for shower, truster in ((0, 1), (2, 3)):
            pair = seen(history, now, lags[shower])["server-tls"].pair
            trusted = seen(history, now, lags[truster])["client-tls"].trusted
            ended = certificates.validity(pair.certificate)[1] <= now
            assert ended or certificates.signed_by_one_of(pair.certificate, trusted)
        now = later


def seen(history, now, lag):
    """What a process has read that is so many minutes late."""
    known = [found for at, found in history if at <= now - lag * MINUTE]
    return known[-1] if known else history[0][1]
