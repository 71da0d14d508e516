from __future__ import annotations

import re

import pytest
from django.conf import settings
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from config.urls import urlpatterns as project_urlpatterns
from interviews.models import User


def fail(request: HttpRequest, kind: str) -> HttpResponse:
    raise {"400": SuspiciousOperation, "403": PermissionDenied, "500": RuntimeError}[kind]("a secret detail")


urlpatterns = [path("fail/<str:kind>/", fail), *project_urlpatterns]


@pytest.mark.urls("tests.interviews.test_error_pages")
@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        ("/fail/400/", 400, "We could not understand this request"),
        ("/fail/403/", 403, "Your role does not open this page"),
        ("/nowhere/", 404, "There is nothing here"),
        ("/fail/500/", 500, "Something broke on our side"),
    ],
)
def test_errors_are_told_in_our_words_and_nothing_else(url: str, status: int, words: str, db: None) -> None:
    response = Client(raise_request_exception=False).get(url)
    assert response.status_code == status
    assert words in response.text
    assert "dist/css/app.css" in response.text
    assert "secret detail" not in response.text


def test_an_error_page_needs_no_database(client: Client) -> None:
    # Without the ``db`` fixture any query would fail this test.
    assert "There is nothing here" in client.get("/nowhere/").text


def test_a_forged_form_is_told_what_to_do(db: None) -> None:
    response = Client(enforce_csrf_checks=True).post("/accounts/login/", {"login": "a", "password": "b"})
    assert response.status_code == 403
    assert "This page was open for too long" in response.text


def test_a_theme_that_was_chosen_holds_on_error_pages_too(client: Client) -> None:
    client.cookies["theme"] = "dark"
    assert 'data-theme="dark"' in client.get("/nowhere/").text


def test_pages_allow_no_inline_script_and_no_other_origin(client: Client, interviewer: User) -> None:
    client.force_login(interviewer)
    response = client.get("/")
    policy = response["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", response.text)
    assert settings.X_FRAME_OPTIONS == response["X-Frame-Options"] == "DENY"
