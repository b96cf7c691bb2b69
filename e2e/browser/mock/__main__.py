"""``python -m e2e.browser.mock --gpus 40000``: the page over a made-up world, to look at."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from e2e.browser.mock import stories, worlds
from e2e.browser.mock.server import Mock


async def main() -> None:
    """Serve until somebody ends it."""
    parser = argparse.ArgumentParser(prog="python -m e2e.browser.mock")
    parser.add_argument("--gpus", type=int, default=512)
    parser.add_argument("--waiting", type=int, default=60)
    parser.add_argument("--churn", type=float, default=0.5, help="seconds between two changes")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    world = worlds.make(given.gpus)
    stories.fill_queue(world, given.waiting, now=time.time())
    async with Mock(world, churn=given.churn).served(given.port) as mock:
        sys.stdout.write(f"{mock.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
