"""A PostgreSQL server for the tests: made in a temporary folder, on a private socket, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tools.console import fail
from tools.machine import find_postgres_folder

START_LIMIT_S = 30.0
#: Nothing of it outlives the tests, so nothing is written to be safe.
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=", "max_connections=60")


@contextlib.contextmanager
def temporary_postgres() -> Iterator[str]:
    """Runs a server and gives its address as ``RENDEZVOUS_DATABASE_URL`` takes it."""
    programs = find_postgres_folder()
    if programs is None:
        fail("PostgreSQL's server programs are not installed; `make setup-tests` installs them.")
    account = _account()
    user = group = None
    folder = Path(tempfile.mkdtemp(prefix="rendezvous-postgres-"))
    try:
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
            user, group = account.pw_uid, account.pw_gid
        data = folder / "data"
        initdb = [str(programs / "initdb"), "-D", str(data), "-U", "rendezvous", "-A", "trust", "-E", "UTF8"]
        options = [word for option in (*FAST, f"unix_socket_directories={folder}") for word in ("-c", option)]
        postgres = [str(programs / "postgres"), "-D", str(data), *options]
        with open(folder / "log", "w") as log:
            if subprocess.call(initdb, cwd=folder, stdout=log, stderr=log, user=user, group=group) != 0:
                fail(f"initdb failed:\n{(folder / 'log').read_text()}")
            server = subprocess.Popen(postgres, cwd=folder, stdout=log, stderr=log, user=user, group=group)
        try:
            _wait_until_ready(server, programs, folder)
            yield f"postgresql://rendezvous@{quote(str(folder), safe='')}/postgres"
        finally:
            # SIGINT is the fast stop: connections are cut, the server ends in order.
            server.send_signal(signal.SIGINT)
            server.wait(timeout=20)
    finally:
        shutil.rmtree(folder)


def _account() -> pwd.struct_passwd | None:
    """Whom to run as: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    account = accounts.get("postgres") or accounts.get("nobody")
    if account is None:
        fail("There is neither a user postgres nor a user nobody to run PostgreSQL as.")
    return account


def _wait_until_ready(server: subprocess.Popen[bytes], programs: Path, folder: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    question = [str(programs / "pg_isready"), "-q", "-h", str(folder)]
    while subprocess.call(question) != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            fail(f"PostgreSQL did not start:\n{(folder / 'log').read_text()}")
        time.sleep(0.05)
