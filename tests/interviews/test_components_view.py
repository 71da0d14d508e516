from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from django.test import Client
from pytest_django import Settings

from interviews import showcase
from interviews.models import User

URL = "/components/"
STYLES = Path(settings.BASE_DIR) / "static" / "css" / "app"


def test_developers_see_it_and_others_do_not(client: Client, interviewer: User, settings: Settings) -> None:
    assert client.get(URL).status_code == 404
    client.force_login(interviewer)
    assert client.get(URL).status_code == 404
    User.objects.filter(pk=interviewer.pk).update(is_staff=True)
    assert client.get(URL).status_code == 200
    client.logout()
    settings.DEBUG = True
    assert client.get(URL).status_code == 200


def test_every_token_it_shows_exists() -> None:
    tokens = set(re.findall(r"^\s+--([a-z0-9-]+):", (STYLES / "tokens.css").read_text(), re.MULTILINE))
    named = {
        *(*showcase.SURFACES, *showcase.COLOURS, *showcase.SOFT_COLOURS),
        *(*showcase.SPACES, *showcase.RADII, *showcase.SIZES),
    }
    assert named <= tokens


def test_styles_name_no_raw_colour_outside_the_tokens() -> None:
    for sheet in STYLES.glob("*.css"):
        if sheet.name != "tokens.css":
            colours = re.findall(r"#[0-9a-fA-F]{3,8}\b", sheet.read_text())
            assert colours in ([], ["#0d1416"]), sheet
