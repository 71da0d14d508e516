"""The real programs around a run, on a Redis of their own and on the tests' database, to be killed and started at will."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import httpx
import redis

from gpu_runner.protocol import HostPresence, hosts_key

if TYPE_CHECKING:
    from grading.models import Run
    from interviews.models import Interview

ROOT = Path(__file__).resolve().parents[2]
_CELERY = (sys.executable, "-m", "celery", "-A", "config", "--quiet")
SCRIPTED_HOST = (sys.executable, "-m", "tests.grading.scripted_host")
#: By then every run has ended, whatever was killed.
END_S = 15.0
REAL_HOST = (sys.executable, "-m", "gpu_runner.worker")


def wait_for(condition: Callable[[], bool], within_s: float = 15.0, what: str = "") -> float:
    """Waits for something that must happen; the seconds it took."""
    start_s = time.monotonic()
    while not condition():
        if time.monotonic() - start_s > within_s:
            raise AssertionError(f"{what or condition} did not happen within {within_s} s")
        time.sleep(0.02)
    return time.monotonic() - start_s


class Stack:
    """Redis, web, results worker, scheduler and one GPU host."""

    def __init__(self, folder: Path, database_url: str, host_command: tuple[str, ...]) -> None:
        self.folder = folder
        self.host_command = host_command
        self.host_environment: dict[str, str] = {}
        self.web_environment: dict[str, str] = {}
        self._database_url = database_url
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.redis_url = f"unix://{folder}/redis.sock"
        self.redis = redis.Redis.from_url(self.redis_url, decode_responses=True)

    def start(self) -> None:
        self.start_redis()
        self.start_host()
        web = (sys.executable, "-m", "uvicorn", "config.asgi:application", "--port", str(self.port))
        self._start("web", *web, "--lifespan", "off", "--log-level", "warning", "--timeout-graceful-shutdown", "1")
        self.start_results()
        self._start("scheduler", *_CELERY, "beat", "--pidfile=", f"--schedule={self.folder}/schedule")
        wait_for(self._web_answers, 30, "web")
        wait_for(lambda: "ready." in self.log("results"), 30, "the results worker")

    def start_results(self) -> None:
        without = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        pool = ("--pool", "threads", "--concurrency", "2", "--loglevel", "INFO")
        self._start("results", *_CELERY, "worker", "--queues", "results", *pool, *without)

    def start_redis(self) -> None:
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        assert program is not None
        where = ("--port", "0", "--unixsocket", f"{self.folder}/redis.sock", "--dir", str(self.folder))
        self._start("redis", program, *where, "--save", "", "--appendonly", "no")
        wait_for(self._redis_answers, 10, "Redis")

    def start_host(self) -> None:
        self._start("host", *self.host_command)
        wait_for(self.has_host, 60, "a GPU host")

    def has_host(self) -> bool:
        return bool(self.redis.hlen(hosts_key("cpu")))

    def is_idle(self) -> bool:
        """Whether a host says that all its slots are free and no run is open."""
        texts = cast("dict[str, str]", self.redis.hgetall(hosts_key("cpu"))).values()
        told = [HostPresence.from_json(text) for text in texts]
        from grading.models import Run

        return any(presence.free == presence.slots for presence in told) and not Run.objects.open().exists()

    def kill(self, name: str, with_signal: signal.Signals = signal.SIGKILL) -> None:
        process = self._processes.pop(name)
        process.send_signal(with_signal)
        process.wait(timeout=30)
        if name == "host":
            self.redis.delete(hosts_key("cpu"))

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def is_alive(self, name: str) -> bool:
        return self._processes[name].poll() is None

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        for name in ("host", "scheduler", "web", "results", "redis"):
            process = self._processes.pop(name, None)
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=self._environment(name), stdout=log, stderr=subprocess.STDOUT
            )

    def _environment(self, name: str) -> dict[str, str]:
        outer = {key: value for key, value in os.environ.items() if not key.startswith("RENDEZVOUS_")}
        common = {**outer, "PYTHONUNBUFFERED": "1", "RENDEZVOUS_REDIS_URL": self.redis_url}
        if name == "host":
            return {**common, "RENDEZVOUS_RUNNER_STATE_DIR": f"{self.folder}/runner", **self.host_environment}
        return {
            **common,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "RENDEZVOUS_SECRET_KEY": os.environ["RENDEZVOUS_SECRET_KEY"],
            "RENDEZVOUS_DATABASE_URL": self._database_url,
            "RENDEZVOUS_BASE_URL": self.base_url,
            "RENDEZVOUS_DEBUG": "true",
            "RENDEZVOUS_RUNS_PER_MINUTE": "1000",
            **self.web_environment,
        }

    def _redis_answers(self) -> bool:
        try:
            return bool(self.redis.ping())
        except (redis.RedisError, OSError):
            return False

    def _web_answers(self) -> bool:
        try:
            return httpx.get(f"{self.base_url}/api/runs/00000000-0000-0000-0000-000000000000").status_code == 404
        except httpx.TransportError:
            return False


def database_url() -> str:
    """The address of the tests' database, for other programs."""
    from django.db import connection

    if connection.vendor == "sqlite":
        return f"sqlite:///{connection.settings_dict['NAME']}"
    at = connection.settings_dict
    # The host may be the folder of a socket, whose slashes would end the host's part of the address.
    return f"postgresql://{at['USER']}:{at['PASSWORD']}@{quote(at['HOST'], safe='')}:{at['PORT']}/{at['NAME']}"


class Browser:
    """One person's cookies and the API of runs."""

    def __init__(self, stack: Stack, cookies: dict[str, str]) -> None:
        secret = "a" * 32
        self.http = httpx.Client(
            base_url=stack.base_url,
            cookies={**cookies, "csrftoken": secret},
            headers={"X-CSRFToken": secret},
            timeout=20,
        )

    def run(self, interview: Interview, text: str, **wish: Any) -> dict[str, Any]:
        body = {"position": 1, "mode": "program", "ranks": 1, "text": text, **wish}
        response = self.http.post(f"/api/interviews/{interview.public_id}/runs", json=body)
        assert response.status_code == 201, response.text
        return cast("dict[str, Any]", response.json())

    def stop(self, run: dict[str, Any]) -> dict[str, Any]:
        response = self.http.post(f"/api/runs/{run['id']}/stop")
        assert response.status_code == 200, response.text
        return cast("dict[str, Any]", response.json())

    def events(self, run: dict[str, Any], after: str | None = None) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
        """Kind, id and data of each event until the stream ends."""
        headers = {} if after is None else {"Last-Event-ID": after}
        with self.http.stream("GET", f"/api/runs/{run['id']}/events", headers=headers) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                if "event" in fields:
                    yield fields["event"], fields.get("id"), json.loads(fields["data"])
                fields = {}


def row(run: dict[str, Any]) -> Run:
    """What the database says of a run that the API answered."""
    from grading.models import Run

    return Run.objects.get(public_id=run["id"])


def wait_running(run: dict[str, Any]) -> None:
    wait_for(lambda: row(run).state == "running", 10, "the start")


def wait_finished(run: dict[str, Any], within_s: float = END_S) -> Run:
    wait_for(lambda: row(run).is_finished, within_s, "the end")
    return row(run)


def finished_entries(run: dict[str, Any]) -> int:
    """How often the timeline says that the run ended."""
    return row(run).interview.timeline.filter(kind="run_finished", payload__run_id=run["id"]).count()
