"""Settings for the tests: sets up their environment (a real Redis of their own), then reads the project's settings.

``RENDEZVOUS_TEST_DATABASE_URL`` chooses another database than the SQLite file.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path


def _start_redis(folder: Path) -> str:
    """A real Redis on a private socket, ended with the tests."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise RuntimeError("redis-server is not installed; `make setup` installs it")
    socket = folder / "redis.sock"
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no", "--dir", str(folder)],
        stdout=subprocess.DEVNULL,
    )
    atexit.register(process.wait)
    atexit.register(process.terminate)
    deadline = time.monotonic() + 10
    while not socket.exists():
        if time.monotonic() > deadline or process.poll() is not None:
            raise RuntimeError("redis-server did not start")
        time.sleep(0.01)
    return f"unix://{socket}"


def _environment() -> None:
    folder = Path(tempfile.mkdtemp(prefix="rendezvous-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.update(
        RENDEZVOUS_SECRET_KEY="only-for-tests-0123456789abcdef0123456789",
        RENDEZVOUS_DATABASE_URL=os.environ.get("RENDEZVOUS_TEST_DATABASE_URL", f"sqlite:///{folder}/test.sqlite3"),
        RENDEZVOUS_REDIS_URL=_start_redis(folder),
        RENDEZVOUS_BASE_URL="http://testserver",
        RENDEZVOUS_DEBUG="true",
    )


_environment()

from config.settings import *  # noqa: E402, F403
from config.settings import DATABASES as _DATABASES  # noqa: E402

if _DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, as in production: the in-memory database locks whole tables between threads.
    _DATABASES["default"]["TEST"] = {"NAME": f"{_DATABASES['default']['NAME']}.test"}

# Real hashing is slow on purpose; nothing here tests its strength.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
