"""The server as a process of its own."""

import asyncio
import signal
import socket
import ssl
import stat
import sys

import aiohttp
import pytest
import yaml

from deadlines import within

pytestmark = pytest.mark.integration


async def begin(*arguments):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "kai_local.apiserver",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_it_serves_what_its_kubeconfig_says_and_ends_with_status_0(tmp_path):
    process = await begin("--dir", str(tmp_path), "--context", "kai-box", "--san", "api.example.com")
    assert process.stdout is not None
    async with within("the server says where it serves"):
        line = (await process.stdout.readline()).decode()
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    url = config["clusters"][0]["cluster"]["server"]
    assert line == f"serving on {url}\n"
    assert config["current-context"] == "kai-box"
    assert stat.S_IMODE((tmp_path / "kubeconfig").stat().st_mode) == 0o600
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(tmp_path / "admin.crt", tmp_path / "admin.key")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(f"{url}/api/v1/namespaces/default") as answer:
            assert answer.status == 200
        async with session.get(f"{url}/readyz", server_hostname="api.example.com") as answer:
            assert answer.status == 200
        async with session.get(f"{url}/api/v1/pods?watch=1") as watch:
            process.send_signal(signal.SIGTERM)
            async with within("the watch ends"):
                await watch.read()
    async with within("the server ends"):
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


async def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path):
    (tmp_path / "file").touch()
    process = await begin("--dir", str(tmp_path / "file" / "below"))
    async with within("the server ends"):
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode() == f"--dir {tmp_path}/file/below: Not a directory\n"


async def test_a_file_that_cannot_be_written_is_told_as_what_it_is(tmp_path):
    (tmp_path / "token").mkdir()
    process = await begin("--dir", str(tmp_path))
    async with within("the server ends"):
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert errors.decode().startswith(f"--dir {tmp_path}/")
    assert "Is a directory" in errors.decode()
    assert len(errors.decode().splitlines()) == 1


@pytest.mark.parametrize(
    ("listen", "status", "text"),
    [("{taken}", 1, "address already in use"), ("nonsense", 2, "is not HOST:PORT")],
)
async def test_an_address_that_cannot_be_had_is_told_in_one_line(tmp_path, listen, status, text):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = listen.format(taken=f"127.0.0.1:{taken.getsockname()[1]}")
        process = await begin("--dir", str(tmp_path), "--listen", address)
        async with within("the server ends"):
            _, errors = await process.communicate()
    assert process.returncode == status
    assert text in errors.decode()
    assert len(errors.decode().splitlines()) == 1
    assert not (tmp_path / "kubeconfig").exists()
