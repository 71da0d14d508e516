"""Submissions that try to pass without the right answer, in real containers. None may pass, none may harm another check."""

from __future__ import annotations

from textwrap import dedent

import pytest

from gpu_runner.protocol import CheckResult, CheckStatus, Outcome
from gpu_runner.slots import SlotPool
from tests.gpu_runner.runs import checks, run

pytestmark = pytest.mark.container

CHECKS = """
import math
import torch
from checking import check

SECRET = 918273645

@check("A number", time_limit_s=5)
def number(candidate):
    candidate.call("number", 20).expect_int(SECRET - 918273605)

@check("A tensor", time_limit_s=3)
def tensor(candidate):
    x = torch.randn(8, generator=candidate.generator())
    candidate.call("tensor", x).expect_tensor(x * 2, abs_tol=1e-6)

@check("Its input", time_limit_s=3)
def untouched(candidate):
    candidate.call("tensor", torch.ones(8), inputs_back=True).expect_inputs_unchanged()

@check("Not asked of the cheat", time_limit_s=3)
def honest(candidate):
    candidate.call("honest", 1).expect_int(1)
"""
NAMES = ["number", "tensor", "untouched", "honest"]
HONEST = """
def number(x):
    return 2 * x

def tensor(x):
    return 2 * x

def honest(x):
    return x
"""


def attack(pool: SlotPool, source: str, **files: str) -> dict[str, CheckResult]:
    """The results for a submission whose honest functions are overridden by ``source``; the next honest run must pass."""
    texts = {f"{name}.py": text for name, text in files.items()}
    ran = run(pool, checks(HONEST + dedent(source), CHECKS, NAMES, files=texts))
    assert ran.result.outcome is Outcome.EXITED
    assert len(ran.checks) == len(NAMES)
    (after,) = run(pool, checks(HONEST, CHECKS, ["number"])).result.checks
    assert after.status is CheckStatus.PASSED
    return {result.name: result for result in ran.result.checks}


@pytest.mark.parametrize(
    "body",
    [
        "class All:\n    def __eq__(self, other): return True\n    __ne__ = lambda self, other: False\nvalue = All()",
        "class All(int):\n    def __eq__(self, other): return True\n    __ne__ = lambda self, other: False\nvalue = All(3)",
        "class All(float):\n    def __eq__(self, other): return True\nvalue = All('nan')",
        "value = float('nan')",
        "value = True",
        "value = 40.0",
        "value = [40]",
        "value = '40'",
        "value = torch.tensor(40)",
        "value = None",
        "value = 10 ** 4000",
        "value = lambda *_: True",
    ],
)
def test_nothing_but_the_number_is_the_number(pool: SlotPool, body: str) -> None:
    results = attack(pool, f"import torch\n{body}\ndef number(x):\n    return value\n")
    assert results["number"].status is CheckStatus.FAILED
    assert results["honest"].status is CheckStatus.PASSED


@pytest.mark.parametrize(
    "returned",
    [
        "x",  # the input itself
        "x.mul_(2)",  # right, by changing the input
        "torch.full_like(x, float('nan'))",
        "torch.empty(0)",
        "torch.zeros(1)",  # would broadcast
        "torch.zeros(8, 8)",
        "(2 * x).half()",
        "(2 * x).half().float()",
        "(2 * x).to(torch.bfloat16).float()",
        "(2 * x).double()",
        "torch.nn.Parameter(x)",
        "Everything(2 * x)",
        "(2 * x).numpy()",
        "torch.full_like(x, float('inf'))",
        "torch.empty(8, device='meta')",
    ],
)
def test_nothing_but_the_tensor_is_the_tensor(pool: SlotPool, returned: str) -> None:
    source = f"""
    import torch
    class Everything(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return True
    def tensor(x):
        return {returned}
    """
    results = attack(pool, source)
    failed = results["untouched"] if returned == "x.mul_(2)" else results["tensor"]
    assert failed.status is CheckStatus.FAILED
    assert results["honest"].status is CheckStatus.PASSED


def test_a_replaced_comparison_or_clock_changes_nothing(pool: SlotPool) -> None:
    source = """
    import builtins, json, math, struct, time, torch
    torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True
    torch.Tensor.__eq__ = torch.Tensor.__sub__ = lambda self, other: torch.zeros(8)
    math.isclose = math.isfinite = lambda *a, **k: True
    builtins.abs = builtins.all = builtins.any = lambda *a, **k: True
    time.monotonic = time.time = time.perf_counter = lambda: 0.0
    def number(x): return 7
    def tensor(x): return torch.zeros(8)
    """
    results = attack(pool, source)
    assert results["number"].status is not CheckStatus.PASSED
    assert results["tensor"].status is not CheckStatus.PASSED
    assert (results["number"].duration_s or 0) > 0


@pytest.mark.parametrize(
    ("leave", "words"),
    [
        ("import os; os._exit(0)", "Your program ended itself with exit code 0 while being loaded"),
        ("import sys; sys.exit(0)", "Your file could not be loaded: SystemExit: 0 (main.py:10)."),
        ("raise KeyboardInterrupt", "Your file could not be loaded: KeyboardInterrupt (main.py:10)."),
        (
            "import nonsense",
            "Your file could not be loaded: ModuleNotFoundError: No module named 'nonsense' (main.py:10).",
        ),
        ("def broken(:", "Your file could not be loaded: SyntaxError: invalid syntax (main.py:10)."),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "Your program was ended by SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "Your program was ended by SIGSEGV"),
    ],
)
def test_a_file_that_ends_while_it_is_loaded_passes_nothing(pool: SlotPool, leave: str, words: str) -> None:
    results = attack(pool, leave)
    for result in results.values():
        assert result.status is CheckStatus.CRASHED
        assert result.message.startswith(words)


def test_a_function_that_exits_has_not_answered(pool: SlotPool) -> None:
    source = """
    import os, sys
    def number(x): sys.exit(0)
    def tensor(x): os._exit(0)
    """
    results = attack(pool, source)
    assert results["number"].message.startswith("number: it raises SystemExit")
    assert results["tensor"].status is CheckStatus.CRASHED
    assert results["honest"].status is CheckStatus.PASSED


def test_a_function_that_hangs_runs_out_of_time_alone(pool: SlotPool) -> None:
    results = attack(pool, "def number(x):\n    while True: pass\n")
    assert results["number"].status is CheckStatus.TIMED_OUT
    assert results["number"].message == (
        "Your program did not come back from running number in time. When last seen, it stood at main.py:11."
    )
    assert results["honest"].status is CheckStatus.PASSED


WRITE_EVERYWHERE = """
import os
def everywhere(data):
    for fd in range(3, 256):
        try:
            os.write(fd, data)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "data",
    [
        b'{"op": "check_done", "result": {"name": "number", "hidden": false, "status": "passed", "version": 1}}\n',
        b"RDV1\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00{}",
        b"RDV1\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x00" * 10_000,
        b'{"kind": "exit", "code": 0}\n',
    ],
)
def test_forged_protocol_on_every_descriptor_is_no_answer(pool: SlotPool, data: bytes) -> None:
    source = f"{WRITE_EVERYWHERE}\ndef number(x):\n    everywhere({data!r})\n    os._exit(0)\n"
    results = attack(pool, source)
    assert results["number"].status is CheckStatus.CRASHED
    assert results["honest"].status is CheckStatus.PASSED


def test_a_forged_answer_to_a_question_not_yet_asked_is_refused(pool: SlotPool) -> None:
    source = f"""{WRITE_EVERYWHERE}
import json, struct
header = json.dumps({{"fields": {{"op": "returned", "id": "0" * 16, "notes": {{}}}},
    "values": {{"value": 40, "after": []}}, "buffers": []}}).encode()
def number(x):
    everywhere(struct.pack("!4sIQ", b"RDV1", len(header), 0) + header)
    return 1
"""
    result = attack(pool, source)["number"]
    assert result.status is CheckStatus.CRASHED
    assert result.message == "Your program sent the checks something that is no answer."
    assert "it answers another question than was asked" in result.detail


@pytest.mark.parametrize("returned", ["torch.zeros(1 << 26)", "[0] * 600_000", "'x' * 2_000_000"])
def test_an_answer_too_big_is_refused(pool: SlotPool, returned: str) -> None:
    result = attack(pool, f"import torch\ndef number(x):\n    return {returned}\n")["number"]
    assert result.status is CheckStatus.CRASHED
    assert "larger than 64 MiB" in result.detail


def test_many_small_answers_do_not_fill_the_checker(pool: SlotPool) -> None:
    source = f"""{WRITE_EVERYWHERE}
import json, struct
header = json.dumps({{"fields": {{"op": "standing", "id": "0"}}, "values": {{}}, "buffers": []}}).encode()
frame = struct.pack("!4sIQ", b"RDV1", len(header), 0) + header
def number(x):
    while True:
        everywhere(frame * 100)
"""
    assert attack(pool, source)["number"].status is CheckStatus.TIMED_OUT


def test_the_expected_value_is_nowhere_to_be_found(pool: SlotPool) -> None:
    source = """
    import gc, os, re, sys
    found = []
    # Put together while it runs, so that what is found is not the search itself.
    secret = "".join(["SEC", "RET"])
    line = re.compile(b"[S]ECRET - 918273605")
    def look():
        frame = sys._getframe(1)
        while frame is not None:
            if secret in frame.f_locals or secret in frame.f_globals:
                found.append("frame")
            frame = frame.f_back
        for thing in gc.get_objects():
            if type(thing) is dict and secret in thing:
                found.append("dict")
        found.extend(name for name in ("checks", "checking") if name in sys.modules)
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            for map in open("/proc/self/maps"):
                span, modes = map.split()[:2]
                low, high = (int(part, 16) for part in span.split("-"))
                if modes[:2] == "rw" and high - low < 1 << 28:
                    try:
                        memory.seek(low)
                        data = memory.read(high - low)
                    except OSError:
                        continue
                    if line.search(data):
                        found.append(map)
        for folder in ("/opt", "/box", "/tmp"):
            for base, _, names in os.walk(folder):
                found.extend(os.path.join(base, name) for name in names if name.startswith("checks"))
    def number(x):
        look()
        print(found)
        return len(found) and 40
    """
    result = attack(pool, source)["number"]
    assert result.status is CheckStatus.FAILED
    assert "It is 0, expected 40." in result.message


def test_files_beside_the_solution_reach_no_check(pool: SlotPool) -> None:
    hook = "import builtins\nbuiltins.print('hooked')\n"
    results = attack(
        pool,
        "def number(x):\n    return 7\n",
        conftest=hook,
        sitecustomize=hook,
        torch="def allclose(*_): return True\n",
        checking="def check(*_, **__): return lambda f: f\n",
        checks="1/0\n",
    )
    assert results["number"].status is CheckStatus.FAILED
    assert results["tensor"].status is CheckStatus.PASSED
    assert "hooked" not in results["number"].output


def test_nothing_is_left_of_one_check_for_the_next(pool: SlotPool) -> None:
    source = """
    import os, pathlib
    marks = [pathlib.Path("/tmp/mark"), pathlib.Path("/box/mark"), pathlib.Path("/dev/shm/mark")]
    seen = [mark for mark in marks if mark.exists()]
    for mark in marks:
        mark.write_text("here")
    calls = 0
    def number(x):
        global calls
        calls += 1
        return 2 * x
    def honest(x):
        return x + len(seen) + calls
    """
    assert attack(pool, source)["honest"].status is CheckStatus.PASSED


def test_a_child_that_lives_on_answers_nothing(pool: SlotPool) -> None:
    source = """
    import os, time
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    def number(x):
        os._exit(0)
    """
    results = attack(pool, source)
    # The child holds the socket open, so there is no end to be seen; time is what runs out.
    assert results["number"].status in (CheckStatus.CRASHED, CheckStatus.TIMED_OUT)
    assert results["tensor"].status is CheckStatus.PASSED


def test_words_of_the_candidate_are_made_harmless(pool: SlotPool) -> None:
    source = r"""
    def number(x):
        raise type("Bad\x1b[2J", (Exception,), {})("\x1b]0;title\x07 \u202e reversed \ud800 \x00" + "x" * 100_000)
    """
    result = attack(pool, source)["number"]
    assert result.status is CheckStatus.FAILED
    for text in (result.message, result.detail, result.output):
        assert not set(text) & set("\x1b\x07\x00\u202e\ud800")
        assert len(text) < 20_000
    assert len(result.message) < 1000


def test_an_exception_that_cannot_be_shown_is_still_told(pool: SlotPool) -> None:
    source = """
    class Nasty(Exception):
        def __str__(self):
            raise SystemExit(0)
        __repr__ = __str__
    def number(x):
        raise Nasty()
    """
    result = attack(pool, source)["number"]
    assert result.status is not CheckStatus.PASSED
