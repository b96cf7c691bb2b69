"""Commands of the machine, each with a deadline."""

from __future__ import annotations

import subprocess

from kai_local.errors import ClusterError

SECONDS = 30.0


def run(*command: str, seconds: float = SECONDS) -> str:
    """What a command printed.

    Raises:
        ClusterError: there is none of its name, it failed, or it was not done within ``seconds``; says which.
    """
    shown = " ".join(command)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except FileNotFoundError:
        raise ClusterError(f"there is no {command[0]} on the PATH") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{shown}` was not done within {seconds:g} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise ClusterError(f"`{shown}` failed with status {done.returncode}: {said[-1]}")
    return done.stdout
