"""``manage.py demo_data``: brings the database up to date, loads the bank and makes what the demo shows."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.urls import reverse

from interviews import demonstration, links


class Command(BaseCommand):
    help = "Migrates, loads the bank, and makes the people and the interview of `make demo`. Safe to run again."
    # It makes the tables itself.
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("sign_in", type=Path, help="the file that keeps the password and tells the links, as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEBUG:
            raise CommandError("The demo's accounts are for trying things out: only with RENDEZVOUS_DEBUG=true.")
        call_command("migrate", interactive=False, verbosity=0)
        call_command("load_bank", stdout=self.stdout)

        path: Path = options["sign_in"]
        known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        password = known.get("password") or secrets.token_urlsafe(9)
        interview = demonstration.prepare(password, reset_passwords="password" not in known)
        room = reverse("interviews:room", args=[interview.public_id])
        told = {
            "email": demonstration.INTERVIEWER_EMAIL,
            "password": password,
            "interviewer_url": f"{settings.BASE_URL}{room}",
            "candidate_url": links.candidate_url(interview),
        }
        # Written beside and moved, so that a reader never sees half of it; for this user's eyes only.
        beside = path.with_suffix(".new")
        beside.touch(mode=0o600)
        beside.write_text(json.dumps(told, indent=2) + "\n")
        os.replace(beside, path)
        self.stdout.write(f"The demo's interview is {interview.public_id}.")
