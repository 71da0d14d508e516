from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from gpu_runner.protocol import (
    CheckResult,
    CheckStatus,
    Heartbeat,
    Mode,
    Outcome,
    RankExit,
    RunResult,
    Started,
)
from grading import runs
from grading.models import Run, RunState, Submission
from grading.runs import InvalidRun, RunNotPossible, TooManyRuns, record_event, record_result, start_run
from interviews.access import Participant
from interviews.models import Check, EntryKind, Interview, InterviewQuestion, InterviewStatus, QuestionVersion

MakeRun = Callable[..., Run]


def result_of(run: Run, **fields: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "run_id": str(run.public_id),
        "attempt": run.attempt,
        "token": run.token,
        "outcome": Outcome.EXITED,
        "wall_s": 0.5,
    }
    return RunResult(**{**defaults, **fields}).to_wire()


def started(run: Run, **who: Any) -> None:
    event = Started(run_id=str(run.public_id), host="host-1", slot="slot-1", ranks=run.ranks)
    record_event(event.to_wire(), **{"attempt": run.attempt, "token": run.token, **who})


def entries(run: Run, kind: EntryKind) -> list[dict[str, Any]]:
    return list(run.interview.timeline.filter(kind=kind).values_list("payload", flat=True))


class TestStarting:
    def test_a_run_keeps_the_code_and_who_asked(self, candidate: Participant, question: InterviewQuestion) -> None:
        run = start_run(candidate, question, mode=Mode.PROGRAM, ranks=2, text="print(1)\n")
        assert (run.number, run.state, run.ranks, run.attempt) == (1, RunState.QUEUED, 2, 1)
        assert run.requested_by_candidate == candidate.session
        assert run.requested_by_user is None
        assert run.submission.text == "print(1)\n"
        (payload,) = entries(run, EntryKind.RUN_REQUESTED)
        assert payload == {"run": 1, "run_id": str(run.public_id), "mode": "program", "ranks": 2}

    def test_numbers_count_within_the_interview(
        self, panelist: Participant, live_interview: Interview, make_run: MakeRun
    ) -> None:
        make_run()
        second = live_interview.questions.select_related("version").get(position=2)
        assert start_run(panelist, second, mode=Mode.PROGRAM, ranks=1, text="").number == 2

    @pytest.mark.parametrize(
        ("text", "words"),
        [("a\0b", "NUL"), ("\ud800", "surrogate"), ("x" * 200_001, "larger than 200 kB")],
    )
    def test_code_that_cannot_be_kept_is_refused(
        self, candidate: Participant, question: InterviewQuestion, text: str, words: str
    ) -> None:
        with pytest.raises(InvalidRun, match=words):
            start_run(candidate, question, mode=Mode.PROGRAM, ranks=1, text=text)
        assert not Submission.objects.exists()

    @pytest.mark.parametrize("ranks", [0, -1, 5])
    def test_ranks_stay_within_the_question(
        self, candidate: Participant, question: InterviewQuestion, ranks: int
    ) -> None:
        with pytest.raises(InvalidRun, match="1 to 4 ranks"):
            start_run(candidate, question, mode=Mode.PROGRAM, ranks=ranks, text="")

    def test_one_run_of_a_question_at_a_time(
        self, candidate: Participant, question: InterviewQuestion, make_run: MakeRun
    ) -> None:
        make_run()
        with pytest.raises(RunNotPossible, match="still going on"):
            start_run(candidate, question, mode=Mode.PROGRAM, ranks=1, text="")
        assert Run.objects.count() == 1

    def test_nothing_runs_after_the_end(
        self, candidate: Participant, question: InterviewQuestion, live_interview: Interview
    ) -> None:
        Interview.objects.filter(pk=live_interview.pk).update(status=InterviewStatus.ENDED)
        with pytest.raises(RunNotPossible, match="has ended"):
            start_run(candidate, question, mode=Mode.PROGRAM, ranks=1, text="")

    def test_many_runs_in_a_minute_are_refused_with_the_time_to_wait(
        self,
        candidate: Participant,
        question: InterviewQuestion,
        make_run: MakeRun,
        settings: Settings,
    ) -> None:
        settings.RUNS_PER_MINUTE = 2
        now = timezone.now()
        for age_s in (50, 10):
            make_run(
                state=RunState.FINISHED,
                finished_at=now,
                outcome=Outcome.EXITED,
                requested_at=now - timedelta(seconds=age_s),
            )
        with pytest.raises(TooManyRuns, match=r"2 runs in a minute. Please wait (9|10) seconds"):
            start_run(candidate, question, mode=Mode.PROGRAM, ranks=1, text="")
        Run.objects.update(requested_at=now - timedelta(seconds=61))
        assert start_run(candidate, question, mode=Mode.PROGRAM, ranks=1, text="").number == 3

    def test_a_question_with_an_unknown_limit_is_refused_by_name(
        self, candidate: Participant, question: InterviewQuestion
    ) -> None:
        question.version.limits = {"walls": 3}
        with pytest.raises(InvalidRun, match="walls"):
            start_run(candidate, question, mode=Mode.PROGRAM, ranks=1, text="")
        assert not Run.objects.exists()

    def test_a_question_without_checks_cannot_be_checked(
        self, candidate: Participant, question: InterviewQuestion
    ) -> None:
        Check.objects.filter(version=question.version).delete()
        with pytest.raises(InvalidRun, match="no checks"):
            start_run(candidate, question, mode=Mode.CHECKS, ranks=1, text="")


class TestTheSpec:
    def test_a_program_gets_no_checks(self, make_run: MakeRun) -> None:
        spec = runs.spec_of(make_run())
        assert (spec.checks, spec.checks_source) == ((), "")
        assert (spec.files[0].path, spec.files[0].text, spec.entry) == ("main.py", "print(1)\n", "main.py")

    def test_checks_get_their_source_and_a_minute(self, make_run: MakeRun) -> None:
        spec = runs.spec_of(make_run(Mode.CHECKS))
        assert [(check.name, check.hidden) for check in spec.checks] == [("small", False), ("large", True)]
        assert spec.checks_source == "# PRIVATE checks\n"
        assert spec.limits.wall_s == 60

    @pytest.mark.parametrize(
        ("named", "mode", "wall_s"), [({}, Mode.PROGRAM, 3), ({}, Mode.CHECKS, 60), ({"wall_s": 25}, Mode.CHECKS, 25)]
    )
    def test_the_question_names_its_limits(
        self, make_run: MakeRun, named: dict[str, float], mode: Mode, wall_s: float
    ) -> None:
        QuestionVersion.objects.update(limits={"wall_s": 3, "memory_mb": 512}, check_limits=named)
        run = make_run(mode)
        limits = runs.spec_of(Run.objects.get(pk=run.pk)).limits
        assert (limits.wall_s, limits.memory_mb) == (wall_s, 512)


class TestEvents:
    def test_a_start_makes_it_running_once(self, make_run: MakeRun) -> None:
        run = make_run()
        started(run)
        run.refresh_from_db()
        assert (run.state, run.host, run.slot) == (RunState.RUNNING, "host-1", "slot-1")
        first = run.started_at
        started(run)
        run.refresh_from_db()
        assert run.started_at == first

    def test_a_heartbeat_keeps_it_alive(self, make_run: MakeRun) -> None:
        run = make_run()
        started(run)
        long_ago = timezone.now() - timedelta(minutes=1)
        Run.objects.filter(pk=run.pk).update(heartbeat_at=long_ago)
        record_event(Heartbeat(run_id=str(run.public_id)).to_wire(), attempt=1, token=run.token)
        run.refresh_from_db()
        assert run.heartbeat_at is not None
        assert run.heartbeat_at > long_ago

    @pytest.mark.parametrize("forged", [{"token": "guess"}, {"attempt": 2}])
    def test_only_the_current_attempt_may_speak(self, make_run: MakeRun, forged: dict[str, Any]) -> None:
        run = make_run()
        started(run, **forged)
        run.refresh_from_db()
        assert run.state == RunState.QUEUED

    def test_a_late_start_does_not_revive_a_finished_run(self, make_run: MakeRun) -> None:
        run = make_run()
        record_result(result_of(run))
        started(run)
        run.refresh_from_db()
        assert run.state == RunState.FINISHED

    @pytest.mark.parametrize(
        "wire", [None, [], "x", {}, {"kind": "started"}, {"kind": "heartbeat", "version": 1, "run_id": "x"}]
    )
    def test_what_does_not_fit_changes_nothing(
        self, make_run: MakeRun, wire: object, caplog: pytest.LogCaptureFixture
    ) -> None:
        run = make_run()
        record_event(wire, attempt=1, token=run.token)
        run.refresh_from_db()
        assert run.state == RunState.QUEUED
        assert "malformed" in caplog.text


class TestResults:
    def test_a_result_becomes_the_row(self, make_run: MakeRun) -> None:
        run = make_run(ranks=2)
        started(run)
        record_result(
            result_of(
                run,
                ranks=(RankExit(rank=0, exit_code=0, stdout_tail="hello\n"), RankExit(rank=1, signal="SIGSEGV")),
                outcome=Outcome.SIGNALLED,
                first_failed_rank=1,
                cpu_s=0.25,
                peak_memory_mb=77.0,
                diagnosis={"sentence": "rank 1 crashed"},
            )
        )
        run.refresh_from_db()
        assert (run.state, run.outcome, run.first_failed_rank, run.cpu_s) == ("finished", "signalled", 1, 0.25)
        assert [(e["rank"], e["exit_code"], e["signal"]) for e in run.rank_exits] == [
            (0, 0, None),
            (1, None, "SIGSEGV"),
        ]
        assert run.diagnosis == {"sentence": "rank 1 crashed"}
        (payload,) = entries(run, EntryKind.RUN_FINISHED)
        assert payload == {"run": 1, "run_id": str(run.public_id), "outcome": "signalled"}

    def test_a_duplicate_result_is_ignored(self, make_run: MakeRun) -> None:
        run = make_run()
        record_result(result_of(run, message="first"))
        record_result(result_of(run, message="second", outcome=Outcome.TIMED_OUT))
        run.refresh_from_db()
        assert (run.outcome, run.message) == ("exited", "first")
        assert len(entries(run, EntryKind.RUN_FINISHED)) == 1

    @pytest.mark.parametrize("forged", [{"token": "guess"}, {"attempt": 2}, {"run_id": "nobody"}])
    def test_a_forged_result_is_ignored(self, make_run: MakeRun, forged: dict[str, Any]) -> None:
        run = make_run()
        record_result(result_of(run, **forged))
        run.refresh_from_db()
        assert run.state == RunState.QUEUED

    def test_the_result_of_a_former_attempt_is_ignored(self, make_run: MakeRun) -> None:
        run = make_run()
        old = result_of(run)
        runs.send_again(run, new_attempt=True)
        record_result(old)
        run.refresh_from_db()
        assert (run.state, run.attempt) == (RunState.QUEUED, 2)
        record_result(result_of(run))
        run.refresh_from_db()
        assert run.state == RunState.FINISHED

    def test_a_malformed_result_ends_the_run_it_can_prove_to_be_of(self, make_run: MakeRun) -> None:
        run = make_run()
        record_result({**result_of(run), "outcome": "splendid"})
        run.refresh_from_db()
        assert (run.outcome, run.message) == ("runner_error", runs.HOST_UNCLEAR)

    @pytest.mark.parametrize("wire", [None, 3, {}, {"run_id": "x", "attempt": 1, "token": "t"}])
    def test_a_malformed_result_without_proof_changes_nothing(self, make_run: MakeRun, wire: object) -> None:
        run = make_run()
        record_result(wire)
        record_result({**result_of(run, token="guess"), "outcome": "splendid"})
        run.refresh_from_db()
        assert run.state == RunState.QUEUED

    def test_every_check_asked_for_gets_a_row(self, make_run: MakeRun) -> None:
        run = make_run(Mode.CHECKS)
        passed = CheckResult(name="small", hidden=False, status=CheckStatus.PASSED, message="good", duration_s=0.1)
        forged = CheckResult(name="invented", hidden=False, status=CheckStatus.PASSED)
        record_result(result_of(run, checks=(passed, forged)))
        assert list(run.checks.values_list("name", "title", "hidden", "status", "message")) == [
            ("small", "Small numbers", False, "passed", "good"),
            ("large", "PRIVATE large numbers", True, "not_reported", ""),
        ]

    def test_the_timeline_does_not_even_count_hidden_checks(self, make_run: MakeRun) -> None:
        run = make_run(Mode.CHECKS)
        record_result(result_of(run, checks=(CheckResult(name="large", hidden=True, status=CheckStatus.PASSED),)))
        (payload,) = entries(run, EntryKind.RUN_FINISHED)
        assert payload == {
            "run": 1,
            "run_id": str(run.public_id),
            "outcome": "exited",
            "visible_passed": 0,
            "visible_checks": 1,
        }

    def test_text_that_no_database_holds_is_kept_readable(self, make_run: MakeRun) -> None:
        run = make_run()
        record_result(
            result_of(
                run,
                message="a\0b\ud800c",
                ranks=(RankExit(rank=0, exit_code=0, stdout_tail="x\0\udcffy"),),
                diagnosis={"k\0": [float("nan"), 1.5, "\ud83d\ude00"]},
                wall_s=float("inf"),
            )
        )
        run.refresh_from_db()
        assert run.message == "a\ufffdb\ufffdc"
        assert run.rank_exits[0]["stdout_tail"] == "x\ufffd\ufffdy"
        assert run.diagnosis == {"k\ufffd": [None, 1.5, "😀"]}
        assert run.wall_s is None

    def test_ranks_that_do_not_exist_are_left_out(self, make_run: MakeRun) -> None:
        run = make_run(ranks=2)
        record_result(
            result_of(run, ranks=(RankExit(rank=-1), RankExit(rank=1), RankExit(rank=7)), first_failed_rank=9)
        )
        run.refresh_from_db()
        assert [rank_exit["rank"] for rank_exit in run.rank_exits] == [1]
        assert run.first_failed_rank is None

    def test_a_result_before_its_start_still_tells_when_it_started(self, make_run: MakeRun) -> None:
        run = make_run()
        record_result(result_of(run, wall_s=2.0))
        run.refresh_from_db()
        assert run.started_at is not None
        assert run.finished_at is not None
        assert (run.finished_at - run.started_at).total_seconds() == pytest.approx(2.0)


class TestStopping:
    def test_a_queued_run_ends_at_once(self, make_run: MakeRun, panelist: Participant) -> None:
        run = make_run()
        runs.request_stop(run, panelist)
        run.refresh_from_db()
        assert (run.state, run.outcome, run.message) == ("finished", "cancelled", "Stopped by Ada Interviewer.")

    def test_a_running_run_waits_for_its_host(self, make_run: MakeRun, candidate: Participant) -> None:
        run = make_run()
        started(run)
        runs.request_stop(run, candidate)
        run.refresh_from_db()
        assert run.state == RunState.RUNNING
        assert run.cancel_requested_at is not None
        record_result(result_of(run, outcome=Outcome.CANCELLED, message="killed"))
        run.refresh_from_db()
        assert (run.outcome, run.message) == ("cancelled", "Stopped by Cleo Candidate.")

    def test_a_finished_run_stays_as_it_is(self, make_run: MakeRun, candidate: Participant) -> None:
        run = make_run()
        record_result(result_of(run, message="done"))
        runs.request_stop(Run.objects.get(pk=run.pk), candidate)
        run.refresh_from_db()
        assert (run.outcome, run.message, run.cancel_requested_at) == ("exited", "done", None)


def test_a_run_that_never_ran_took_no_time(make_run: MakeRun) -> None:
    run = make_run()
    assert runs.end_run(run, Outcome.CANCELLED, "Stopped.")
    run.refresh_from_db()
    assert run.wall_s is None
