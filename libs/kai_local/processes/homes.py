"""Where a user's files lie, as the XDG Base Directory Specification has it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from kai_local.errors import ClusterError


def home(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's home.

    Raises:
        ClusterError: the user has none.
    """
    if told := environment.get("HOME"):
        return Path(told)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise ClusterError(f"user {os.getuid()} has no home: say with HOME where files are to lie") from None


def folder(variable: str, default: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder that a variable of the specification names; ``default`` is where it lies in a home.

    A path that is not absolute is to be ignored: in another folder it would be another one.

    Raises:
        ClusterError: it would lie in a home, and there is none.
    """
    told = Path(environment.get(variable, ""))
    return told if told.is_absolute() else home(environment) / default
