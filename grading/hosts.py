"""What the web side says to the GPU hosts, and what it can see of them.

Everything here is a wake-up or a hint over Redis. While Redis is away these functions log, say so by their return value and
come back quickly: the row is the truth, and the reaper says everything again.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import cast

import redis
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.retry import Retry

from gpu_runner.protocol import (
    CANCEL_CHANNEL,
    EXECUTE_TASK,
    HostPresence,
    RunSpec,
    WireError,
    cancel_key,
    claim_key,
    hosts_key,
    queue_for,
    recorded_key,
    stream_key,
)

logger = logging.getLogger(__name__)

#: A host that said nothing for this long is gone.
PRESENCE_S = 5
#: Since when the reaper has been listening.
LISTENING_KEY = "grading:listening"
#: Without a look for this long, we were away.
BREAK_S = 6
#: How long keys and streams of a run are kept in Redis.
KEEP_S = 3600
#: The field of a stream entry, beside ``event``, which says that the row is finished and worth reading.
ENDED_FIELD = "ended"

_AWAY = (redis.RedisError, OperationalError, OSError)


@functools.cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_connect_timeout=1,
        socket_timeout=2,
        retry=Retry(NoBackoff(), 1),
    )


def enqueue(spec: RunSpec) -> bool:
    """Sends the run to the hosts that can serve it; false when Redis is away."""
    try:
        current_app.send_task(
            EXECUTE_TASK,
            kwargs={"spec": spec.to_wire()},
            queue=queue_for(spec.gpus),
            retry=True,
            retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1},
        )
    except _AWAY as error:
        logger.warning("Run %s waits: Redis is away (%s).", spec.run_id, error)
        return False
    return True


def ask_to_stop(run_id: str) -> bool:
    """Tells the host of a run to stop it, and any host not to start it; false when Redis is away."""
    try:
        with _redis().pipeline(transaction=False) as pipeline:
            pipeline.set(cancel_key(run_id), "1", ex=KEEP_S)
            pipeline.publish(CANCEL_CHANNEL, run_id)
            pipeline.execute()
    except _AWAY as error:
        logger.warning("Run %s could not be asked to stop: Redis is away (%s).", run_id, error)
        return False
    return True


def tell_readers_it_ended(run_id: str) -> None:
    """Wakes the readers of the run's stream, so that they look at the row now and not at their next turn."""
    key = stream_key(run_id)
    try:
        with _redis().pipeline(transaction=False) as pipeline:
            pipeline.xadd(key, {ENDED_FIELD: "1"})
            pipeline.expire(key, KEEP_S)
            pipeline.execute()
    except _AWAY as error:
        logger.info("Readers of run %s look by themselves: Redis is away (%s).", run_id, error)


def confirm_result(run_id: str, attempt: int) -> None:
    """Tells the host that it may forget this result; otherwise it sends it again."""
    try:
        _redis().set(recorded_key(run_id, attempt), "1", ex=KEEP_S)
    except _AWAY as error:
        logger.info("The result of run %s comes again: Redis is away (%s).", run_id, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The hosts of one queue. ``unseen_s`` is the time since the last word of any of them."""

    present: frozenset[str]
    free: int
    unseen_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How long we have been listening without a break, by the clock of Redis, the one that all share.

    After a break, of ours or of Redis, nobody can be called silent until they had time to speak again.
    """

    now_s: int
    since_s: int

    @property
    def listened_s(self) -> int:
        return self.now_s - self.since_s


def keep_watch() -> Watch | None:
    """Says that we listen, or ``None`` when Redis is away. Call it every few seconds; a longer gap is a break."""
    try:
        now_s = cast("tuple[int, int]", _redis().time())[0]
        with _redis().pipeline(transaction=False) as pipeline:
            pipeline.set(LISTENING_KEY, now_s, nx=True)
            pipeline.expire(LISTENING_KEY, BREAK_S)
            pipeline.get(LISTENING_KEY)
            since = pipeline.execute()[-1]
    except _AWAY:
        return None
    return Watch(now_s=now_s, since_s=int(since or now_s))


def look(gpus: int, watch: Watch) -> Hosts | None:
    """The hosts that serve runs with this many GPUs, or ``None`` when Redis is away."""
    try:
        values = cast("dict[str, str]", _redis().hgetall(hosts_key(queue_for(gpus))))
    except _AWAY:
        return None
    present: set[str] = set()
    free = 0
    last_seen_s = watch.since_s
    for host_id, text in values.items():
        try:
            presence = HostPresence.from_json(text)
        except WireError as error:
            logger.warning("Host %s speaks another language: %s", host_id, error)
            continue
        last_seen_s = max(last_seen_s, presence.seen_s)
        if watch.now_s - presence.seen_s <= PRESENCE_S:
            present.add(host_id)
            free += presence.free
    return Hosts(present=frozenset(present), free=free, unseen_s=max(0, watch.now_s - last_seen_s))


def claimed_by(run_id: str, attempt: int) -> str | None:
    """The id of the host that took this attempt, if one did and Redis still knows."""
    try:
        return cast("str | None", _redis().get(claim_key(run_id, attempt)))
    except _AWAY:
        return None
