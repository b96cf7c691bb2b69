"""Settings of a service: flags, then environment, then file, then defaults.

A field ``schedule_period`` is the flag ``--schedule-period``, the variable ``KAI_SCHEDULE_PERIOD``
and the key ``schedule_period`` (or ``schedule-period``) of the YAML file given with ``--config``.
What is invalid or unknown ends the process with status 2 and one line that names the place.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from kai.kube.pace import Pace
from kai.model import documents, flag_rules, flag_values, names
from kai.model.flag_values import Duration, Listen, LogLevel, Number
from kai.observe import LogLevels, ObserveSettings
from kai.runtime import environment, flags


class SettingsError(Exception):
    """A setting is invalid or unknown; the message names it and says what is allowed."""


class ServiceSettings(BaseSettings):
    """What every service can be told. Subclasses add fields, and flags under other names."""

    model_config = SettingsConfigDict(env_prefix="KAI_", extra="forbid", frozen=True, env_ignore_empty=True)

    #: Flag name -> field, for flags not named like their field. Where several are given for one field that
    #: which is named like it counts, else the last in this order.
    flag_names: ClassVar[dict[str, str]] = {
        "metrics-bind-address": "metrics_listen",
        "metrics-listen-address": "metrics_listen",
        "listen-address": "metrics_listen",
        "health-probe-bind-address": "health_listen",
        "v": "log_level",
        "zap-log-level": "log_level",
        "zap-devel": "log_json",
        "zap-encoder": "log_json",
    }
    #: What a flag's value means to its field, for flags that say it in other words.
    flag_values: ClassVar[dict[str, Callable[[str], str]]] = {
        "zap-log-level": flag_values.zap_level,
        "zap-devel": flag_values.zap_devel,
        "zap-encoder": flag_values.zap_encoder,
    }
    #: Flags that are understood and have no effect here.
    ignored_flags: ClassVar[frozenset[str]] = frozenset(
        {
            "rate-limiter-base-delay", "rate-limiter-max-delay",
            "zap-stacktrace-level", "zap-time-encoding", "feature-gates", "log-flush-frequency",
            "skip-controller-name-validation",
        }
    )  # fmt: skip
    #: Those of them, here or in a subclass, that are switches: they may be written without a value.
    ignored_switches: ClassVar[frozenset[str]] = frozenset(
        {"skip-controller-name-validation", "version", "fake-gpu-nodes"}
    )

    kubeconfig: str = Field(
        "", description="kubeconfig file; default KUBECONFIG, ~/.kube/config or the pod's service account"
    )
    context: str = Field("", description="context of the kubeconfig; default its current one")
    namespace: str = Field(names.NAMESPACE, description="namespace of the installation (Leases)")
    scheduler_name: str = Field(
        names.SCHEDULER_NAME, description="spec.schedulerName of the pods that are ours"
    )
    log_level: LogLevel = Field(
        "info",
        description="debug, info, warning or error; for parts of the program also PART=LEVEL, as in "
        "info,kai.kube=debug. Can be changed at /debug/log-level",
    )
    log_json: bool | None = Field(None, description="log JSON; default unless stderr is a terminal")
    health_listen: Listen = Field(":8081", description="host:port of /healthz and /readyz")
    metrics_listen: Listen = Field(":8080", description="host:port of /metrics; may equal that of health")
    enable_profiler: bool = Field(False, description="serve /debug/profile on 127.0.0.1")
    profiler_port: int = Field(8182, ge=0, le=65535, description="port of profiles; 0 takes any free one")
    leader_elect: bool = Field(False, description="let only one of several replicas work")
    qps: Number = Field(0.0, ge=0, description="requests a second to the API server; 0: no bound")
    burst: int = Field(0, ge=0, description="requests at once after a rest; only with --qps")
    lease_duration: Duration = Field(
        flag_rules.LEASE_DURATION, gt=0, description="how long leadership lasts without renewal"
    )
    lease_renew_deadline: Duration = Field(
        flag_rules.LEASE_RENEW_DEADLINE, gt=0, description="how long renewal may fail"
    )
    lease_retry_period: Duration = Field(
        flag_rules.LEASE_RETRY_PERIOD, gt=0, description="time between renewals"
    )
    connect_timeout: Duration = Field(
        30.0, ge=0, description="how long to wait for an API server at the start"
    )
    drain_timeout: Duration = Field(
        flag_rules.DRAIN_TIMEOUT, ge=0, description="time to finish work after SIGTERM"
    )

    #: Flags and variables given that have no effect, for a warning in the log.
    _ignored: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _leases_outlast_their_renewal(self) -> Self:
        flag_rules.leases_outlast_their_renewal(
            lease=self.lease_duration, deadline=self.lease_renew_deadline, retry=self.lease_retry_period
        )
        return self

    @model_validator(mode="after")
    def _a_burst_is_of_something(self) -> Self:
        flag_rules.a_burst_is_of_something(burst=self.burst, qps=self.qps)
        return self

    @property
    def pace(self) -> Pace | None:
        """How many requests may be sent to the API server; None for no bound."""
        return Pace(self.qps, self.burst or math.ceil(self.qps)) if self.qps else None

    @property
    def observe(self) -> ObserveSettings:
        """How to log."""
        return ObserveSettings(levels=LogLevels.parse(self.log_level), json=self.log_json)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Flags and variables that were given and have no effect."""
        return self._ignored

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what we were given and the environment; the file is read by :meth:`parse`."""
        return init_settings, env_settings

    @classmethod
    def load(cls, argv: list[str] | None = None) -> Self:
        """The settings of this process. Prints and ends with 2 on what is invalid, with 0 on ``--help``."""
        arguments = sys.argv[1:] if argv is None else argv
        if any(argument in ("--help", "-help", "-h") for argument in arguments):
            sys.stdout.write(cls.help())
            raise SystemExit(0)
        try:
            settings = cls.parse(arguments)
            settings.check()
        except SettingsError as error:
            _refuse(error)
        return settings

    def check(self) -> None:
        """Look at what settings refer to, such as files; a service overrides it.

        Raises:
            SettingsError: something of it cannot be used.
        """

    @classmethod
    def parse(cls, arguments: list[str]) -> Self:
        """The settings from these arguments, the environment and the file.

        Raises:
            SettingsError: something is invalid or unknown.
        """
        given, path, ignored = cls._read_flags(arguments)
        from_file = cls._read_file(path) if path else {}
        # The environment stands between file and flags, so the file fills only what it leaves open.
        open_fields = {
            key: value for key, value in from_file.items() if not os.environ.get(f"KAI_{key.upper()}")
        }
        for problem in environment.unknown(os.environ, cls.model_fields):
            raise SettingsError(problem)
        try:
            settings = cls(**{**open_fields, **given})
        except ValidationError as error:
            raise SettingsError(cls._explain(error, given, from_file, path)) from None
        settings._ignored = (*ignored, *environment.without_effect(os.environ))
        return settings

    @classmethod
    def help(cls) -> str:
        """All flags with their defaults."""
        lines = [
            "Every flag is an environment variable KAI_<NAME> and a key of the --config file as well.",
            "",
        ]
        lines.append("  --config FILE\n        YAML file with settings")
        for field, info in sorted(cls.model_fields.items()):
            shown = info.get_default(call_default_factory=True)
            default = "" if shown in (None, "", {}, []) else f" (default {shown})"
            others = sorted(
                name for name, of in cls._flag_fields().items() if of == field and name != _flag(field)
            )
            also = f" (also {', '.join(f'--{name}' for name in others)})" if others else ""
            lines.append(f"  --{_flag(field)}{also}\n        {info.description or ''}{default}")
        return "\n".join(lines) + "\n"

    @classmethod
    def known_flags(cls) -> set[str]:
        """All flags that are understood, those without effect included."""
        return {*cls._flag_fields(), *cls._ignored_flags(), "config"}

    @classmethod
    def flag_kinds(cls) -> dict[str, str]:
        """What each of them takes, for :func:`kai.model.flag_values.read`; nothing if it has no effect."""
        kinds = {
            flag: flag_values.kind_of(cls.model_fields[field]) for flag, field in cls._flag_fields().items()
        }
        kinds |= {flag: flag for flag in cls.flag_values}
        return {flag: kinds.get(flag, "") for flag in cls.known_flags()} | {"config": "text"}

    @classmethod
    def _flag_fields(cls) -> dict[str, str]:
        """All flag names with their fields."""
        found: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            found |= vars(base).get("flag_names", {})
        return found | {_flag(field): field for field in cls.model_fields}

    @classmethod
    def _ignored_flags(cls) -> set[str]:
        found: set[str] = set()
        for base in cls.__mro__:
            found |= vars(base).get("ignored_flags", frozenset())
        return found

    @classmethod
    def _read_flags(cls, arguments: list[str]) -> tuple[dict[str, str], str, tuple[str, ...]]:
        fields = cls._flag_fields()
        ignored = cls._ignored_flags() - fields.keys()
        switches = {flag for flag, field in fields.items() if _is_switch(cls.model_fields[field].annotation)}
        try:
            values = flags.parse(
                arguments,
                known=[*fields, *ignored, "config"],
                switches=(switches | cls.ignored_switches) - {"zap-encoder"},
            )
        except flags.FlagError as error:
            raise SettingsError(str(error)) from None
        path = values.pop("config", "") or os.environ.get("KAI_CONFIG", "")
        given = {field: cls._meant(name, values[name]) for name, field in fields.items() if name in values}
        return given, path, tuple(sorted(f"--{name}" for name in values if name in ignored))

    @classmethod
    def _meant(cls, flag: str, value: str) -> str:
        try:
            return cls.flag_values[flag](value) if flag in cls.flag_values else value
        except ValueError as error:
            raise SettingsError(f"--{flag}={value!r}: {error}") from None

    @classmethod
    def _read_file(cls, path: str) -> dict[str, Any]:
        try:
            content = documents.load(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            raise SettingsError(f"--config {path} cannot be read: {error}") from None
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise SettingsError(f"--config {path} must hold a mapping of setting to value")
        values: dict[str, Any] = {}
        for written, value in content.items():
            key = str(written).replace("-", "_")
            if key in values:
                raise SettingsError(f"{path}: {key} is there twice, once with dashes; say it once")
            values[key] = value
            if key not in cls.model_fields:
                hint = flags.suggestion(key, cls.model_fields)
                raise SettingsError(f"{path}: unknown setting {key}{hint}; see --help")
        return values

    @classmethod
    def _explain(
        cls, error: ValidationError, given: dict[str, str], from_file: dict[str, Any], path: str
    ) -> str:
        """One line per complaint, each naming the place that the value came from."""
        lines = []
        for problem in error.errors(include_url=False, include_context=False):
            field = str(problem["loc"][0]) if problem["loc"] else ""
            variable = f"KAI_{field.upper()}"
            if field in given:
                place = f"--{_flag(field)}"
            elif os.environ.get(variable):
                place = variable
            elif field in from_file:
                place = f"{path}: {field}"
            else:
                place = f"--{_flag(field)}" if field else cls.__name__
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{place}={problem['input']!r}: {message}" if field else message)
        return "; ".join(lines)


def _flag(field: str) -> str:
    return field.replace("_", "-")


def _is_switch(annotation: Any) -> bool:
    return annotation is bool or annotation == bool | None


def _refuse(error: SettingsError) -> NoReturn:
    sys.stderr.write(f"error: {error}\n")
    raise SystemExit(2)
