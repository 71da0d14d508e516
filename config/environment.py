"""The environment variables that the web application reads, checked before anything else happens.

A missing or malformed value ends the start with the name of the variable. ``make demo`` and the tests set friendly values;
nothing here is friendly by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from django.core.exceptions import ImproperlyConfigured
from pydantic import AnyHttpUrl, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "RENDEZVOUS_"


class Environment(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    #: Signs cookies and candidate links; whoever has it can join any interview.
    secret_key: Annotated[str, Field(min_length=32)]
    #: ``sqlite:////absolute/path`` or ``postgresql://user:password@host/name``.
    database_url: Annotated[str, Field(pattern=r"^(sqlite|postgres(ql)?)://")]
    #: ``redis://host:port/0`` or ``unix:///path/to/socket``.
    redis_url: Annotated[str, Field(pattern=r"^(redis|rediss|unix)://")]
    #: How the browser reaches us, scheme and port included; links are made from it.
    base_url: AnyHttpUrl
    debug: bool = False
    #: Further host names, separated by commas, that requests may carry besides that of ``base_url``.
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, Field(default=())]
    #: Where built static files are collected for production.
    static_root: Path = Path("var/static")
    log_json: bool = True
    #: A run whose host has not been heard of for this long is ended by the reaper.
    host_silence_s: Annotated[float, Field(gt=0)] = 8.0
    #: How many runs one interview may start in a minute.
    runs_per_minute: Annotated[int, Field(gt=0)] = 30

    def __init__(self) -> None:
        super().__init__()


def read() -> Environment:
    """The checked environment. Raises ``ImproperlyConfigured`` that names each variable at fault."""
    try:
        return Environment()
    except ValidationError as error:
        faults = "; ".join(f"{PREFIX}{'.'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        raise ImproperlyConfigured(f"The environment is not complete. {faults}") from None
