from __future__ import annotations

import pytest
from django.test import Client, override_settings


@pytest.mark.django_db
def test_healthy_when_database_and_redis_answer(client: Client) -> None:
    response = client.get("/healthz")

    assert response.status_code == 200
    assert response.json() == {"database": "ok", "redis": "ok"}
    assert "no-cache" in response["Cache-Control"]


@pytest.mark.django_db
def test_unhealthy_without_redis_and_says_nothing_of_why(client: Client) -> None:
    nowhere = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "unix:///nowhere/redis.sock"}
    }
    with override_settings(CACHES=nowhere):
        response = client.get("/healthz")

    assert response.status_code == 503
    assert response.json() == {"database": "ok", "redis": "unreachable"}


@pytest.mark.django_db
def test_plain_http_from_inside_is_answered(client: Client) -> None:
    with override_settings(SECURE_SSL_REDIRECT=True):
        assert client.get("/healthz").status_code == 200
        assert client.get("/questions/").status_code == 301


def test_only_reading_is_allowed(client: Client) -> None:
    assert client.post("/healthz").status_code == 405
