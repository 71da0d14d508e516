"""How Celery speaks to Redis, on both sides of the line.

A message is only a wake-up: the web side sends again what no host claims, and a host sends its results until they are
confirmed. So nothing has to be rescued when the connection is lost, and nothing may be risked for it.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis as redis_transport

#: Longer than any task lives, so that Redis never hands a running task to a second worker.
VISIBILITY_TIMEOUT_S = 3600
TRANSPORT_OPTIONS = {
    "visibility_timeout": VISIBILITY_TIMEOUT_S,
    # A web request that enqueues a run must not hang on a Redis that does not answer.
    "socket_connect_timeout": 2,
    "socket_timeout": 3,
}


class WakeUpChannel(redis_transport.Channel):  # type: ignore[misc]
    """A channel that lets go of its messages when its connection is lost.

    kombu 5.7 puts unacknowledged messages back when the connection is lost, and acknowledges a task that ended later over the
    lost channel. Both fail with an error that nobody catches, and the worker ends with all that it runs.
    """

    do_restore = False

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        if not self._is_lost():
            super().basic_ack(delivery_tag, multiple=multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if not self._is_lost():
            super().basic_reject(delivery_tag, requeue=requeue)

    def _is_lost(self) -> bool:
        return self.closed or self.connection is None or self.connection.client is None


def celery_url(redis_url: str) -> str:
    """Celery's name for the address."""
    return redis_url.replace("unix://", "redis+socket://")


def install() -> None:
    """Makes every connection of this process use ``WakeUpChannel``."""
    transport: Any = redis_transport.Transport
    transport.Channel = WakeUpChannel
