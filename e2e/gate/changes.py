"""What changed last, so that it is tested first."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

#: How many commits are looked at.
COMMITS = 20
#: How files begin that are tests on a cluster.
_TESTS = ("e2e/test_", "e2e/accounts/test_")
_COMMIT = "commit "


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths that each of the last commits has changed, the newest commit first."""

    commits: Sequence[frozenset[str]] = ()

    def age(self, beginnings: Sequence[str]) -> int:
        """How many commits have come since one changed a path that begins so; many, if none did."""
        for age, paths in enumerate(self.commits):
            if any(path.startswith(tuple(beginnings)) for path in paths):
                return age
        return COMMITS

    def end_to_end_tests(self) -> list[str]:
        """Files of end-to-end tests that changed, the newest change first."""
        found: dict[str, None] = {}
        for paths in self.commits:
            found |= dict.fromkeys(sorted(p for p in paths if p.startswith(_TESTS) and p.endswith(".py")))
        return list(found)


def recent() -> Changes:
    """What git knows of; nothing where there is no git, or no history."""
    command = ["git", "log", f"-{COMMITS}", f"--format={_COMMIT}%H", "--name-only", "--diff-filter=d"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return Changes()
    return parse(done.stdout)


def parse(log: str) -> Changes:
    """The changes in the output of ``git log --format='commit %H' --name-only``."""
    commits: list[set[str]] = []
    for line in filter(None, log.splitlines()):
        if line.startswith(_COMMIT):
            commits.append(set())
        else:
            commits[-1].add(line)
    return Changes(tuple(frozenset(paths) for paths in commits))
