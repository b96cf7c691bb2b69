"""A Redis behind a password and TLS, and what those are told who do not get in."""

import asyncio
import os
import ssl
import stat
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry

from deadlines import eventually, within
from kai.runtime import certificates
from kai.session.cache import Publication, SessionCache
from kai.session.credentials import RedisCredentials
from kai.session.errors import CacheUnavailable
from kai.session.gate import ensure_password
from kai.session.publisher import PublisherMetrics, SessionPublisher
from kai_local.processes.identity import ProcessIdentity
from kai_local.processes.ports import free_ports

pytestmark = pytest.mark.integration

NAME = "kai-redis"
PASSWORD = 'pass "word" \\ with #everything'


class Redis:
    """A Redis that is served by a process of its own."""

    def __init__(self, process, port, folder):
        self.process = process
        self.port = port
        self.folder = folder

    def url(self, scheme="rediss", more=""):
        return f"{scheme}://{more}127.0.0.1:{self.port}/0"

    @property
    def credentials(self):
        return RedisCredentials(
            ca=str(self.folder / "ca.crt"), server_name=NAME, password_file=str(self.folder / "password")
        )

    def cache(self, url=None, **differing):
        told = {name: getattr(self.credentials, name) for name in ("ca", "server_name", "password_file")}
        credentials = RedisCredentials(**{**told, **differing})
        return SessionCache.connect(url or self.url(), shard="default", credentials=credentials)


@asynccontextmanager
async def serving(folder, *flags, port=None):
    port = port or free_ports(1)[0]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kai.session", "--listen", f"127.0.0.1:{port}"),
        *("--password-file", str(folder / "password"), *flags),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )

    async def settled():
        return process.returncode is not None or await listens(port)

    try:
        await eventually(settled)
        yield Redis(process, port, folder)
    finally:
        if process.returncode is None:
            process.terminate()
        async with within("the end of Redis"):
            await process.communicate()


async def listens(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def tls(folder):
    return ("--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    authority = certificates.ensure(tmp_path, [NAME]).trusted
    (tmp_path / "ca.crt").write_bytes(authority)
    return tmp_path


@pytest.fixture
async def redis(folder):
    async with serving(folder, *tls(folder)) as redis:
        yield redis


async def refusal(cache):
    """What is told when it cannot be used."""
    async with cache as refused:
        with pytest.raises(CacheUnavailable) as raised:
            await refused.ping()
    return str(raised.value)


# --- who gets in -------------------------------------------------------------------------------
async def test_those_with_the_password_who_trust_its_authority_get_in_without_a_warning(redis, caplog):
    async with redis.cache() as cache:
        await cache.publish(Publication(version=1, epoch=1, opened_at=0.0, snapshot=b"s" * 3_000_000))
        assert len(await cache.snapshot(1)) == 3_000_000
    assert caplog.messages == []


async def test_without_the_password_nobody_gets_in_and_is_told_how(redis):
    told = await refusal(redis.cache(password_file=""))
    assert "--redis-password-file" in told
    assert "authenticate" in told


async def test_a_wrong_password_is_told_as_such_but_not_repeated(redis, tmp_path):
    (tmp_path / "wrong").write_text("guess")
    told = await refusal(redis.cache(password_file=str(tmp_path / "wrong")))
    assert "--redis-password-file" in told
    assert "guess" not in told


async def test_a_password_file_that_is_not_there_is_named(redis):
    told = await refusal(redis.cache(password_file="/nowhere/password"))
    assert "/nowhere/password cannot be read: No such file" in told


async def test_another_authority_is_refused_with_the_flag_to_look_at(redis, tmp_path):
    other = tmp_path / "other"
    (tmp_path / "other.crt").write_bytes(certificates.ensure(other, [NAME]).trusted)
    told = await refusal(redis.cache(ca=str(tmp_path / "other.crt")))
    assert "--redis-ca must hold the authority" in told


async def test_an_authority_that_is_not_there_is_named(redis):
    assert "/nowhere/ca.crt cannot be read" in await refusal(redis.cache(ca="/nowhere/ca.crt"))


async def test_a_certificate_of_another_name_is_refused(redis):
    """Whoever else has a certificate of our authority is not Redis."""
    assert "--redis-server-name" in await refusal(redis.cache(server_name="scheduler"))


async def test_plain_text_is_refused_with_what_to_write(redis):
    told = await refusal(redis.cache(redis.url("redis"), ca="", server_name=""))
    assert "write rediss://" in told


async def test_tls_to_a_redis_without_is_told_what_to_write(folder):
    async with serving(folder) as plain:
        assert "write redis://" in await refusal(plain.cache())
        async with plain.cache(plain.url("redis"), ca="", server_name="") as cache:
            await cache.ping()


async def test_old_tls_is_refused(redis):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", redis.port, ssl=context)


# --- what others see ---------------------------------------------------------------------------
async def test_the_password_is_on_no_command_line_and_in_no_environment(redis):
    process = psutil.Process(redis.process.pid)
    family = [process, *process.children(recursive=True)]
    assert len(family) == 2
    for one in family:
        assert PASSWORD not in " ".join(one.cmdline())
        assert PASSWORD not in " ".join(one.environ().values())


async def test_only_the_gate_listens_on_the_network(redis):
    process = psutil.Process(redis.process.pid)
    ports = [
        connection.laddr.port
        for one in (process, *process.children(recursive=True))
        for connection in one.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert ports == [redis.port]


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
async def test_who_is_gone_without_a_word_is_found_out(redis):
    """The kernel asks a client now and then whether it is there: its place is one of few."""

    def asks():
        """Whether a timer for that runs on each connection that was accepted."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        established = [line for line in lines if line[1].endswith(f":{redis.port:04X}") and line[3] == "01"]
        return bool(established) and all(line[5].startswith("02:") for line in established)

    async with redis.cache() as cache:
        await cache.ping()
        await eventually(asks, what="a timer")


def test_a_password_that_is_made_is_kept_and_for_us_alone(tmp_path):
    path = tmp_path / "password"
    ensure_password(path)
    made = path.read_text()
    assert len(made.strip()) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ensure_password(path)
    assert path.read_text() == made


# --- life --------------------------------------------------------------------------------------
async def test_it_ends_with_its_redis_and_its_redis_with_it(folder):
    async with serving(folder, *tls(folder)) as redis:
        (child,) = psutil.Process(redis.process.pid).children()
        child.kill()
        async with within("the end of the gate"):
            _, said = await redis.process.communicate()
        assert redis.process.returncode == 1
        assert b"redis-server has ended" in said
    async with serving(folder, *tls(folder)) as redis:
        (child,) = psutil.Process(redis.process.pid).children()
        redis.process.terminate()
        async with within("the end of both"):
            assert await redis.process.wait() == 0
        assert not child.is_running()


async def test_it_ends_without_an_error_though_somebody_is_connected(folder):
    async with serving(folder, *tls(folder)) as redis, redis.cache() as cache:
        await cache.ping()
        redis.process.terminate()
        async with within("the end of Redis"):
            _, said = await redis.process.communicate()
    assert b"Traceback" not in said


async def test_its_redis_does_not_outlive_it_though_it_is_killed(folder):
    async with serving(folder, *tls(folder)) as redis:
        (child,) = psutil.Process(redis.process.pid).children()
        served = ProcessIdentity.of(child.pid)
        assert served is not None
        redis.process.kill()
        await eventually(lambda: not served.alive)


async def test_it_keeps_what_it_is_told_though_the_folders_have_longer_names_than_a_socket(
    folder, monkeypatch
):
    deep = folder / "/".join(["a-folder-of-this-name"] * 6)
    (deep / "data").mkdir(parents=True)
    (deep / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(deep / "tmp"))
    async with serving(folder, *tls(folder), "--data", str(deep / "data")) as redis, redis.cache() as cache:
        await cache.publish(Publication(version=7, epoch=1, opened_at=0.0, snapshot=b"kept"))
        assert await cache.snapshot(7) == b"kept"


async def test_what_it_was_told_to_keep_survives_it_though_it_is_killed(folder):
    data = folder / "data"
    data.mkdir()
    keep = ("--data", str(data))
    told = b"a snapshot of this test alone"  # the file has our script, too, in which every short word stands

    def written_down():  # Redis takes a second for it, and longer where a disk is busy
        return any(told in file.read_bytes() for file in data.rglob("*") if file.is_file())

    async with serving(folder, *tls(folder), *keep) as redis:
        async with redis.cache() as cache:
            await cache.publish(Publication(version=7, epoch=1, opened_at=0.0, snapshot=told))
        await eventually(written_down)
        redis.process.kill()
        async with within("its end"):
            await redis.process.wait()
    async with serving(folder, *tls(folder), *keep) as redis, redis.cache() as cache:
        assert await cache.snapshot(7) == told


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--data", "/nowhere"), "--data /nowhere is no folder that we may write to"),
        (("--password-file", "/nowhere/password"), "--password-file /nowhere/password cannot be read"),
        (("--password-file", os.devnull), "is empty: put a password into it"),
        (("--tls-cert", "/nowhere/crt", "--tls-key", "/nowhere/key"), "--tls-cert /nowhere/crt"),
        (("--tls-cert", "/nowhere/crt"), "--tls-key go together"),
        (("--listen", "here"), "write host:port"),
        (("--listen", "192.0.2.1:6379"), "cannot listen on 192.0.2.1:6379"),
        (("--max-memory", "much"), "redis-server has ended"),
    ],
)
async def test_what_cannot_be_served_is_told_in_one_line(folder, flags, said):
    async with serving(folder, *flags) as redis, within("its refusal"):
        _, told = await redis.process.communicate()
    assert redis.process.returncode in (1, 2)
    assert said in told.decode()
    assert b"Traceback" not in told


async def test_work_goes_on_without_it_and_goes_back_to_it_with_a_new_password(folder):
    """As after an upgrade that made another Secret: nobody has to be restarted."""
    async with serving(folder, *tls(folder)) as redis:
        port = redis.port
        async with redis.cache() as cache:
            registry = CollectorRegistry()
            metrics = PublisherMetrics(registry, namespace="t")
            publisher = SessionPublisher(cache, metrics=metrics, failed=[].append)
            running = asyncio.create_task(publisher.run())
            publisher.offer(Publication(version=1, epoch=1, opened_at=0.0))
            await eventually(lambda: metrics.published._value.get() == 1)
            redis.process.terminate()
            await redis.process.wait()
            publisher.offer(Publication(version=2, epoch=1, opened_at=0.0))
            await eventually(lambda: registry.get_sample_value("t_session_cache_up") == 0)
            (folder / "password").write_text("another")
            async with serving(folder, *tls(folder), port=port):
                await eventually(lambda: metrics.published._value.get() == 2)
            running.cancel()


# --- what is told wrongly ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("url", "credentials", "said"),
    [
        ("redis://h/0", RedisCredentials(ca="/ca.crt"), "write rediss://"),
        ("redis://h/0", RedisCredentials(server_name="x"), "write rediss://"),
        ("rediss://u:p@h/0", RedisCredentials(password_file="/p"), "leave one of them out"),
    ],
)
def test_what_does_not_go_together_is_refused(url, credentials, said):
    with pytest.raises(ValueError, match=said):
        credentials.check(url)
