"""``make demo``: everything on this machine, and the two links of an interview.

What it makes lies in ``var/demo`` and is kept from one start to the next.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import secrets
import sys
import time
from pathlib import Path

from tools.console import ROOT, box, colour, fail, say
from tools.machine import root_prefix
from tools.stack import Stack, free_port
from tools.supervisor import StartFailed, Supervisor

DEFAULT_FOLDER = ROOT / "var" / "demo"
DEFAULT_PORT = 8000
COLOURS = {"web": "36", "worker": "35", "results": "34", "scheduler": "33", "redis": "31", "prepare": "32"}


def main() -> None:
    started_s = time.monotonic()
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on and to make links with")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="the next free one is taken; 0 for any")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where its data is kept")
    parser.add_argument("--verbose", action="store_true", help="show what the parts print from the first line on")
    options = parser.parse_args()
    if options.host in ("0.0.0.0", "::"):  # noqa: S104
        fail("A link cannot be made with that address: name the one that the others reach this machine by, HOST=…")

    become_root()
    os.chdir(ROOT)
    folder: Path = options.folder.absolute()
    identity = owner_of_the_checkout()
    make_folder(folder, identity)
    with open(folder / "lock", "a+") as lock:
        take_lock_or_tell(lock.fileno(), folder)
        stack = Stack(
            folder=folder,
            host=options.host,
            port=choose_port(options.host, options.port),
            secret_key=kept_secret_key(folder, identity),
            redis_url=os.environ.get("RENDEZVOUS_REDIS_URL"),
            identity=identity,
        )
        run(stack, started_s, verbose=options.verbose)


def become_root() -> None:
    """Goes on as root, where we are not: containers need it. Only the worker stays root."""
    if os.geteuid() == 0:
        return
    prefix = root_prefix()
    if prefix is None:
        fail(
            "The demo's worker makes containers, which takes root, and there is no sudo here. As root, type: make demo"
        )
    say("The worker makes containers, which takes root; everything else runs as you. Asking sudo:")
    kept = "--preserve-env=" + ",".join(sorted(name for name in os.environ if name.startswith("RENDEZVOUS_")))
    os.execv(prefix[0], [*prefix, kept, sys.executable, "-m", "tools.demo", *sys.argv[1:]])  # noqa: S606


def owner_of_the_checkout() -> tuple[int, int] | None:
    """Whom the parts run as that need no root: whoever called us by sudo and owns the project's environment."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if user is None or group is None or int(user) == 0 or (ROOT / ".venv").stat().st_uid != int(user):
        return None
    return int(user), int(group)


def make_folder(folder: Path, identity: tuple[int, int] | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Holds a password, a key and what candidates wrote.
    folder.chmod(0o700)
    if identity is not None:
        os.chown(folder, *identity)


def take_lock_or_tell(lock: int, folder: Path) -> None:
    """One demo at a time: the second tells the links of the first and leaves."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        links = folder / "links.txt"
        say("A demo runs already.")
        say(links.read_text() if links.exists() else "It is still starting.")
        raise SystemExit(0) from None


def choose_port(host: str, wanted: int) -> int:
    try:
        port = free_port(host, wanted)
    except OSError as error:
        fail(f"The demo cannot listen: {error}.")
    if wanted not in (0, port):
        say(f"Port {wanted} is busy, so it is port {port} this time.")
    return port


def kept_secret_key(folder: Path, identity: tuple[int, int] | None) -> str:
    """The key that signs cookies and links; kept, so that both stay good from one start to the next."""
    path = folder / "secret-key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(48))
        if identity is not None:
            os.chown(path, *identity)
    return path.read_text()


def run(stack: Stack, started_s: float, *, verbose: bool) -> None:
    terminal = Terminal(verbose=verbose)
    # A killed demo may have left them.
    for path in (stack.folder / "links.txt", stack.ready_file):
        path.unlink(missing_ok=True)
    say("Starting Redis, web, the worker with its first slot, the results worker and the scheduler …")

    def on_ready() -> None:
        text = links_text(stack)
        (stack.folder / "links.txt").write_text(text)
        say(text)
        say(f"Ready after {time.monotonic() - started_s:.1f} s.")
        terminal.verbose = True

    def on_wait(names: list[str]) -> None:
        say(f"Still waiting for: {', '.join(names)}. What they say is in {shown(stack.folder / 'logs')}.")

    supervisor = Supervisor(stack.parts(), stack.folder / "logs", terminal.echo, on_wait)
    try:
        supervisor.run(on_ready)
    except StartFailed as error:
        fail(f"The demo did not start: {error}\nMore stands in {stack.folder / 'logs'}")
    finally:
        (stack.folder / "links.txt").unlink(missing_ok=True)
        stack.sweep()
    say("\nStopped. The data is kept; `make demo` shows it again.")


class Terminal:
    """Shows what the parts print, each line with the name of its part."""

    def __init__(self, *, verbose: bool) -> None:
        self.verbose = verbose

    def echo(self, name: str, line: str) -> None:
        if not self.verbose:
            return
        try:
            say(f"{colour(f'{name:>9} │', COLOURS.get(name, '0'))} {line}")
        except OSError:
            # The terminal is gone. The logs are not, and the parts still have to be stopped in order.
            self.verbose = False


def links_text(stack: Stack) -> str:
    told = json.loads(stack.sign_in_file.read_text())
    return box(
        [
            f"Rendezvous runs at {stack.base_url}",
            "",
            f"Interviewer   {told['interviewer_url']}",
            f"              sign in as {told['email']} with the password {told['password']}",
            "",
            f"Candidate     {told['candidate_url']}",
            "              in a private window or another browser",
            "",
            f"Stop with Ctrl-C. Logs are in {shown(stack.folder / 'logs')}",
        ]
    )


def shown(path: Path) -> str:
    """The path as one would type it from the project's folder."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    main()
