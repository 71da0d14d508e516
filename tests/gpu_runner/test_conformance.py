"""What every runtime must keep of the contract: the order of events and each outcome."""

from __future__ import annotations

import threading
import time

import pytest

from gpu_runner.protocol import Finished, Heartbeat, Outcome, Output, RunEvent, Started, Stream
from gpu_runner.slots import SlotPool
from tests.gpu_runner.runs import program, run

pytestmark = pytest.mark.container


def test_a_run_starts_prints_and_finishes_once(pool: SlotPool) -> None:
    ran = run(pool, program("import torch\nprint(torch.ones(3).sum().item())"))
    assert ran.kinds == ["started", "output", "finished"]
    assert ran.text() == "3.0\n"
    assert ran.result.outcome is Outcome.EXITED
    assert [(rank.exit_code, rank.signal) for rank in ran.result.ranks] == [(0, None)]
    assert ran.result.ranks[0].stdout_tail == "3.0\n"
    assert ran.result.message == ""


def test_the_result_carries_the_token_and_the_card(pool: SlotPool) -> None:
    result = run(pool, program("pass", run_id="run-9", token="secret-9", attempt=3, seed=7)).result
    assert (result.run_id, result.token, result.attempt) == ("run-9", "secret-9", 3)
    assert result.card is not None
    assert result.card.host == "test-host"
    assert result.card.runtime.startswith("runc")
    assert result.card.torch.startswith("2.")
    assert (result.card.seed, result.card.rehearsed) == (7, False)


def test_every_event_goes_over_the_wire_and_back(pool: SlotPool) -> None:
    ran = run(pool, program("print('hello')\nimport time\ntime.sleep(1.2)"))
    assert [RunEvent.parse(event.to_wire()) for event in ran.events] == ran.events


def test_times_count_up_from_the_start(pool: SlotPool) -> None:
    ran = run(pool, program("import time\nprint(1)\ntime.sleep(0.2)\nprint(2)"))
    times = [event.at_s for event in ran.events]
    assert times == sorted(times)
    first, last = ran.outputs
    assert last.at_s - first.at_s > 0.15
    assert 0.2 < ran.result.wall_s < 10


def test_a_quiet_run_has_heartbeats(pool: SlotPool) -> None:
    ran = run(pool, program("import time\ntime.sleep(2.3)"))
    assert sum(isinstance(event, Heartbeat) for event in ran.events) == 2


def test_an_exception_is_told_with_its_line_and_without_our_frames(pool: SlotPool) -> None:
    ran = run(pool, program("def f():\n    raise ValueError('no')\n\nf()\n"))
    assert ran.text(Stream.STDERR) == (
        "Traceback (most recent call last):\n"
        '  File "/box/main.py", line 4, in <module>\n    f()\n'
        "  File \"/box/main.py\", line 2, in f\n    raise ValueError('no')\n"
        "ValueError: no\n"
    )
    assert ran.result.outcome is Outcome.EXITED
    assert ran.result.ranks[0].exit_code == 1
    assert ran.result.message == "The program raised ValueError at main.py:2."


def test_a_syntax_error_shows_line_and_caret(pool: SlotPool) -> None:
    ran = run(pool, program("a = 1\nb = = 2\n"))
    shown = ran.text(Stream.STDERR)
    assert 'File "/box/main.py", line 2' in shown
    assert "^" in shown
    assert "rendezvous" not in shown
    assert ran.result.message == "The program raised SyntaxError at main.py:2."


@pytest.mark.parametrize(
    ("source", "code"),
    [("import sys\nsys.exit(7)", 7), ("raise SystemExit", 0), ("import os\nos._exit(3)", 3), ("exit('bad')", 1)],
)
def test_exit_codes_are_those_of_python(pool: SlotPool, source: str, code: int) -> None:
    result = run(pool, program(source)).result
    assert result.outcome is Outcome.EXITED
    assert result.ranks[0].exit_code == code


def test_a_crash_names_its_signal(pool: SlotPool) -> None:
    result = run(pool, program("import ctypes\nctypes.string_at(0)")).result
    assert result.outcome is Outcome.SIGNALLED
    assert result.ranks[0].signal == "SIGSEGV"
    assert result.message == "The program was ended by SIGSEGV (segmentation fault)."


def test_a_rank_that_finished_and_dies_in_its_tear_down_has_exited(pool: SlotPool) -> None:
    result = run(pool, program("import atexit, os\natexit.register(os.abort)\nprint('done')")).result
    assert result.outcome is Outcome.EXITED
    assert result.ranks[0].exit_code == 0


def test_standard_input_is_given_and_then_ends(pool: SlotPool) -> None:
    assert run(pool, program("import sys\nprint(input(), sys.stdin.read())", stdin="a\nb")).text() == "a b\n"
    without = run(pool, program("input()"))
    assert "EOFError" in without.text(Stream.STDERR)


def test_the_entry_runs_as_a_script_does(pool: SlotPool) -> None:
    source = (
        "import sys, os, helper, inspect\n"
        "def f(): pass\n"
        "print(__name__, __file__, sys.argv, os.getcwd(), helper.VALUE, sys.modules['__main__'].f is f)\n"
        "print(inspect.getsource(f), end='')\n"
    )
    ran = run(pool, program(source, files={"helper.py": "VALUE = 5"}))
    assert ran.text() == "__main__ /box/main.py ['/box/main.py'] /box 5 True\ndef f(): pass\n"


def test_a_file_named_like_a_module_of_the_library_breaks_nothing(pool: SlotPool) -> None:
    ran = run(
        pool, program("import torch, random, queue\nprint(random.__file__)", files={"random.py": "1/0", "nt.py": "1/0"})
    )
    assert "/box" not in ran.text()
    assert ran.result.ranks[0].exit_code == 0


def test_odd_source_encodings_run(pool: SlotPool) -> None:
    assert run(pool, program("\ufeffprint('bom')")).text() == "bom\n"
    assert run(pool, program("print('a')\r\nprint('b')\r\n")).text() == "a\nb\n"
    assert run(pool, program("# only a comment")).kinds == ["started", "finished"]
    assert run(pool, program("")).result.outcome is Outcome.EXITED


def test_text_that_no_database_takes_is_replaced(pool: SlotPool) -> None:
    ran = run(pool, program("import sys\nsys.stdout.buffer.write(b'a\\xff\\0b\\n')"))
    assert ran.text() == "a\ufffd\ufffdb\n"


def test_lines_come_whole_and_an_unfinished_one_after_a_moment(pool: SlotPool) -> None:
    source = (
        "import sys, time\nfor part in ('one ', 'line\\n', 'rest'):\n"
        "    print(part, end='', flush=True); time.sleep(0.03)\ntime.sleep(0.4)"
    )
    texts = [event.text for event in run(pool, program(source)).outputs]
    assert texts == ["one line\n", "rest"]


def test_a_seed_makes_a_run_repeatable_and_no_seed_a_fresh_one(pool: SlotPool) -> None:
    source = "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), torch.rand(1).item())"
    assert run(pool, program(source, seed=5)).text() == run(pool, program(source, seed=5)).text()
    assert run(pool, program(source)).text() != run(pool, program(source)).text()


def test_threads_and_exit_handlers_are_waited_for(pool: SlotPool) -> None:
    source = (
        "import atexit, threading, time\natexit.register(print, 'handler')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('main')"
    )
    assert run(pool, program(source)).text() == "main\nthread\nhandler\n"


def test_what_stands_in_buffers_is_written_at_the_end(pool: SlotPool) -> None:
    source = "import io, sys\nout = open(1, 'w', closefd=False)\nout.write('own buffer\\n')\nsys.stdout.write('last')"
    assert sorted(run(pool, program(source)).text()) == sorted("own buffer\nlast")


def test_a_stop_ends_the_run_within_a_second(pool: SlotPool) -> None:
    cancel = threading.Event()
    ended = []
    for event in pool.execute(
        program("import signal\nsignal.signal(15, signal.SIG_IGN)\nprint('on')\nwhile True: pass"), cancel=cancel
    ):
        if isinstance(event, Output):
            cancel.set()
            stopped_s = time.monotonic()
        ended.append(event)
    assert time.monotonic() - stopped_s < 1
    assert isinstance(ended[-1], Finished)
    assert ended[-1].result.outcome is Outcome.CANCELLED
    assert ended[-1].result.message == "Stopped on request."
    assert (ended[-1].result.ranks[0].exit_code, ended[-1].result.ranks[0].signal) == (None, None)


def test_a_run_that_was_stopped_before_it_began_does_not_begin(pool: SlotPool) -> None:
    cancel = threading.Event()
    cancel.set()
    ran = run(pool, program("print(1)"), cancel=cancel)
    assert ran.kinds == ["finished"]
    assert ran.result.outcome is Outcome.CANCELLED


def test_two_runs_at_once_do_not_meet_and_a_third_waits(pool: SlotPool) -> None:
    source = (
        "import socket, time\nserver = socket.create_server(('127.0.0.1', 29500))\n"
        "open('/tmp/mine', 'x')\ntime.sleep(0.5)\nprint('done')"
    )
    wall, results = time.monotonic(), []
    threads = [threading.Thread(target=lambda: results.append(run(pool, program(source)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ran.text() for ran in results] == ["done\n"] * 3
    assert sum("queued" in ran.kinds for ran in results) == 1
    assert time.monotonic() - wall > 1.0


def test_ranks_find_their_place_as_under_torchrun(pool: SlotPool) -> None:
    source = (
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "value = torch.ones(2) * dist.get_rank()\ndist.all_reduce(value)\n"
        "print(os.environ['LOCAL_RANK'], os.environ['LOCAL_WORLD_SIZE'], value.tolist())\n"
        "dist.destroy_process_group()"
    )
    ran = run(pool, program(source, ranks=4))
    assert [ran.text(rank=rank) for rank in range(4)] == [f"{rank} 4 [6.0, 6.0]\n" for rank in range(4)]
    started = ran.events[0]
    assert isinstance(started, Started)
    assert started.ranks == 4
    assert len(ran.result.ranks) == 4


def test_the_first_failing_rank_is_named_and_the_others_are_stopped(pool: SlotPool) -> None:
    source = (
        "import os, time\nif os.environ['RANK'] == '2':\n    raise ValueError('x')\n"
        "print('here', flush=True)\ntime.sleep(30)"
    )
    ran = run(pool, program(source, ranks=4))
    assert ran.result.outcome is Outcome.EXITED
    assert ran.result.first_failed_rank == 2
    assert ran.result.message == "Rank 2 raised ValueError at main.py:3; ranks 0, 1 and 3 were stopped."
    assert [rank.exit_code for rank in ran.result.ranks] == [None, None, 1, None]
    assert ran.text(rank=3) == "here\n"
    assert "ValueError: x" in ran.result.ranks[2].stderr_tail


def test_a_rank_that_takes_others_along_is_the_one_named(pool: SlotPool) -> None:
    source = (
        "import os, torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "dist.barrier()\nif dist.get_rank() == 1:\n    os.abort()\n"
        "dist.all_reduce(torch.ones(1))"
    )
    ran = run(pool, program(source, ranks=3))
    assert ran.result.outcome is Outcome.SIGNALLED
    assert ran.result.first_failed_rank == 1
    assert ran.result.message.startswith("Rank 1 was ended by SIGABRT (abort)")


def test_ranks_spawned_by_the_program_work(pool: SlotPool) -> None:
    source = (
        "import torch, torch.distributed as dist, torch.multiprocessing as mp\n"
        "def work(rank, size):\n"
        "    dist.init_process_group('gloo', rank=rank, world_size=size)\n"
        "    value = torch.ones(1)\n    dist.all_reduce(value)\n    print(int(value.item()))\n"
        "    dist.destroy_process_group()\n"
        "if __name__ == '__main__':\n    mp.spawn(work, args=(3,), nprocs=3)\n"
    )
    ran = run(pool, program(source))
    assert ran.text() == "3\n3\n3\n"
    assert ran.result.ranks[0].exit_code == 0


def test_a_triton_kernel_runs_in_the_interpreter_and_the_card_says_so(pool: SlotPool) -> None:
    source = (
        "import torch, triton, triton.language as tl\n\n"
        "@triton.jit\ndef double(x, y, n, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    inside = at < n\n"
        "    tl.store(y + at, 2 * tl.load(x + at, mask=inside), mask=inside)\n\n"
        "x = torch.arange(5.0)\ny = torch.empty(5)\ndouble[(1,)](x, y, 5, BLOCK=8)\nprint(y.tolist())\n"
    )
    ran = run(pool, program(source))
    assert ran.text() == "[0.0, 2.0, 4.0, 6.0, 8.0]\n"
    assert ran.result.card is not None
    assert ran.result.card.rehearsed


def test_a_time_out_says_where_each_rank_was(pool: SlotPool) -> None:
    source = (
        "import os, time\ndef wait():\n    time.sleep(60)\n\nif os.environ['RANK'] == '1':\n"
        "    wait()\nelse:\n    time.sleep(60)\n"
    )
    result = run(pool, program(source, ranks=2, wall_s=1)).result
    assert result.outcome is Outcome.TIMED_OUT
    assert result.message == "Stopped after 1 s."
    assert result.diagnosis is not None
    assert result.diagnosis["sentence"] == (
        "When the run was stopped: rank 0 at main.py:8 in <module>; rank 1 at main.py:3 in wait."
    )
    assert result.diagnosis["ranks"][1]["stack"] == ["main.py:3 in wait", "main.py:6 in <module>"]


@pytest.mark.parametrize(
    "files",
    [{"x" * 300 + ".py": ""}, {"data.txt": "x" * 3_000_000}, {"main.py/helper.py": ""}],
    ids=["a name too long", "too large", "a file for a folder"],
)
def test_files_that_do_not_fit_are_the_submissions_fault(pool: SlotPool, files: dict[str, str]) -> None:
    ran = run(pool, program("print(1)", files=files, file_mb=2))
    assert ran.result.outcome is Outcome.EXITED
    assert ran.result.ranks[0].exit_code == 1
    assert ran.text(Stream.STDERR).startswith("The files could not be put into the box: ")


def test_files_lie_where_they_are_named(pool: SlotPool) -> None:
    files = {"pack/age/__init__.py": "VALUE = 3", "pack/data.txt": "text"}
    ran = run(pool, program("import pack.age\nprint(pack.age.VALUE, open('pack/data.txt').read())", files=files))
    assert ran.text() == "3 text\n"


def test_the_torchrun_command_works(pool: SlotPool) -> None:
    worker = (
        "import os, torch.distributed as dist\ndist.init_process_group('gloo')\ndist.barrier()\n"
        "os.write(1, f'{dist.get_rank()} of {dist.get_world_size()}\\n'.encode())\ndist.destroy_process_group()"
    )
    source = (
        "import subprocess\nsubprocess.run(['torchrun', '--standalone', '--nproc_per_node=2', 'worker.py'], check=True)"
    )
    ran = run(pool, program(source, files={"worker.py": worker}, wall_s=60))
    assert sorted(ran.text().splitlines()) == ["0 of 2", "1 of 2"], ran.text(Stream.STDERR)
