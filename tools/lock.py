"""Resolves the requirements anew, in an environment of its own, and writes the versions found to ``requirements/lock.txt``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.console import Step, say
from tools.setup import LOCK, REQUIREMENTS, environment_python, pip_install


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Step("Resolving the requirements"):
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip_install(folder, "-r", str(REQUIREMENTS / "dev.in"))
        freeze = [environment_python(folder), "-m", "pip", "freeze", "--disable-pip-version-check"]
        frozen = subprocess.run(freeze, check=True, stdout=subprocess.PIPE, text=True).stdout
    LOCK.write_text(frozen)
    say(f"{len(frozen.splitlines())} versions stand in {LOCK.name}. Run `make test` before you commit it.")


if __name__ == "__main__":
    main()
