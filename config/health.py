"""``/healthz``: whether this process can serve, asked by load balancers and by those who start it."""

from __future__ import annotations

import logging

from django.core.cache import cache
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis import RedisError

logger = logging.getLogger(__name__)


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when the database and Redis answer, else 503; each is named with its state. Why is for the log only."""
    states = {"database": _database(), "redis": _redis()}
    return JsonResponse(states, status=200 if set(states.values()) == {"ok"} else 503)


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        logger.exception("The database does not answer.")
        return "unreachable"
    return "ok"


def _redis() -> str:
    try:
        cache.get("healthz")
    except (RedisError, OSError):
        logger.exception("Redis does not answer.")
        return "unreachable"
    return "ok"
