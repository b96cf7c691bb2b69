"""``python -m kai_local.apiserver --listen HOST:PORT --dir DIR``: serve until SIGTERM."""

import argparse
import asyncio
import contextlib
import gc
import signal
import sys
from pathlib import Path

from kai import loading

with loading.of_a_service():
    from kai_local.apiserver.access import files
    from kai_local.apiserver.serving.server import ApiServer
    from kai_local.apiserver.store.journal import JournalError


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kai_local.apiserver", description="A Kubernetes API server for one machine."
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="address to serve on; port 0 takes a free one",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        required=True,
        help="folder for the cluster's objects, certificates and kubeconfig; a server started again goes on",
    )
    parser.add_argument("--context", default="kai-local", help="name of the context in the kubeconfig")
    parser.add_argument(
        "--san",
        action="append",
        default=[],
        metavar="NAME",
        help="further name or address of the server certificate",
    )
    parser.add_argument(
        "--server", default="", metavar="URL", help="server address to write into the kubeconfig"
    )
    parser.add_argument(
        "--authorization", choices=("always-allow", "rbac"), default="always-allow", help="who may do what"
    )
    parser.add_argument(
        "--egress",
        default="",
        metavar="HOST:PORT",
        help="proxy through which Services and kubelets are reached; none: by their endpoints",
    )
    parser.add_argument(
        "--runtime-config",
        default="",
        metavar="GROUP/VERSION=BOOL,...",
        help="versions to serve, of groups that have several: resource.k8s.io",
    )
    parser.add_argument("--watch-window", type=int, default=1024, help="past changes kept for each resource")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    host, _, port = arguments.listen.rpartition(":")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = ApiServer(
        host=host.strip("[]") or "127.0.0.1",
        port=int(port),
        names=arguments.san,
        rbac=arguments.authorization == "rbac",
        window=arguments.watch_window,
        context=arguments.context,
        folder=arguments.dir,
        egress=arguments.egress,
        runtime_config=arguments.runtime_config,
    )
    async with server:
        gc.freeze()
        folder: Path = arguments.dir
        files.write_private(folder / "ca.crt", server.authority.certificate)
        files.write_private(folder / "admin.crt", server.admin.certificate)
        files.write_private(folder / "admin.key", server.admin.key)
        files.write_private(folder / "token", server.admin_token.encode())
        server.write_kubeconfig(folder / "kubeconfig", url=arguments.server)
        machinery = server.machinery_kubeconfig(arguments.server)
        files.write_private(folder / "machinery.kubeconfig", machinery.encode())
        print(f"serving on {server.url}", flush=True)  # noqa: T201 (whoever started us reads it)
        await stop.wait()


def main() -> None:
    """Serve; the exit status is 0 after a signal, 2 for wrong flags, 1 when the address cannot be had."""
    sys.exit(_status_of(_arguments()))


def _status_of(arguments: argparse.Namespace) -> int:
    if not arguments.listen.rpartition(":")[2].isdecimal():
        print(f"--listen: {arguments.listen!r} is not HOST:PORT", file=sys.stderr)  # noqa: T201
        return 2
    try:
        arguments.dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"--dir {arguments.dir}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 1
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(arguments))
    except (JournalError, ValueError) as error:
        print(f"--dir {arguments.dir}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except OSError as error:
        flag = f"--dir {error.filename}" if error.filename else f"--listen {arguments.listen}"
        print(f"{flag}: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    main()
