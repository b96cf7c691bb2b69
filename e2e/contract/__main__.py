"""``python -m e2e.contract record`` asks a real API server and keeps its answers; ``check`` compares ours."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from e2e.contract import servers
from e2e.contract.compare import binding, differences
from e2e.contract.exchange import Json, Server
from e2e.contract.story import tell

ANSWERS = Path(__file__).with_name("answers.json")


async def answers_of(serving: Callable[[Path], AbstractAsyncContextManager[Path]]) -> dict[str, Json]:
    """All answers of a server of this kind."""
    with tempfile.TemporaryDirectory(prefix="kai-contract-") as folder:
        async with serving(Path(folder)) as kubeconfig, Server(kubeconfig) as server:
            await tell(server)
            return server.answers


def recorded() -> dict[str, Json]:
    """What a real API server answered."""
    answers: dict[str, Json] = json.loads(ANSWERS.read_text())
    return answers


def differing(expected: dict[str, Json], found: dict[str, Json]) -> dict[str, list[str]]:
    """The questions whose answers differ, and where."""
    both = {
        name: list(differences(binding(expected.get(name)), binding(found.get(name))))
        for name in [*expected, *(name for name in found if name not in expected)]
    }
    return {name: lines for name, lines in both.items() if lines}


def main() -> int:
    """Record, or check; the exit status is 1 when there are differences."""
    mode = sys.argv[1] if len(sys.argv) > 1 else "check"
    if mode == "record":
        found = asyncio.run(answers_of(servers.real))
        ANSWERS.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
        return 0
    expected = recorded()
    found = differing(expected, asyncio.run(answers_of(servers.embedded)))
    for name, lines in found.items():
        sys.stdout.write("\n  ".join([name, *lines]) + "\n")
    sys.stdout.write(f"{len(found)} of {len(expected)} answers differ\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
