"""How fast a run on a warm slot is, beside the same program started cold, and what a slot costs.

``python -m gpu_runner.bench.runner`` prints a table, writes it to ``var/reports/bench-runner.json`` and ends with 1 if a
target was missed. Both sides of each ratio are measured in the same few minutes on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gpu_runner import cgroups, oci
from gpu_runner.oci import ContainerSettings
from gpu_runner.protocol import Limits, Mode, Outcome, Output, RunSpec, SourceFile
from gpu_runner.slots import HostConfig, SlotPool

REPORT = Path("var/reports/bench-runner.json")

ONE_RANK = "import torch\nprint(torch.ones(3).sum().item())\n"
FOUR_RANKS = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.ones(4) * dist.get_rank()
dist.all_reduce(value)
print(value.tolist(), flush=True)
{}
dist.destroy_process_group()
"""
BENCH_CGROUP = f"/{cgroups.ROOT_NAME}/bench"
#: Between two runs, as people have it. The next supervisor is forked in this time, the last one's memory freed.
PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table: a figure, and what it must not go beyond."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit


def main() -> int:
    """Measures, prints and says whether the targets hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="runs on the warm slot for each figure (default 40)")
    parser.add_argument("--cold", type=int, default=5, help="cold starts for each figure (default 5)")
    chosen = parser.parse_args()
    base = HostConfig.from_environ()
    # In /run, as the root of a container's user namespace must be able to reach it.
    with tempfile.TemporaryDirectory(prefix="bench-runner-", dir="/run") as folder:
        Path(folder).chmod(0o755)
        config = HostConfig(venv=base.venv, runtime=base.runtime, state_dir=Path(folder) / "state", spares=0)
        rows = measure(config, Path(folder), runs=chosen.runs, cold=chosen.cold)
    print_table(rows)
    write_report(rows)
    short = [f"{row.name} ({row.value:.4g} {row.unit}, {row.limit:g} {row.unit})" for row in rows if not row.holds]
    print(f"bench-runner: falls short: {'; '.join(short)}" if short else "bench-runner: holds")
    return 1 if short else 0


def measure(config: HostConfig, folder: Path, *, runs: int, cold: int) -> list[Row]:
    """All rows of the table."""
    started_s = time.monotonic()
    with SlotPool(config) as pool:
        if not pool.wait_ready(120):
            raise SystemExit(f"no slot became warm: {pool.failure}")
        warm_up_s = time.monotonic() - started_s
        idle = slot_memory_mb(config.state_dir)
        one = timed(runs, lambda: execute(pool, ONE_RANK))
        in_a_row = timed(runs, lambda: execute(pool, ONE_RANK), pause_s=0)
        four = timed(runs, lambda: execute(pool, FOUR_RANKS.format(""), ranks=4))
        rank_mb = rank_memory_mb(pool, config.state_dir)
    cold_one = timed(cold, cold_container(config, folder))
    cgroups.remove_leftovers(BENCH_CGROUP)
    cold_four = timed(cold, cold_torchrun(config, folder))
    p50_one, p50_four = statistics.median(one), statistics.median(four)
    p50_cold_one, p50_cold_four = statistics.median(cold_one), statistics.median(cold_four)
    return [
        Row(name="one rank, warm, p50", value=p50_one * 1e3, unit="ms", limit=25),
        Row(name="one rank, warm, p95", value=percentile(one, 95) * 1e3, unit="ms"),
        Row(name="one rank, warm, without a pause, p50", value=statistics.median(in_a_row) * 1e3, unit="ms"),
        Row(name="one rank, cold in an equal container, p50", value=p50_cold_one * 1e3, unit="ms"),
        Row(name="one rank, warm / cold", value=p50_one / p50_cold_one, unit="×", limit=0.025),
        Row(name="four gloo ranks, warm, p50", value=p50_four * 1e3, unit="ms", limit=120),
        Row(name="four gloo ranks, warm, p95", value=percentile(four, 95) * 1e3, unit="ms"),
        Row(name="four gloo ranks, torchrun, p50", value=p50_cold_four * 1e3, unit="ms"),
        Row(name="four gloo ranks, warm / torchrun", value=p50_four / p50_cold_four, unit="×", limit=0.035),
        Row(name="idle slot, resident", value=idle[0], unit="MB", limit=420),
        Row(name="idle slot, of it private", value=idle[1], unit="MB", limit=250),
        Row(name="forked rank, proportional", value=rank_mb, unit="MB", limit=60),
        Row(name="a slot becomes warm", value=warm_up_s, unit="s"),
    ]


def timed(count: int, action: Callable[[], None], *, pause_s: float = PAUSE_S) -> list[float]:
    """Seconds that each of so many actions took, after one that does not count."""
    action()
    took_s = []
    for _ in range(count):
        time.sleep(pause_s)
        started_s = time.perf_counter()
        action()
        took_s.append(time.perf_counter() - started_s)
    return took_s


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def spec_of(source: str, *, ranks: int = 1) -> RunSpec:
    return RunSpec(
        run_id="bench",
        token="bench",  # noqa: S106 - guards nothing here
        mode=Mode.PROGRAM,
        files=(SourceFile(path="main.py", text=source),),
        ranks=ranks,
        limits=Limits(wall_s=60),
    )


def execute(pool: SlotPool, source: str, *, ranks: int = 1) -> None:
    """One run, from the request to ``Finished``."""
    *_, finished = pool.execute(spec_of(source, ranks=ranks))
    result = finished.result  # type: ignore[attr-defined]
    if result.outcome is not Outcome.EXITED or any(rank.exit_code != 0 for rank in result.ranks):
        raise SystemExit(f"a run of the benchmark failed: {result}")


def slot_memory_mb(state_dir: Path) -> tuple[float, float]:
    """What the only slot takes while it waits: resident, and of that what no other slot could share."""
    time.sleep(0.5)
    (pid_file,) = state_dir.glob("slots/*/pid")
    parent = int(pid_file.read_text())
    processes = [parent, *descendants(parent)]
    private_mb = sum(smaps_mb(pid, "Pss_Anon", "Pss_Shmem") for pid in processes)
    # The supervisor is a fork of the first process: all that it has more is its own few pages.
    resident_mb = smaps_mb(parent, "Rss") + sum(smaps_mb(p, "Private_Dirty", "Private_Clean") for p in processes[1:])
    return resident_mb, private_mb


def rank_memory_mb(pool: SlotPool, state_dir: Path) -> float:
    """The proportional memory of the largest of four ranks that have done their all_reduce."""
    largest = 0.0
    (pid_file,) = state_dir.glob("slots/*/pid")
    waiting = FOUR_RANKS.format("import time\ntime.sleep(2)")
    printed = 0
    for event in pool.execute(spec_of(waiting, ranks=4)):
        printed += isinstance(event, Output)
        if printed == 4 and not largest:
            supervisors = descendants(int(pid_file.read_text()), depth=1)
            ranks = [pid for supervisor in supervisors for pid in descendants(supervisor, depth=1)]
            largest = max(smaps_mb(pid, "Pss") for pid in ranks)
    return largest


def descendants(pid: int, *, depth: int = 8) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    if depth > 1:
        for child in list(children):
            children += descendants(child, depth=depth - 1)
    return children


def smaps_mb(pid: int, *fields: str) -> float:
    total_kb = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":", 1)
        if name in fields:
            total_kb += int(value.split()[0])
    return total_kb / 1024


def cold_container(config: HostConfig, folder: Path) -> Callable[[], None]:
    """The same program by ``python -c`` in a container made like a slot's."""
    bundle = folder / "cold"
    bundle.mkdir()
    settings = ContainerSettings(
        runtime=config.runtime,
        runtime_root=folder / "runtime",
        rootfs=folder / "rootfs",
        venv=config.venv.absolute(),
        memory_mb=4096,
        pids=1024,
    )
    oci.build_rootfs(settings.rootfs, oci.mount_points(settings))
    oci.stage_code(bundle / "code")
    container = oci.container_config(settings, code=bundle / "code", cgroup=f"{BENCH_CGROUP}/cold", index=999)
    container["process"]["args"] = ["/venv/bin/python", "-c", ONE_RANK]
    (bundle / "config.json").write_text(json.dumps(container))
    command = [config.runtime, f"--root={settings.runtime_root}", "run", f"--bundle={bundle}", "bench-cold"]
    return lambda: run_command(command, "3.0")


def cold_torchrun(config: HostConfig, folder: Path) -> Callable[[], None]:
    """Four ranks by ``torchrun`` on the bare host."""
    script = folder / "main.py"
    script.write_text(FOUR_RANKS.format(""))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=4"]
    return lambda: run_command([str(config.venv / "bin" / "python"), *launcher, str(script)], "[6.0, 6.0, 6.0, 6.0]")


def run_command(command: list[str], expected: str) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if expected not in done.stdout:
        raise SystemExit(f"{command[0]} gave {done.returncode}: {done.stdout}{done.stderr}")


def print_table(rows: list[Row]) -> None:
    width = max(len(row.name) for row in rows)
    for row in rows:
        digits = 4 if row.unit == "×" else 1
        limit = "" if row.limit is None else f"≤ {row.limit:g} {row.unit}   {'ok' if row.holds else 'FALLS SHORT'}"
        print(f"{row.name:<{width}}  {row.value:>10.{digits}f} {row.unit:<2}  {limit}".rstrip())


def write_report(rows: list[Row]) -> None:
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    load_1m = os.getloadavg()[0]
    report = {
        "machine": {"cpus": os.cpu_count(), "kernel": platform.release(), "load_1m": round(load_1m, 2)},
        "rows": [{**asdict(row), "holds": row.holds} for row in rows],
    }
    REPORT.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
