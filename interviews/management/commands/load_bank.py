"""``manage.py load_bank``: the question bank from its folders into the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from interviews.bank_loader import BANK, load_bank
from interviews.bank_schema import BankError


class Command(BaseCommand):
    help = "Loads the question bank. Safe to run again: a changed question becomes a new version."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("bank", nargs="?", type=Path, default=BANK, help="the folder of the questions' folders")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            loaded = load_bank(options["bank"])
        except (BankError, OSError) as error:
            raise CommandError(f"Nothing was loaded.\n{error}") from None
        for entry in loaded:
            state = "loaded" if entry.created else "unchanged"
            self.stdout.write(f"{entry.version.question.slug}: version {entry.version.number} {state}")
