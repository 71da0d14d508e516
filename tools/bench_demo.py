"""How long ``make demo`` takes to its links: with a new folder, and with the data of an earlier start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.console import ROOT, fail, say

LIMIT_S = 10.0
GIVE_UP_S = 120.0
REPORT = ROOT / "var" / "reports" / "bench-demo.json"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rendezvous-bench-") as name:
        folder = Path(name)
        first_s, again_s = time_to_links_s(folder), time_to_links_s(folder)
    say(f"make demo to the links, new folder       {first_s:8.1f} s")
    verdict = "ok" if again_s <= LIMIT_S else "FALLS SHORT"
    say(f"make demo to the links, data kept        {again_s:8.1f} s   ≤ {LIMIT_S:g} s   {verdict}")
    say(f"load of the machine meanwhile            {os.getloadavg()[0]:8.1f}")
    holds = again_s <= LIMIT_S
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {"new_folder_s": first_s, "data_kept_s": again_s, "limit_s": LIMIT_S, "holds": holds}
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    short = f"falls short: make demo to the links ({again_s:.1f} s, {LIMIT_S:g} s)"
    say(f"bench-demo: {'holds' if holds else short}")
    sys.exit(0 if holds else 1)


def time_to_links_s(folder: Path) -> float:
    """Starts the demo as ``make demo`` does, set-up with nothing to do included, and stops it."""
    started_s = time.monotonic()
    subprocess.run([sys.executable, "-m", "tools.setup", "--quiet"], cwd=ROOT, check=True)
    command = [sys.executable, "-m", "tools.demo", "--folder", str(folder), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        if demo.stdout is None:
            raise RuntimeError("the demo's output is not there")
        for line in demo.stdout:
            took_s = time.monotonic() - started_s
            if line.startswith("Ready after"):
                break
            if took_s > GIVE_UP_S:
                break
        else:
            fail("The demo did not start.")
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
    return took_s


if __name__ == "__main__":
    main()
