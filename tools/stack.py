"""The programs that make up a running Rendezvous on one machine, as ``make demo`` and the browser tests start them."""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.slots import HostConfig, SlotPool
from tools.console import ROOT, fail
from tools.machine import find_redis
from tools.supervisor import Part

#: The longest path that a socket may have, the closing zero left out.
LONGEST_SOCKET_PATH = 107
#: Celery's advice against running as root, which a demo on a throw-away machine may do.
ROOT_WARNING = "ignore:You're running the worker with superuser privileges"
OWN_VARIABLES = "RENDEZVOUS_"
RUNNER_VARIABLES = "RENDEZVOUS_RUNNER_"
RUNTIME_VARIABLE = "RENDEZVOUS_RUNNER_RUNTIME"
STATE_VARIABLE = "RENDEZVOUS_RUNNER_STATE_DIR"


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
    def runner_folder(self) -> Path:
        return self.folder / "runner"

    @property
    def ready_file(self) -> Path:
        """There while the worker takes runs, which it does once a slot is warm."""
        return self.folder / "worker-is-ready"

    @property
    def redis_socket(self) -> Path:
        path = self.folder / "redis.sock"
        if len(str(path)) > LONGEST_SOCKET_PATH:
            fail(f"The path of this folder is too long for a socket: {path}. Move the project to a shorter one.")
        return path

    def parts(self) -> list[Part]:
        """Redis, then web, worker and the database's preparation at once, then what needs the tables."""
        redis_url = self.redis_url or f"unix://{self.redis_socket}"
        web = self._web_environment(redis_url)
        celery = (sys.executable, "-m", "celery", "-A", "config", "--quiet")
        parts = [] if self.redis_url else [self._redis()]
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
                is_ready=self.ready_file.exists,
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
        where = {name: os.environ.get(name, "") for name in (RUNTIME_VARIABLE, STATE_VARIABLE)}
        SlotPool(HostConfig.from_environ({STATE_VARIABLE: str(self.runner_folder), **_set(where)})).sweep()

    def _redis(self) -> Part:
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
            is_ready=lambda: answers(self.redis_socket),
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
            # The web part makes them; each Celery process again would cost a second.
            "CELERY_SKIP_CHECKS": "1",
            "PYTHONWARNINGS": ROOT_WARNING,
        }

    def _worker_environment(self, redis_url: str) -> dict[str, str]:
        """No address of the database and no secret: a GPU host has neither."""
        given = {name: value for name, value in os.environ.items() if name.startswith(RUNNER_VARIABLES)}
        return {
            **_outer_environment(),
            "RENDEZVOUS_REDIS_URL": redis_url,
            "RENDEZVOUS_RUNNER_VENV": str(ROOT / ".venv-sandbox"),
            STATE_VARIABLE: str(self.runner_folder),
            **given,
            "RENDEZVOUS_RUNNER_READY_FILE": str(self.ready_file),
        }


def _outer_environment() -> dict[str, str]:
    """What every program gets: ours without any setting of the project, which each part is given by itself."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    return {**outer, "PYTHONUNBUFFERED": "1"}


def _set(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that say something."""
    return {name: value for name, value in environment.items() if value}


def answers(redis_socket: Path) -> bool:
    """Whether a Redis that listens there takes commands."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.settimeout(1)
        connection.connect(str(redis_socket))
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")
    return False


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
