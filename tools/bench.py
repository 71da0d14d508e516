"""``make bench``: every benchmark, one after the other, and one line for all of them."""

from __future__ import annotations

import json
import subprocess
import sys

from tools.console import ROOT, say

#: The module of each benchmark, by the name under which it reports.
BENCHES = {"bench-runner": "gpu_runner.bench", "bench-runs": "tools.bench_runs", "bench-demo": "tools.bench_demo"}
REPORTS = ROOT / "var" / "reports"


def main() -> None:
    short = []
    for name, module in BENCHES.items():
        report = REPORTS / f"{name}.json"
        report.unlink(missing_ok=True)
        status = subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=False).returncode
        if not report.exists():
            short.append(f"{name} (no report, a report)")
        elif status != 0:
            short.append(f"{name} (status {status}, 0)")
        say()
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / "bench.json").write_text(json.dumps({"benches": list(BENCHES), "short": short}, indent=2) + "\n")
    say(f"bench: falls short: {'; '.join(short)}" if short else "bench: holds")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
