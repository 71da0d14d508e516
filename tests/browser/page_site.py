"""A server in its production shape for the walk through the pages, and a real browser.

The server runs on a database, a Redis and collected static files of its own. Tests put rows into it by ``Site.python``: a
browser test never touches the ORM itself, because the browser's event loop runs in its thread.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

PROJECT = Path(__file__).resolve().parent.parent.parent
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
START_S = 30


@dataclass(frozen=True, slots=True)
class Site:
    """A running copy of the web application."""

    url: str
    environment: dict[str, str]
    folder: Path

    def python(self, code: str) -> Any:
        """Runs ``code`` with Django set up on the site's database; its last line of output is read as JSON."""
        done = subprocess.run(
            [sys.executable, "manage.py", "shell", "--no-imports", "-c", code],
            cwd=PROJECT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise AssertionError(done.stderr)
        lines = done.stdout.strip().splitlines()
        return json.loads(lines[-1]) if lines else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not (PROJECT / "static" / "dist" / "css" / "app.css").exists():
        raise RuntimeError("the front end is not built; `npm run build` builds it")
    folder = tmp_path_factory.mktemp("site")
    url = f"http://127.0.0.1:{free_port()}"
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "RENDEZVOUS_DATABASE_URL": f"sqlite:///{folder}/site.sqlite3",
        "RENDEZVOUS_BASE_URL": url,
        "RENDEZVOUS_DEBUG": "false",
        "RENDEZVOUS_STATIC_ROOT": str(folder / "static"),
    }
    for command in (["migrate", "--verbosity=0"], ["collectstatic", "--noinput", "--verbosity=0"]):
        subprocess.run([sys.executable, "manage.py", *command], cwd=PROJECT, env=environment, check=True)
    log = (folder / "web.log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "config.asgi:application", "--host", "127.0.0.1"]
        + ["--port", url.rpartition(":")[2], "--timeout-graceful-shutdown", "1", "--log-level", "warning"],
        cwd=PROJECT,
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        _wait_for(url, server, folder / "web.log")
        yield Site(url, environment, folder)
    finally:
        server.terminate()
        server.wait(timeout=10)
        log.close()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/accounts/login/", timeout=5):  # noqa: S310
                return
        except urllib.error.URLError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{log.read_text()}") from None
            time.sleep(0.1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if shutil.which(CHROMIUM) is None:
        raise RuntimeError(f"{CHROMIUM} is not there; `make setup` installs it, or set CHROMIUM")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield chromium
        chromium.close()
