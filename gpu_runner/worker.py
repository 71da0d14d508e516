"""The worker of a GPU host: a Celery app without Django that takes runs by the name of their task.

``python -m gpu_runner.worker`` starts it with the right pool and prefetch. Its environment:

``RENDEZVOUS_REDIS_URL``
    the same as the web side's; the only thing that the two share.
``RENDEZVOUS_RUNNER_QUEUES``
    what this host can serve, separated by commas; ``cpu`` by default.
``RENDEZVOUS_RUNNER_READY_FILE``
    a file that exists while the host takes runs, for whoever started it.
``RENDEZVOUS_RUNNER_…``
    the settings of the slots, see ``gpu_runner.slots.HostConfig``.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import redis
from celery import Celery, signals
from celery.exceptions import Reject
from celery.platforms import SecurityWarning
from redis.backoff import NoBackoff
from redis.retry import Retry

from gpu_runner import broker
from gpu_runner.host import Executor, Host, NotTaken
from gpu_runner.protocol import EXECUTE_TASK
from gpu_runner.slots import ConfigError, HostConfig, SlotPool

logger = logging.getLogger(__name__)

_PREFIX = "RENDEZVOUS_RUNNER_"
#: How long the first slot may take to become warm.
WARM_WAIT_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The settings of the worker beside those of its slots."""

    redis_url: str
    queues: tuple[str, ...]
    ready_file: Path | None
    host: HostConfig

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        """Raises ``ConfigError`` with the name of the variable at fault."""
        redis_url = environ.get("RENDEZVOUS_REDIS_URL", "")
        if not redis_url.startswith(("redis://", "rediss://", "unix://")):
            raise ConfigError("RENDEZVOUS_REDIS_URL must be redis://host:port/0 or unix:///path/to/socket")
        queues = tuple(name.strip() for name in environ.get(f"{_PREFIX}QUEUES", "cpu").split(",") if name.strip())
        if not queues:
            raise ConfigError(f"{_PREFIX}QUEUES must name a queue")
        ready_file = environ.get(f"{_PREFIX}READY_FILE", "")
        ours = {f"{_PREFIX}QUEUES", f"{_PREFIX}READY_FILE"}
        return cls(
            redis_url=redis_url,
            queues=queues,
            ready_file=Path(ready_file) if ready_file else None,
            host=HostConfig.from_environ({name: value for name, value in environ.items() if name not in ours}),
        )


broker.install()


def make_app(config: WorkerConfig) -> Celery:
    """The Celery app of a host with these settings."""
    app = Celery("gpu_runner", broker=broker.celery_url(config.redis_url), set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_transport_options=broker.TRANSPORT_OPTIONS,
        task_acks_late=True,
        task_default_queue=config.queues[0],
        task_ignore_result=True,
        # A run that kills its worker must not come back to kill the next one.
        task_reject_on_worker_lost=False,
        task_serializer="json",
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_concurrency=config.host.slots,
        worker_hijack_root_logger=False,
        worker_pool="threads",
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
    )
    return app


try:
    CONFIG = WorkerConfig.from_environ(os.environ)
except ConfigError as fault:
    if __name__ == "__main__":
        sys.exit(f"The GPU host cannot start: {fault}")
    raise
app = make_app(CONFIG)
_host: Host | None = None


@app.task(name=EXECUTE_TASK)
def execute(spec: object = None, **_: Any) -> None:
    """Executes a run. Arguments that are not known are ignored, so that web and hosts may be brought up to date apart."""
    if _host is None:
        raise Reject("This process has no slots.", requeue=True)
    try:
        _host.take(spec)
    except NotTaken:
        raise Reject("This host is shutting down or cannot reach Redis.", requeue=True) from None


def serve(
    executor: Executor, config: WorkerConfig = CONFIG, *, before_ready: Callable[[], None] = lambda: None
) -> None:
    """Takes runs and has them executed until the process is told to end (SIGTERM, SIGINT).

    ``before_ready`` is waited for before the first run is taken; what takes long there goes on beside the start of Celery.
    """
    global _host
    client = redis.Redis.from_url(
        config.redis_url,
        decode_responses=True,
        socket_connect_timeout=1,
        socket_timeout=2,
        retry=Retry(NoBackoff(), 1),
    )
    host = _host = Host(
        app,
        executor,
        client,
        name=config.host.host or socket.gethostname(),
        slots=config.host.slots,
        queues=config.queues,
        state_dir=config.host.state_dir.absolute(),
    )

    def on_ready(**_: Any) -> None:
        host.open()
        if config.ready_file is not None:
            config.ready_file.write_text(f"{host.id}\n")
        logger.info("Host %s takes runs from %s.", host.id, ", ".join(config.queues))

    def on_stop(**_: Any) -> None:
        host.stop()

    # Logging stays as the process has set it up.
    signals.setup_logging.connect(lambda **_: None, weak=False)
    signals.worker_ready.connect(on_ready, weak=False)
    signals.worker_shutting_down.connect(on_stop, weak=False)
    worker = app.Worker(
        hostname=host.id,
        queues=list(config.queues),
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    try:
        before_ready()
        worker.start()
    finally:
        if config.ready_file is not None:
            config.ready_file.unlink(missing_ok=True)
        host.close()


def main() -> int:
    """The whole host: warm slots first, then the worker on them."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)-7s %(name)s: %(message)s")
    logging.getLogger("celery").setLevel(logging.WARNING)
    # Making containers takes root. What comes over the wire is JSON and runs in a sandbox.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    # Until Celery takes over, so that being told to end leaves no container behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if CONFIG.ready_file is not None:
        CONFIG.ready_file.unlink(missing_ok=True)
    pool = SlotPool(CONFIG.host)

    def wait_for_a_slot() -> None:
        if not pool.wait_ready(WARM_WAIT_S):
            raise ConfigError(f"no slot became warm within {WARM_WAIT_S:g} s: {pool.failure}")

    try:
        pool.start()
        serve(pool, before_ready=wait_for_a_slot)
    except ConfigError as error:
        print(f"The GPU host cannot start: {error}", file=sys.stderr)
        return 2
    finally:
        pool.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
