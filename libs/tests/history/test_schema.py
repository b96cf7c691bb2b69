"""A store becomes one of this version, or is left alone."""

import ssl
from datetime import UTC, datetime

import pytest

from kai.history.addresses import open_database
from kai.history.errors import InvalidUrl, SchemaTooNew, StoreUnavailable
from kai.history.records import RECORDS, columns
from kai.history.schema import MIGRATIONS, migrate
from kai.runtime.certificates import new_authority

FIRST = ("CREATE TABLE kai_things (name TEXT PRIMARY KEY)",)
SECOND = ("ALTER TABLE kai_things ADD COLUMN size BIGINT NOT NULL DEFAULT 1",)
BROKEN = (
    "ALTER TABLE kai_things ADD COLUMN weight BIGINT NOT NULL DEFAULT 1",
    "ALTER TABLE kai_nothing ADD COLUMN x TEXT",
)


def test_a_new_store_has_a_column_for_each_field(database):
    assert migrate(database) == 0
    for kind in RECORDS:
        found = database.read(
            lambda transaction, table=kind.table: transaction.rows(f"SELECT * FROM {table}")
        )
        assert found == []
        names = ", ".join(columns(kind))
        database.read(
            lambda transaction, names=names, table=kind.table: transaction.rows(
                f"SELECT {names} FROM {table}"
            )
        )


def test_a_store_of_this_version_stays_as_it_is(database):
    migrate(database)
    assert migrate(database) == len(MIGRATIONS)


def test_an_older_store_keeps_what_it_has(database):
    migrate(database, [FIRST])
    database.write(lambda transaction: transaction.execute("INSERT INTO kai_things VALUES (?)", ("a",)))
    assert migrate(database, [FIRST, SECOND]) == 1
    assert database.read(lambda transaction: transaction.rows("SELECT * FROM kai_things")) == [("a", 1)]


def test_a_step_that_fails_leaves_the_store_as_it_was(database):
    migrate(database, [FIRST])
    with pytest.raises(StoreUnavailable):
        migrate(database, [FIRST, BROKEN])
    assert migrate(database, [FIRST, SECOND]) == 1
    database.write(lambda transaction: transaction.execute("INSERT INTO kai_things VALUES (?, ?)", ("a", 2)))


def test_a_store_of_a_newer_version_is_left_alone(database):
    migrate(database, [FIRST, SECOND])
    with pytest.raises(SchemaTooNew, match="has version 2, and this kai knows 1"):
        migrate(database, [FIRST])


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "write sqlite:///PATH or postgresql://"),
        ("mysql://a@b/c", "write sqlite:///PATH or postgresql://"),
        ("sqlite://history.db", "four slashes for an absolute one"),
        ("sqlite:///", "four slashes"),
        ("sqlite:///a.db?mode=ro", "four slashes"),
        ("postgresql://host/name", "USER is missing"),
        ("postgresql://kai@host", "NAME is missing"),
        ("postgresql://kai@/name", "HOST is missing"),
        ("postgresql://kai@host:x/name", "cannot be read"),
        ("postgresql://kai@host/name?sslmode=prefer", "sslmode=prefer is not known"),
        ("postgresql://kai@host/name?timeout=3", "timeout is not known"),
        ("postgresql://kai@host/name?sslrootcert=/nonexistent", "sslrootcert=/nonexistent"),
    ],
)
def test_an_address_that_cannot_be_one_is_told(url, told):
    with pytest.raises(InvalidUrl, match=told):
        open_database(url)


@pytest.mark.parametrize("between", ["/", "#", "?", "[", "℀"])
@pytest.mark.parametrize("first", ["secret", "12"])
def test_a_password_that_no_address_can_hold_is_not_told_but_how_to_write_it(first, between):
    with pytest.raises(InvalidUrl) as refused:
        open_database(f"postgresql://kai:{first}{between}rest@host:5432/name")
    assert first not in str(refused.value)
    assert "rest" not in str(refused.value)
    assert "# as %23" in str(refused.value)


def test_a_file_whose_name_would_be_cut_off_is_not_taken_for_another():
    with pytest.raises(InvalidUrl, match="# as %23"):
        open_database("sqlite:////data/a#b.db")


def test_a_server_has_to_show_who_it_is_unless_less_is_asked_for():
    from kai.history.postgresql import PostgresqlDriver

    def context(**options):
        parts = {"host": "h", "port": None, "database": "d", "user": "u", "password": ""}
        return PostgresqlDriver.of(**parts, options=options).tls()

    assert context().check_hostname
    assert context(sslmode="verify-ca").verify_mode is ssl.CERT_REQUIRED
    assert context(sslmode="require").verify_mode is ssl.CERT_NONE
    assert context(sslmode="disable") is None


def test_each_connection_trusts_the_authority_that_is_in_its_file_by_then(monkeypatch, tmp_path):
    import pg8000.dbapi

    contexts = []

    def refused(*, ssl_context, **_):
        contexts.append(ssl_context)
        raise pg8000.dbapi.InterfaceError("no server here")

    monkeypatch.setattr(pg8000.dbapi, "connect", refused)
    file = tmp_path / "ca.crt"
    made = [new_authority(name, now=datetime.now(UTC)).certificate for name in ("first", "second")]
    file.write_bytes(made[0])
    database = open_database(f"postgresql://kai@host/name?sslrootcert={file}")
    for authority in made:
        file.write_bytes(authority)
        with pytest.raises(StoreUnavailable, match="no server here"):
            database.size()
    trusted = [context.get_ca_certs(binary_form=True) for context in contexts]
    assert trusted == [[ssl.PEM_cert_to_DER_cert(authority.decode())] for authority in made]
    for spoil in (lambda: file.write_text("none"), file.unlink):  # as while a Secret is changed
        spoil()
        with pytest.raises(StoreUnavailable, match=f"name at host:5432: sslrootcert={file}: "):
            database.size()
