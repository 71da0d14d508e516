from __future__ import annotations

import re

import pytest
from django.core import mail
from django.test import Client

from interviews.models import User

PASSWORD = "correct horse battery"


def test_one_signs_in_by_email_and_comes_back_to_where_one_wanted(client: Client, interviewer: User) -> None:
    response = client.post(
        "/accounts/login/?next=/kits/", {"login": "Ada.Interviewer@example.org", "password": PASSWORD, "next": "/kits/"}
    )
    assert response["Location"] == "/kits/"
    # The page itself shows whose it is; no word about it on top.
    assert 'class="messages"' not in client.get("/kits/").text


def test_a_wrong_password_and_an_unknown_address_read_the_same(client: Client, interviewer: User) -> None:
    pages = [
        client.post("/accounts/login/", {"login": login, "password": "wrong"}).text
        for login in (interviewer.email, "nobody@example.org")
    ]
    for page in pages:
        assert "not correct" in page
        assert 'class="notice notice--bad"' in page


def test_nobody_signs_up_by_themselves(client: Client, db: None) -> None:
    assert "Accounts are made by an administrator" in client.get("/accounts/signup/").text
    client.post("/accounts/signup/", {"email": "new@example.org", "password1": PASSWORD, "password2": PASSWORD})
    assert not User.objects.exists()


def test_signing_out_ends_the_session(client: Client, interviewer: User) -> None:
    client.force_login(interviewer)
    assert "Sign out?" in client.get("/accounts/logout/").text
    assert client.post("/accounts/logout/")["Location"] == "/accounts/login/"
    assert client.get("/").status_code == 302


def test_a_forgotten_password_is_replaced_by_mail(client: Client, interviewer: User) -> None:
    response = client.post("/accounts/password/reset/", {"email": interviewer.email}, follow=True)
    assert "Look into your mail" in response.text
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", str(mail.outbox[0].body))
    assert link is not None
    form = client.get(link[1], follow=True)
    assert "Choose a new password" in form.text
    action = form.redirect_chain[-1][0]
    done = client.post(action, {"password1": "new horse battery", "password2": "new horse battery"}, follow=True)
    assert "Your password is changed" in done.text
    assert "This link no longer works" in client.get(link[1], follow=True).text
    interviewer.refresh_from_db()
    assert interviewer.check_password("new horse battery")


def test_one_changes_ones_password_with_the_old_one(client: Client, interviewer: User) -> None:
    client.force_login(interviewer)
    new = {"password1": "new horse battery", "password2": "new horse battery"}
    assert client.post("/accounts/password/change/", {"oldpassword": "wrong", **new}).status_code == 200
    client.post("/accounts/password/change/", {"oldpassword": PASSWORD, **new})
    interviewer.refresh_from_db()
    assert interviewer.check_password("new horse battery")


@pytest.mark.parametrize(
    "path", ["login", "signup", "password/reset", "password/reset/done", "password/reset/key/done", "inactive"]
)
def test_every_page_before_the_sign_in_speaks_our_visual_language(client: Client, db: None, path: str) -> None:
    page = client.get(f"/accounts/{path}/").text
    assert "dist/css/app.css" in page
    assert 'class="card entrance__card"' in page


@pytest.mark.parametrize("path", ["password/change", "email", "reauthenticate", "logout"])
def test_every_account_page_speaks_our_visual_language(client: Client, interviewer: User, path: str) -> None:
    client.login(email=interviewer.email, password=PASSWORD)
    page = client.get(f"/accounts/{path}/", follow=True).text
    assert "dist/css/app.css" in page
    assert 'class="topbar"' in page or "entrance__card" in page
    assert "<script>" not in page
