"""The library for authors of questions, in real containers: what it finds wrong, and what it says of it to whom."""

from __future__ import annotations

from textwrap import dedent

import pytest

from gpu_runner.protocol import CheckResult, CheckStatus, Outcome
from gpu_runner.slots import SlotPool
from tests.gpu_runner.runs import checks, run

pytestmark = pytest.mark.container

IMPORTS = """
import math
import torch
from checking import EachRank, FarApart, check, inside
"""


def check_one(
    pool: SlotPool, source: str, body: str, *, hidden: bool = False, decorator: str = "@check('One')"
) -> CheckResult:
    """The result of one check with this body."""
    indented = "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    checks_source = f"{IMPORTS}\n{decorator}\ndef one(candidate):\n{indented}\n"
    spec = checks(dedent(source), checks_source, ["one"], hidden=["one"] if hidden else [])
    (result,) = run(pool, spec).result.checks
    return result


ADD = "def add(a, b=0):\n    return a + b\n"
IDENTITY = "def same(x):\n    return x\n"


def test_a_right_answer_passes(pool: SlotPool) -> None:
    result = check_one(pool, ADD, "candidate.call('add', 1, b=2).expect_int(3)")
    assert (result.status, result.title, result.message) == (CheckStatus.PASSED, "One", "")
    assert result.duration_s is not None


def test_a_visible_check_tells_values_and_a_hidden_one_only_the_fault(pool: SlotPool) -> None:
    body = "candidate.call('add', 40, b=2).expect_int(43, known={'the two are not added right': 42})"
    visible = check_one(pool, ADD, body)
    assert visible.status is CheckStatus.FAILED
    assert visible.message == "add: the number is not right. It is 42, expected 43. The call was add(40, b=2)."
    hidden = check_one(pool, ADD, body, hidden=True)
    assert hidden.message == "add: the number is not right."
    for result in (visible, hidden):
        assert "expected 43" in result.detail
        assert "This is what comes out when the two are not added right." in result.detail


@pytest.mark.parametrize(
    ("returned", "kind"),
    [("3.0", "a float"), ("True", "a bool"), ("'3'", "a str"), ("None", "None"), ("torch.tensor(3)", "a tensor")],
)
def test_only_an_int_is_an_int(pool: SlotPool, returned: str, kind: str) -> None:
    source = f"import torch\ndef f():\n    return {returned}\n"
    result = check_one(pool, source, "candidate.call('f').expect_int(3)", hidden=True)
    assert result.message == f"f: an int is wanted, this is {kind}."


@pytest.mark.parametrize(
    "value",
    ["None", "True", "-5", "2**100", "0.1", "math.inf", "'ü\\0'", "[1, (2.0, 'x')]", "{'a': [None], 'b': {}}"],
)
def test_plain_values_go_there_and_back(pool: SlotPool, value: str) -> None:
    result = check_one(pool, IDENTITY, f"candidate.call('same', {value}).expect_equal({value})")
    assert result.status is CheckStatus.PASSED, result.detail


def test_tensors_of_all_dtypes_and_shapes_go_there_and_back(pool: SlotPool) -> None:
    body = """
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool):
        for shape in ((), (0,), (3,), (2, 0, 4), (2, 3, 4)):
            x = torch.randint(0, 2, shape, generator=candidate.generator()).to(dtype)
            candidate.call("same", x).expect_equal(x)
    x = torch.tensor([1.0, math.nan, -math.inf])
    candidate.call("same", x).expect_equal(x)
    candidate.call("same", [x, {"x": x}]).expect_equal([x, {"x": x}])
    """
    result = check_one(pool, IDENTITY, body)
    assert result.status is CheckStatus.PASSED, result.detail


def test_the_candidate_gets_a_view_with_the_strides_that_were_asked_for(pool: SlotPool) -> None:
    source = """
    def look(x):
        assert x.untyped_storage().size() > x.numel() * x.element_size()
        return [list(x.shape), list(x.stride()), x.storage_offset()]
    """
    body = "candidate.call('look', inside(torch.ones(2, 3), fill=math.nan, row_stride=7)).expect_equal([[2, 3], [7, 1], 64])"
    result = check_one(pool, source, body)
    assert result.status is CheckStatus.PASSED, result.detail


def test_writing_beside_the_output_is_found(pool: SlotPool) -> None:
    source = """
    def fill(out):
        out.as_strided((2, 4), out.stride(), out.storage_offset()).fill_(1.0)
    """
    body = """
    out = inside(torch.zeros(2, 3), fill=math.nan)
    answer = candidate.call("fill", out)
    answer.expect_none()
    assert out.view_of(answer.after(out)).tolist() == [[1.0] * 3] * 2
    answer.expect_outside_unchanged(out)
    """
    result = check_one(pool, source, body)
    assert result.status is CheckStatus.FAILED
    assert "wrote to memory outside the tensor" in result.message
    assert "2 of the" in result.detail


def test_reading_beside_the_input_gives_what_lies_there(pool: SlotPool) -> None:
    source = "def total(x):\n    return x.as_strided((4,), (1,), x.storage_offset()).sum()\n"
    body = (
        "candidate.call('total', inside(torch.ones(3), fill=math.nan)).expect_tensor(torch.tensor(3.0), rel_tol=1e-6)"
    )
    result = check_one(pool, source, body, hidden=True)
    assert result.message == "total: all of its values are wrong, and some are NaN."


def test_rows_far_apart_take_no_more_room_than_their_values(pool: SlotPool) -> None:
    source = "def ends(x):\n    return [x.stride(0), x[0, 0].item(), x[2, 1].item()]\n"
    body = """
    x = FarApart(torch.arange(6.0).reshape(3, 2).half(), row_stride=1 << 30)
    candidate.call("ends", x).expect_equal([1 << 30, 0.0, 5.0])
    """
    result = check_one(pool, source, body)
    assert result.status is CheckStatus.PASSED, result.detail


def test_a_changed_input_is_found(pool: SlotPool) -> None:
    source = "def double(x):\n    return x.mul_(2)\n"
    body = "candidate.call('double', torch.ones(2), inputs_back=True).expect_inputs_unchanged()"
    result = check_one(pool, source, body)
    assert result.status is CheckStatus.FAILED
    assert result.message.startswith("double: an input was changed, it should be left as it was. It was float32")


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("x.double()", "another dtype"),
        ("x[None]", "another shape"),
        ("x[:0]", "another shape"),
        ("x[:1]", "another shape"),
        ("x * float('nan')", "some are NaN"),
        ("x + 1e-3", "values are wrong"),
        ("x.tolist()", "a tensor is wanted, this is a list"),
        ("x.to_sparse()", "a tensor is wanted"),
        ("x.to('meta')", "a tensor is wanted"),
    ],
)
def test_a_tensor_must_fit_in_shape_dtype_and_values(pool: SlotPool, returned: str, words: str) -> None:
    body = """
    expected = torch.ones(4, dtype=torch.float64)
    candidate.call("f", torch.ones(4)).expect_tensor(expected, dtype=torch.float32, abs_tol=1e-5)
    """
    result = check_one(pool, f"def f(x):\n    return {returned}\n", body, hidden=True)
    assert result.status is CheckStatus.FAILED
    assert words in result.message


def test_tolerance_goes_with_the_scale_of_the_values(pool: SlotPool) -> None:
    source = "def f(x):\n    return x + 1\n"
    body = """
    x = torch.tensor([1e6, 0.0], dtype=torch.float64)
    candidate.call("f", x).expect_tensor(x, rel_tol=1e-5)
    candidate.call("f", x).expect_tensor(x, rel_tol=1e-7)
    """
    result = check_one(pool, source, body)
    assert result.status is CheckStatus.FAILED
    assert "(tolerance 0.1)" in result.message


def test_numbers_within_a_relative_tolerance(pool: SlotPool) -> None:
    source = "def f(x):\n    return x * (1 + 1e-7)\n"
    assert (
        check_one(pool, source, "candidate.call('f', 3).expect_close(3.0, rel_tol=1e-6)").status is CheckStatus.PASSED
    )
    failed = check_one(pool, source, "candidate.call('f', 3).expect_close(3.0, rel_tol=1e-9, known={'x': 3.0000003})")
    assert failed.status is CheckStatus.FAILED
    assert "when x" in failed.detail
    nan = check_one(pool, source, "candidate.call('f', float('nan')).expect_close(3.0, rel_tol=1e9)")
    assert nan.status is CheckStatus.FAILED


def test_an_exception_is_told_with_its_place(pool: SlotPool) -> None:
    source = "def f(x):\n    return [1, 2][x]\n"
    result = check_one(pool, source, "candidate.call('f', 5).expect_int(1)")
    assert result.status is CheckStatus.FAILED
    assert (
        result.message == "f: it raises IndexError at main.py:2. It says: list index out of range. The call was f(5)."
    )
    assert "IndexError: list index out of range" in result.output
    assert "/opt/" not in result.output
    hidden = check_one(pool, source, "candidate.call('f', 5).expect_int(1)", hidden=True)
    assert hidden.message == "f: it raises IndexError at main.py:2."


def test_an_expected_exception_passes_and_another_fails(pool: SlotPool) -> None:
    source = "class Mine(ValueError): pass\ndef f(x):\n    raise Mine('no') if x else KeyError('k')\n"
    assert check_one(pool, source, "candidate.expect_raises('ValueError', 'f', 1)").status is CheckStatus.PASSED
    other = check_one(pool, source, "candidate.expect_raises(('ValueError', 'TypeError'), 'f', 0)")
    assert "f: it should raise ValueError or TypeError and raises KeyError." in other.message
    none = check_one(pool, ADD, "candidate.expect_raises('ValueError', 'add', 1)")
    assert none.message == "add: it should raise ValueError and does not. It returned 1. The call was add(1)."


def test_a_missing_function_is_named(pool: SlotPool) -> None:
    result = check_one(pool, ADD, "candidate.call('subtract', 1).expect_int(1)")
    assert (result.status, result.message) == (CheckStatus.FAILED, "Your file has no function subtract.")


def test_the_demo_block_does_not_run(pool: SlotPool) -> None:
    source = f"{ADD}\nif __name__ == '__main__':\n    raise SystemExit(3)\n"
    assert check_one(pool, source, "candidate.call('add', 1).expect_int(1)").status is CheckStatus.PASSED


RANKS = """
import time
import torch
import torch.distributed as dist

def total(x):
    x = x.clone()
    dist.all_reduce(x)
    return x

def pass_on(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    other = torch.empty_like(x)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, (rank + 1) % size), dist.P2POp(dist.irecv, other, (rank - 1) % size)]
    ):
        work.wait()
    return other

def where():
    import os
    return [dist.get_rank(), dist.get_world_size(), os.environ["LOCAL_RANK"]]

def one_raises():
    if dist.get_rank() == 1:
        raise RuntimeError("bad")
    dist.barrier()

def one_hangs():
    if dist.get_rank() == 2:
        while True:
            time.sleep(0.05)

def one_dies():
    import os
    if dist.get_rank() == 1:
        os._exit(5)
    dist.barrier()
"""


def test_ranks_are_joined_and_each_gets_its_own_argument(pool: SlotPool) -> None:
    body = """
    xs = [torch.full((2,), float(k)) for k in range(3)]
    with candidate.ranks(3) as ranks:
        ranks.call("total", EachRank(xs)).expect_tensors([torch.full((2,), 3.0)] * 3)
        assert ranks.call("where").values == [[k, 3, str(k)] for k in range(3)]
    """
    result = check_one(pool, RANKS, body)
    assert result.status is CheckStatus.PASSED, result.detail


def test_messages_and_collectives_are_noted(pool: SlotPool) -> None:
    body = """
    xs = [torch.full((5,), float(k)) for k in range(3)]
    with candidate.ranks(3) as ranks:
        answers = ranks.call("pass_on", EachRank(xs))
        answers.expect_tensors([xs[2], xs[0], xs[1]])
        answers.expect_messages(messages=[1, 1, 1], items=[5, 5, 5])
        answers.expect_no_collectives()
        assert [a.notes.receives[0].peer for a in answers] == [2, 0, 1]
        ranks.call("total", EachRank(xs)).expect_no_collectives()
    """
    result = check_one(pool, RANKS, body)
    assert result.status is CheckStatus.FAILED
    assert result.message.endswith("Called: all_reduce.")


def test_a_wrong_rank_is_named_and_the_interviewer_sees_all(pool: SlotPool) -> None:
    body = """
    xs = [torch.full((2,), float(k)) for k in range(3)]
    with candidate.ranks(3) as ranks:
        answers = ranks.call("pass_on", EachRank(xs))
    answers.expect_tensors([xs[2], xs[1], xs[0]], known={"each holds its left neighbour's": [xs[2], xs[0], xs[1]]})
    """
    result = check_one(pool, RANKS, body, hidden=True)
    assert result.message == "Rank 1: all of its values are wrong."
    assert "This is what comes out when each holds its left neighbour's." in result.detail
    assert "Rank 2: got float32 of shape (2,) with [1, 1], expected float32 of shape (2,) with [0, 0]." in result.detail


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        ("one_raises", CheckStatus.FAILED, "Rank 1: it raises RuntimeError at main.py:26."),
        (
            "one_hangs",
            CheckStatus.TIMED_OUT,
            "Rank 2 did not come back from running one_hangs in time. When last seen, rank 2 stood at main.py:32",
        ),
        ("one_dies", CheckStatus.CRASHED, "Rank 1 ended itself with exit code 5 while running one_dies"),
    ],
)
def test_the_rank_at_fault_is_named(pool: SlotPool, function: str, status: CheckStatus, words: str) -> None:
    body = f"""
    with candidate.ranks(4) as ranks:
        ranks.call("{function}")
    """
    result = check_one(pool, RANKS, body, decorator="@check('One', time_limit_s=2)")
    assert result.status is status
    assert words in result.message


def test_the_submission_runs_as_a_program(pool: SlotPool) -> None:
    source = "import os\nprint(f'rank {os.environ[\"RANK\"]} reads {input()}')\n"
    body = """
    done = candidate.run(ranks=2, stdin="hello")
    done.expect_success()
    done.expect_printed("rank 1 reads hello", rank=1)
    done.expect_printed("rank 2")
    """
    result = check_one(pool, source, body)
    assert result.status is CheckStatus.FAILED
    assert result.message == "Run as a program, rank 0 does not print what it should. Looked for 'rank 2'."


def test_a_program_that_does_not_end_runs_out_of_time(pool: SlotPool) -> None:
    source = "while True: pass\n"
    result = check_one(pool, source, "candidate.run().expect_success()", decorator="@check('One', time_limit_s=0.5)")
    assert result.status is CheckStatus.TIMED_OUT


def test_random_numbers_are_others_each_time_and_the_same_for_a_seed(pool: SlotPool) -> None:
    checks_source = f"""{IMPORTS}
@check("One")
def one(candidate):
    candidate.call("same", torch.rand(1, generator=candidate.generator()).item()).expect_equal(-1.0)

@check("Two")
def two(candidate):
    candidate.call("same", torch.rand(1, generator=candidate.generator()).item()).expect_equal(-1.0)
"""

    def messages(seed: int) -> list[str]:
        ran = run(pool, checks(IDENTITY, checks_source, ["one", "two"], seed=seed))
        return [result.message for result in ran.result.checks]

    first, again, other = messages(5), messages(5), messages(6)
    assert first == again
    assert len({*first, *other}) == 4


def test_a_broken_check_is_not_held_against_the_candidate(pool: SlotPool) -> None:
    result = check_one(pool, ADD, "candidate.call('add', 1)\n1 / 0")
    assert result.status is CheckStatus.NOT_REPORTED
    assert "no fault of yours" in result.message
    assert "ZeroDivisionError" in result.detail
    assert "1 / 0" in result.detail
    silent = check_one(pool, ADD, "candidate.call('add', 1)")
    assert silent.status is CheckStatus.NOT_REPORTED
    assert silent.detail == "The check expected nothing of the candidate."


def test_checks_that_do_not_load_or_are_not_there_do_not_report(pool: SlotPool) -> None:
    ran = run(pool, checks(ADD, "import nonsense\n", ["one", "two"]))
    assert [result.status for result in ran.result.checks] == [CheckStatus.NOT_REPORTED] * 2
    assert "No module named 'nonsense'" in ran.result.checks[0].detail
    absent = run(pool, checks(ADD, f"{IMPORTS}\n", ["one"])).result.checks[0]
    assert (absent.status, absent.detail) == (CheckStatus.NOT_REPORTED, "checks.py has no check named one.")


def test_output_is_kept_with_its_rank(pool: SlotPool) -> None:
    source = "import os, sys\nprint('loaded')\ndef f():\n    print('in', os.environ['RANK'])\n    return 1\n"
    body = """
    with candidate.ranks(2) as ranks:
        ranks.call("f")[1].expect_int(1)
    """
    result = check_one(pool, source, body)
    assert result.output == "[0] loaded\n[0] in 0\n[1] loaded\n[1] in 1\n"


def test_a_crash_in_one_check_does_not_reach_the_next(pool: SlotPool) -> None:
    source = "import os\ndef f(x):\n    if x == 1:\n        os.kill(os.getpid(), 11)\n    return x\n"
    checks_source = IMPORTS + "".join(
        f"@check('{k}')\ndef check_{k}(candidate):\n    candidate.call('f', {k}).expect_int({k})\n" for k in range(3)
    )
    ran = run(pool, checks(source, checks_source, ["check_0", "check_1", "check_2"]))
    assert ran.result.outcome is Outcome.EXITED
    statuses = [result.status for result in ran.result.checks]
    assert statuses == [CheckStatus.PASSED, CheckStatus.CRASHED, CheckStatus.PASSED]
    assert "was ended by SIGSEGV (it touched memory that is not its own)" in ran.result.checks[1].message
