"""``python -m kai.session``: the Redis of an installation. See :mod:`kai.session.gate`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from kai import loading

with loading.of_a_service():
    from kai.session.errors import SessionCacheError
    from kai.session.gate import Gate, ensure_password, serve
    from kai.session.server import FSYNC


def arguments() -> argparse.ArgumentParser:
    """What one may say on the command line."""
    parser = argparse.ArgumentParser(prog="python -m kai.session", description=__doc__)
    parser.add_argument("--listen", default=":6379", metavar="HOST:PORT", help="empty host: all interfaces")
    parser.add_argument("--password-file", type=Path, required=True, help="holds the password")
    parser.add_argument("--make-password", action="store_true", help="make one if the file is not there")
    parser.add_argument("--tls-cert", type=Path, help="our certificate; without, it is plain text")
    parser.add_argument("--tls-key", type=Path, help="its key")
    parser.add_argument("--max-memory", default="256mb", help="what is more is refused")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep what is told there over restarts; else nowhere"
    )
    parser.add_argument(
        "--fsync", choices=FSYNC, default="everysec", help="with --data: when what is told gets to the disk"
    )
    return parser


def main() -> None:
    """Serve until told to stop; what fails is told in one line, with status 1."""
    parser = arguments()
    options = parser.parse_args()
    host, _, port = options.listen.rpartition(":")
    if not port.isdecimal():
        parser.error(f"--listen {options.listen}: write host:port or :port")
    if (options.tls_cert is None) != (options.tls_key is None):
        parser.error("--tls-cert and --tls-key go together: give both or none")
    gate = Gate(
        host=host,
        port=int(port),
        password_file=options.password_file,
        certificate=options.tls_cert and options.tls_cert.absolute(),
        key=options.tls_key and options.tls_key.absolute(),
        max_memory=options.max_memory,
        data=options.data and options.data.absolute(),
        fsync=options.fsync,
    )
    try:
        if options.make_password:
            ensure_password(gate.password_file)
        asyncio.run(serve(gate))
    except (SessionCacheError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
