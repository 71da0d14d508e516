"""How long a run takes from the HTTP request to its finished row, through Celery, Redis and a warm slot.

``python -m tools.bench_runs`` starts the whole stack in a folder of its own, sends runs one after the other, and looks at the
database until it shows the end of each. Prints a table, writes ``var/reports/bench-runs.json``, ends with 1 when the goal is
missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import secrets
import signal
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tools.console import ROOT, fail, say
from tools.stack import Stack, free_port
from tools.supervisor import Part, StartFailed, Supervisor

GOAL_MS = 100.0
WARM_UP_RUNS = 5
END_LIMIT_S = 30.0
#: How often the database is looked at; the figures are late by half of it.
LOOK_S = 0.001
PROGRAM = "import torch\n\nprint(torch.arange(10.0).sum().item())\n"
REPORT = ROOT / "var" / "reports" / "bench-runs.json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One run, in milliseconds from just before the request was sent."""

    answered_ms: float
    finished_ms: float
    #: What the host says the program took, of it.
    wall_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    options = parser.parse_args()
    if os.geteuid() != 0:
        fail("The worker makes containers, which takes root.")
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="rendezvous-bench-") as name:
        folder = Path(name)
        host = "127.0.0.1"
        stack = Stack(folder=folder, host=host, port=free_port(host, 0), secret_key=secrets.token_urlsafe(48))
        timings = measure(stack, options.runs)
    sys.exit(0 if report(timings) else 1)


def measure(stack: Stack, runs: int) -> list[Timing]:
    """Starts the stack, times the runs, and stops it."""
    timings: list[Timing] = []
    faults: list[BaseException] = []

    def work() -> None:
        try:
            timings.extend(time_runs(stack, runs))
        except BaseException as fault:  # noqa: BLE001
            # Told by the main thread, which must stop everything first.
            faults.append(fault)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    worker = threading.Thread(target=work, name="bench")
    supervisor = Supervisor([_without_rate_limit(part) for part in stack.parts()], stack.folder / "logs", _silent)
    try:
        supervisor.run(worker.start)
    except StartFailed as error:
        fail(str(error))
    finally:
        stack.sweep()
    if worker.ident is not None:
        worker.join()
    if faults:
        raise faults[0]
    return timings


def _silent(name: str, line: str) -> None:
    """What the parts print stands in their logs."""


def _without_rate_limit(part: Part) -> Part:
    return dataclasses.replace(part, environment={**(part.environment or {}), "RENDEZVOUS_RUNS_PER_MINUTE": "100000"})


def time_runs(stack: Stack, runs: int) -> list[Timing]:
    """Signs in as the demo's interviewer and runs the program again and again."""
    told = json.loads(stack.sign_in_file.read_text())
    interview = urlsplit(told["interviewer_url"]).path.split("/")[2]
    rows = sqlite3.connect(f"file:{stack.folder}/rendezvous.sqlite3?mode=ro", uri=True, isolation_level=None)
    with httpx.Client(base_url=stack.base_url, timeout=END_LIMIT_S) as browser:
        browser.get("/accounts/login/").raise_for_status()
        form = {"login": told["email"], "password": told["password"]}
        token = {"X-CSRFToken": browser.cookies["csrftoken"]}
        browser.post("/accounts/login/", data=form, headers=token)
        browser.headers["X-CSRFToken"] = browser.cookies["csrftoken"]
        timings = [time_one(browser, rows, f"/api/interviews/{interview}/runs") for _ in range(WARM_UP_RUNS + runs)]
    rows.close()
    return timings[WARM_UP_RUNS:]


def time_one(browser: httpx.Client, rows: sqlite3.Connection, address: str) -> Timing:
    wish = {"position": 1, "mode": "program", "ranks": 1, "text": PROGRAM}
    start_s = time.perf_counter()
    response = browser.post(address, json=wish)
    answered_s = time.perf_counter()
    if response.status_code != httpx.codes.CREATED:
        raise RuntimeError(f"{address}: {response.status_code} {response.text}")
    public_id = response.json()["id"].replace("-", "")
    query = "SELECT outcome, rank_exits, wall_s FROM grading_run WHERE public_id = ? AND finished_at IS NOT NULL"
    while (found := rows.execute(query, [public_id]).fetchone()) is None:
        if time.perf_counter() - start_s > END_LIMIT_S:
            raise RuntimeError(f"run {public_id} did not end within {END_LIMIT_S:g} s")
        time.sleep(LOOK_S)
    finished_s = time.perf_counter()
    outcome, rank_exits, wall_s = found
    if outcome != "exited" or json.loads(rank_exits)[0]["stdout_tail"] != "45.0\n":
        raise RuntimeError(f"run {public_id} ended otherwise: {outcome}, {rank_exits}")
    return Timing(
        answered_ms=(answered_s - start_s) * 1000, finished_ms=(finished_s - start_s) * 1000, wall_ms=wall_s * 1000
    )


def report(timings: Sequence[Timing]) -> bool:
    """Prints and writes what was measured; true if the goal holds."""
    rows = {
        "HTTP answer (201)": [timing.answered_ms for timing in timings],
        "of it on the slot": [timing.wall_ms for timing in timings],
        "finished row": [timing.finished_ms for timing in timings],
    }
    say(f"{'from the HTTP request to':<26}{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}")
    for name, values in rows.items():
        say(f"{name:<26}{statistics.median(values):>9.1f}{_p95(values):>9.1f}{max(values):>9.1f}")
    p50_ms = statistics.median(rows["finished row"])
    holds = p50_ms <= GOAL_MS
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    figures = {
        "runs": len(timings),
        "goal_p50_ms": GOAL_MS,
        "holds": holds,
        **{
            name: {"p50_ms": statistics.median(values), "p95_ms": _p95(values), "max_ms": max(values)}
            for name, values in rows.items()
        },
    }
    REPORT.write_text(json.dumps(figures, indent=2) + "\n")
    say(f"{len(timings)} runs")
    short = f"falls short: from request to finished row, p50 ({p50_ms:.1f} ms, {GOAL_MS:g} ms)"
    say(f"bench-runs: {'holds' if holds else short}")
    return holds


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    main()
