"""The programs that make up a running Rendezvous on one machine, as ``make demo`` and the browser tests start them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import redis

from gpu_runner.protocol import HostPresence, WireError, hosts_key, queue_for
from gpu_runner.slots import HostConfig, SlotPool
from tools.console import ROOT, fail
from tools.machine import find_redis
from tools.supervisor import Part

#: The longest path that a socket may have, the closing zero left out.
LONGEST_SOCKET_PATH = 107
#: A worker that said nothing for longer than this is not there.
PRESENCE_LIMIT_S = 3
OWN_VARIABLES = "RENDEZVOUS_"
RUNNER_VARIABLES = "RENDEZVOUS_RUNNER_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One running Rendezvous: where it listens and where it keeps what it makes."""

    folder: Path
    host: str
    port: int
    secret_key: str
    #: An address of a Redis that runs already; without it the stack has its own.
    redis_url: str | None = None
    #: Whom to run as, all but the GPU host's worker; as ourselves without it.
    identity: tuple[int, int] | None = None

    @property
    def base_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def sign_in_file(self) -> Path:
        """What ``manage.py demo_data`` tells: the password and the links."""
        return self.folder / "sign-in.json"

    @property
    def redis_socket(self) -> Path:
        path = self.folder / "redis.sock"
        if len(str(path)) > LONGEST_SOCKET_PATH:
            fail(f"The path of this folder is too long for a socket: {path}. Move the project to a shorter one.")
        return path

    def parts(self) -> list[Part]:
        """Redis, then web, worker and the database's preparation at once, then what needs the tables."""
        redis_url = self.redis_url or f"unix://{self.redis_socket}"
        client = redis.Redis.from_url(redis_url, decode_responses=True, socket_connect_timeout=1, socket_timeout=1)
        web = self._web_environment(redis_url)
        celery = (sys.executable, "-m", "celery", "-A", "config", "--quiet")
        parts = [] if self.redis_url else [self._redis(client)]
        own_redis = tuple(part.name for part in parts)
        parts += [
            Part(
                name="prepare",
                command=(sys.executable, "manage.py", "demo_data", str(self.sign_in_file)),
                environment=web,
                one_shot=True,
                identity=self.identity,
            ),
            Part(
                name="worker",
                command=(sys.executable, "-m", "gpu_runner.worker"),
                environment=self._worker_environment(redis_url),
                after=own_redis,
                is_ready=lambda: has_warm_slot(client),
                stop_limit_s=15,
            ),
            Part(
                name="web",
                command=self._uvicorn(),
                environment=web,
                after=own_redis,
                is_ready=lambda: is_healthy(self.host, self.port),
                identity=self.identity,
            ),
            Part(
                name="results",
                command=(
                    *(*celery, "worker", "--queues", "results", "--hostname", f"results-{self.port}@%h"),
                    *("--pool", "threads", "--concurrency", "2", "--loglevel", "WARNING"),
                    *("--without-gossip", "--without-mingle", "--without-heartbeat"),
                ),
                environment=web,
                after=("prepare", *own_redis),
                # The worker's last results are sent while it stops.
                stop_wave=1,
                identity=self.identity,
            ),
            Part(
                name="scheduler",
                command=(
                    *(*celery, "beat", "--loglevel", "WARNING", "--pidfile="),
                    *("--schedule", str(self.folder / "schedule")),
                ),
                environment=web,
                after=("prepare", *own_redis),
                identity=self.identity,
            ),
        ]
        return parts

    def sweep(self) -> None:
        """Removes the containers, cgroups and folders of a worker that was killed. For when none is at work."""
        worker = self._worker_environment("")
        SlotPool(HostConfig.from_environ(worker)).sweep()

    def _redis(self, client: redis.Redis) -> Part:
        program = find_redis()
        if program is None:
            fail("redis-server is not installed; `make setup` installs it.")
        options = ("--port", "0", "--unixsocket", str(self.redis_socket), "--unixsocketperm", "700")
        # Nothing in it has to last: the database is the truth.
        volatile = ("--save", "", "--appendonly", "no", "--dir", str(self.folder))
        return Part(
            name="redis",
            command=(program, *options, *volatile, "--loglevel", "warning"),
            environment=_outer_environment(),
            is_ready=lambda: answers(client),
            stop_wave=2,
            identity=self.identity,
        )

    def _uvicorn(self) -> tuple[str, ...]:
        return (
            *(sys.executable, "-m", "uvicorn", "config.asgi:application"),
            *("--host", self.host, "--port", str(self.port), "--lifespan", "off"),
            # Without a limit an open event stream keeps it from ever stopping.
            *("--timeout-graceful-shutdown", "2"),
            *("--log-level", "warning", "--no-access-log"),
        )

    def _web_environment(self, redis_url: str) -> dict[str, str]:
        return {
            **_outer_environment(),
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "RENDEZVOUS_SECRET_KEY": self.secret_key,
            "RENDEZVOUS_DATABASE_URL": f"sqlite:///{self.folder}/rendezvous.sqlite3",
            "RENDEZVOUS_REDIS_URL": redis_url,
            "RENDEZVOUS_BASE_URL": self.base_url,
            "RENDEZVOUS_DEBUG": "true",
        }

    def _worker_environment(self, redis_url: str) -> dict[str, str]:
        """No address of the database and no secret: a GPU host has neither."""
        given = {name: value for name, value in os.environ.items() if name.startswith(RUNNER_VARIABLES)}
        return {
            **_outer_environment(),
            "RENDEZVOUS_REDIS_URL": redis_url,
            "RENDEZVOUS_RUNNER_VENV": str(ROOT / ".venv-sandbox"),
            "RENDEZVOUS_RUNNER_STATE_DIR": str(self.folder / "runner"),
            **given,
        }


def _outer_environment() -> dict[str, str]:
    """What every program gets: ours without any setting of the project, which each part is given by itself."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    return {**outer, "PYTHONUNBUFFERED": "1"}


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def has_warm_slot(client: redis.Redis) -> bool:
    """Whether a worker for plain runs says, just now, that a slot is warm."""
    try:
        # The client's types allow for its asynchronous twin.
        now_s, _ = cast("tuple[int, int]", client.time())
        told = cast("list[str]", client.hvals(hosts_key(queue_for(0))))
    except (redis.RedisError, OSError):
        return False
    return any(_is_warm(text, now_s) for text in told)


def _is_warm(text: str, now_s: int) -> bool:
    try:
        presence = HostPresence.from_wire(json.loads(text))
    except (WireError, ValueError):
        return False
    return presence.free > 0 and now_s - presence.seen_s <= PRESENCE_LIMIT_S


def is_healthy(host: str, port: int) -> bool:
    """Whether the web application says that it can serve."""
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port(host: str, wanted: int, tries: int = 100) -> int:
    """The wanted port, or the first free one after it; with 0, any that is free."""
    for port in [0] if wanted == 0 else range(wanted, min(wanted + tries, 65536)):
        with socket.socket() as probe, suppress(OSError):
            # As the server does: a port whose last user has just left is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return int(probe.getsockname()[1])
    raise OSError(f"no port from {wanted} to {wanted + tries - 1} is free on {host}")
