import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from kai.runtime import certificates

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["admission.kai-scheduler.svc", "localhost", "127.0.0.1"]


def parsed(pem):
    return x509.load_pem_x509_certificates(pem)


def test_a_certificate_is_for_the_names_it_was_asked_for():
    authority = certificates.new_authority("test", now=NOW)
    pair = certificates.issue(authority, NAMES, now=NOW)
    assert certificates.covers(pair.certificate, NAMES)
    assert not certificates.covers(pair.certificate, [*NAMES, "other.svc"])
    parsed(pair.certificate)[0].verify_directly_issued_by(parsed(authority.certificate)[0])


def test_long_names_are_cut_in_the_subject_only():
    authority = certificates.new_authority("a" * 100, now=NOW)
    name = "queue-controller." + "n" * 60 + ".svc"
    assert certificates.covers(certificates.issue(authority, [name], now=NOW).certificate, [name])


def test_strict_clients_accept_them(tmp_path):
    """The strictest checks of OpenSSL, which newer Pythons turn on, over memory instead of a socket."""
    served = certificates.ensure(tmp_path, NAMES)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client_context = ssl.create_default_context(cadata=served.trusted.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ("IP Address", "127.0.0.1") in client.getpeercert()["subjectAltName"]


def test_a_second_look_changes_nothing(tmp_path):
    first = certificates.ensure(tmp_path, NAMES, now=NOW)
    assert certificates.ensure(tmp_path, NAMES, now=NOW + timedelta(days=200)) == first


def test_a_certificate_is_renewed_when_a_third_of_its_life_is_left(tmp_path):
    first = certificates.ensure(tmp_path, NAMES, now=NOW)
    later = certificates.ensure(tmp_path, NAMES, now=NOW + timedelta(days=250))
    assert later.pair != first.pair
    assert later.trusted == first.trusted
    assert (tmp_path / "tls.crt").read_bytes() == later.pair.certificate


def test_a_new_name_makes_a_new_certificate(tmp_path):
    certificates.ensure(tmp_path, NAMES, now=NOW)
    assert certificates.covers(
        certificates.ensure(tmp_path, [*NAMES, "::1"], now=NOW).pair.certificate, ["::1"]
    )


def test_a_new_authority_is_trusted_beside_the_old_one_long_before_it_signs_alone(tmp_path):
    now, seen = NOW, certificates.ensure(tmp_path, NAMES, now=NOW)
    for _ in range(60):
        now += timedelta(days=90)
        fresh = certificates.ensure(tmp_path, NAMES, now=now)
        issuer = parsed(fresh.pair.certificate)[0]
        known = [a for a in parsed(seen.trusted) if a.subject == issuer.issuer]
        vouched = False
        for authority in known:
            try:
                issuer.verify_directly_issued_by(authority)
                vouched = True
            except Exception:  # noqa: BLE001 - any failure means that this authority did not sign
                continue
        assert vouched, f"a client that last looked 90 days before {now} would refuse the certificate"
        assert issuer.not_valid_after_utc > now
        assert all(a.not_valid_after_utc > now for a in parsed(fresh.trusted))
        seen = fresh


def test_expired_authorities_leave_the_bundle():
    old = certificates.new_authority("old", now=NOW, lifetime=timedelta(days=1)).certificate
    new = certificates.new_authority("new", now=NOW).certificate
    assert certificates.bundle([new, old, new], now=NOW) == new + old
    assert certificates.bundle([new, old, b""], now=NOW + timedelta(days=2)) == new


@pytest.mark.parametrize("name", ["tls.key", "ca.key"])
def test_keys_are_readable_by_their_owner_alone(tmp_path, name):
    certificates.ensure(tmp_path, NAMES, now=NOW)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_certificate_of_an_unknown_authority_is_replaced(tmp_path):
    certificates.ensure(tmp_path, NAMES, now=NOW)
    stranger = certificates.issue(certificates.new_authority("x", now=NOW), NAMES, now=NOW)
    (tmp_path / "tls.crt").write_bytes(stranger.certificate)
    (tmp_path / "tls.key").write_bytes(stranger.key)
    assert certificates.ensure(tmp_path, NAMES, now=NOW).pair != stranger
