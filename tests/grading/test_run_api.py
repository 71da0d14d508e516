from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from gpu_runner.protocol import CheckResult, CheckStatus, Mode, Outcome, RankExit
from grading.models import Run, RunState
from grading.runs import record_result
from interviews import links
from interviews.access import Participant
from interviews.models import CandidateSession, Interview, User
from tests.grading.test_runs import result_of

MakeRun = Callable[..., Run]


def ask(client: Client, interview: Interview, **wish: Any) -> Any:
    body = {"position": 1, "mode": "program", "ranks": 1, "text": "print(1)\n", **wish}
    return client.post(f"/api/interviews/{interview.public_id}/runs", body, content_type="application/json")


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def candidate_client_of(interview: Interview, *, admitted: bool, removed: bool = False) -> Client:
    client = Client()
    session, token = links.open_session(interview)
    now = timezone.now()
    CandidateSession.objects.filter(pk=session.pk).update(
        admitted_at=now if admitted else None, removed_at=now if removed else None
    )
    client.cookies[links.cookie_name(interview)] = token
    return client


@pytest.fixture
def another_interview(interview: Interview, stranger: User) -> Interview:
    another = Interview(candidate=interview.candidate, kit=interview.kit, starts_at=timezone.now(), created_by=stranger)
    links.issue(another)
    another.save()
    return another


def test_a_candidate_starts_a_run(candidate_client: Client, live_interview: Interview) -> None:
    response = ask(candidate_client, live_interview, ranks=2)
    assert response.status_code == 201
    run = response.json()
    assert (run["number"], run["position"], run["mode"], run["ranks"], run["state"]) == (1, 1, "program", 2, "queued")
    assert (run["requested_by"], run["place"], run["outcome"], run["checks"]) == ("Cleo Candidate", 1, None, [])
    assert "text" not in run
    assert candidate_client.get(f"/api/runs/{run['id']}").json()["text"] == "print(1)\n"


def test_without_ranks_the_question_decides(candidate_client: Client, live_interview: Interview) -> None:
    assert ask(candidate_client, live_interview, ranks=None).json()["ranks"] == 1


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"ranks": 9}, "1 to 4 ranks"),
        ({"mode": "dance"}, "mode"),
        ({"text": "\0"}, "NUL"),
        ({"text": "\ud800"}, ""),
        ({"text": None}, "text"),
        ({"position": "x"}, "position"),
        ({"position": 10**30}, "position"),
    ],
)
def test_a_bad_wish_is_refused_in_words(
    candidate_client: Client, live_interview: Interview, wish: dict[str, Any], words: str
) -> None:
    response = ask(candidate_client, live_interview, **wish)
    assert response.status_code == 422
    assert words in response.json()["error"]
    assert not Run.objects.exists()


def test_what_is_no_json_is_refused(candidate_client: Client, live_interview: Interview) -> None:
    url = f"/api/interviews/{live_interview.public_id}/runs"
    assert candidate_client.post(url, "{", content_type="application/json").status_code == 400


def test_a_second_run_of_an_open_question_conflicts(candidate_client: Client, live_interview: Interview) -> None:
    ask(candidate_client, live_interview)
    response = ask(candidate_client, live_interview)
    assert response.status_code == 409
    assert "still going on" in response.json()["error"]


def test_too_many_runs_are_refused_with_the_time_to_wait(
    candidate_client: Client, live_interview: Interview, settings: Settings
) -> None:
    settings.RUNS_PER_MINUTE = 1
    run = ask(candidate_client, live_interview).json()
    candidate_client.post(f"/api/runs/{run['id']}/stop")
    response = ask(candidate_client, live_interview)
    assert response.status_code == 429
    assert "Please wait" in response.json()["error"]


def test_forged_requests_of_other_sites_are_refused(live_interview: Interview, make_run: MakeRun) -> None:
    run = make_run()
    client = Client(enforce_csrf_checks=True)
    client.cookies[links.cookie_name(live_interview)] = links.open_session(live_interview)[1]
    assert ask(client, live_interview).status_code == 403
    assert client.post(f"/api/runs/{run.public_id}/stop").status_code == 403
    run.refresh_from_db()
    assert run.state == RunState.QUEUED


def test_the_header_of_our_own_page_lets_a_request_in(live_interview: Interview) -> None:
    client = Client(enforce_csrf_checks=True, headers={"X-CSRFToken": "a" * 32})
    session, token = links.open_session(live_interview)
    CandidateSession.objects.filter(pk=session.pk).update(admitted_at=timezone.now())
    client.cookies[links.cookie_name(live_interview)] = token
    client.cookies["csrftoken"] = "a" * 32
    assert ask(client, live_interview).status_code == 201


class TestWhoMay:
    def addresses(self, run: Run, interview: Interview) -> list[tuple[str, str]]:
        return [
            ("get", f"/api/interviews/{interview.public_id}/runs?position=1"),
            ("get", f"/api/runs/{run.public_id}"),
            ("get", f"/api/runs/{run.public_id}/events"),
            ("post", f"/api/runs/{run.public_id}/stop"),
            ("post", f"/api/interviews/{interview.public_id}/runs"),
        ]

    def statuses(self, client: Client, run: Run) -> set[int]:
        body = {"position": 1, "mode": "program", "text": ""}
        return {
            client.get(url).status_code
            if method == "get"
            else client.post(url, body, content_type="application/json").status_code
            for method, url in self.addresses(run, run.interview)
        }

    def test_strangers_learn_nothing(
        self, make_run: MakeRun, stranger: User, live_interview: Interview, another_interview: Interview
    ) -> None:
        run = make_run()
        for client in (
            Client(),
            client_of(stranger),
            candidate_client_of(live_interview, admitted=False),
            candidate_client_of(live_interview, admitted=True, removed=True),
            candidate_client_of(another_interview, admitted=True),
        ):
            assert self.statuses(client, run) == {404}
        run.refresh_from_db()
        assert run.state == RunState.QUEUED

    def test_a_dead_link_ends_everything(self, make_run: MakeRun, live_interview: Interview) -> None:
        run = make_run()
        client = candidate_client_of(live_interview, admitted=True)
        Interview.objects.filter(pk=live_interview.pk).update(link_revoked_at=timezone.now())
        assert self.statuses(client, run) == {404}

    def test_the_panel_and_hiring_admins_see_and_stop(
        self, make_run: MakeRun, interviewer: User, colleague: User, hiring_admin: User
    ) -> None:
        run = make_run()
        for user in (interviewer, colleague, hiring_admin):
            assert client_of(user).get(f"/api/runs/{run.public_id}").status_code == 200
        assert client_of(colleague).post(f"/api/runs/{run.public_id}/stop").json()["outcome"] == "cancelled"

    def test_a_question_that_was_not_opened_does_not_exist_for_the_candidate(
        self, candidate_client: Client, interviewer_client: Client, live_interview: Interview
    ) -> None:
        assert ask(candidate_client, live_interview, position=2).status_code == 404
        run = ask(interviewer_client, live_interview, position=2).json()
        url = f"/api/interviews/{live_interview.public_id}/runs?position=2"
        assert candidate_client.get(url).status_code == 404
        assert candidate_client.get(f"/api/runs/{run['id']}").status_code == 404
        live_interview.questions.filter(position=2).update(opened_at=timezone.now())
        assert candidate_client.get(url).json()["runs"][0]["id"] == run["id"]

    def test_unknown_runs_and_positions_do_not_exist(
        self, interviewer_client: Client, live_interview: Interview
    ) -> None:
        assert interviewer_client.get(f"/api/runs/{uuid4()}").status_code == 404
        url = f"/api/interviews/{live_interview.public_id}/runs"
        assert interviewer_client.get(f"{url}?position=9").status_code == 404
        assert interviewer_client.get(f"{url}?position=0").status_code == 422
        assert interviewer_client.get(f"{url}?position={10**30}").status_code == 422


class TestWhatEachRoleSees:
    @pytest.fixture
    def checked(self, make_run: MakeRun) -> Run:
        run = make_run(Mode.CHECKS)
        record_result(
            result_of(
                run,
                message="PRIVATE large numbers timed out",
                diagnosis={"PRIVATE": True},
                ranks=(RankExit(rank=0, exit_code=0, stdout_tail="PRIVATE"),),
                checks=(
                    CheckResult(name="small", hidden=False, status=CheckStatus.PASSED, detail="PRIVATE", output="mine"),
                    CheckResult(name="large", hidden=True, status=CheckStatus.FAILED, message="PRIVATE"),
                ),
            )
        )
        run.refresh_from_db()
        return run

    def test_a_candidate_sees_visible_checks_without_detail(
        self, candidate_client: Client, live_interview: Interview, checked: Run
    ) -> None:
        for url in (
            f"/api/runs/{checked.public_id}",
            f"/api/interviews/{live_interview.public_id}/runs?position=1",
        ):
            text = candidate_client.get(url).content.decode()
            for word in ("PRIVATE", "large", "detail", "card"):
                assert word not in text
        run = candidate_client.get(f"/api/runs/{checked.public_id}").json()
        assert [(check["name"], check["status"], check["output"]) for check in run["checks"]] == [
            ("small", "passed", "mine")
        ]
        assert run["checks_label"] == "1 of 1 visible checks passed"

    def test_an_interviewer_sees_everything(self, interviewer_client: Client, checked: Run) -> None:
        run = interviewer_client.get(f"/api/runs/{checked.public_id}").json()
        assert [(check["name"], check["hidden"], check["detail"]) for check in run["checks"]] == [
            ("small", False, "PRIVATE"),
            ("large", True, ""),
        ]
        assert run["checks_label"] == "1 of 1 visible checks passed, hidden: 0 of 1"
        assert run["card"] is None
        assert run["message"] == "PRIVATE large numbers timed out"

    def test_runs_come_newest_first(
        self, candidate_client: Client, live_interview: Interview, candidate: Participant, make_run: MakeRun
    ) -> None:
        for _ in range(3):
            record_result(result_of(make_run()))
        url = f"/api/interviews/{live_interview.public_id}/runs?position=1"
        assert [run["number"] for run in candidate_client.get(url).json()["runs"]] == [3, 2, 1]


@pytest.mark.parametrize(
    ("outcome", "fields", "title"),
    [
        (Outcome.EXITED, {"ranks": (RankExit(rank=0, exit_code=0),)}, "Finished"),
        (Outcome.EXITED, {"ranks": (RankExit(rank=0, exit_code=3),)}, "Ended with exit code 3"),
        (Outcome.SIGNALLED, {"ranks": (RankExit(rank=0, signal="SIGSEGV"),)}, "Crashed: segmentation fault"),
        (Outcome.TIMED_OUT, {}, "Stopped: took longer than 10 s"),
        (Outcome.OUT_OF_MEMORY, {}, "Out of memory"),
        (Outcome.OUTPUT_LIMIT, {}, "Stopped: printed too much"),
        (Outcome.CANCELLED, {}, "Stopped on request"),
        (Outcome.RUNNER_ERROR, {}, "The machine failed"),
    ],
)
def test_every_outcome_has_words(
    candidate_client: Client, make_run: MakeRun, outcome: Outcome, fields: dict[str, Any], title: str
) -> None:
    run = make_run()
    record_result(result_of(run, outcome=outcome, **fields))
    assert candidate_client.get(f"/api/runs/{run.public_id}").json()["outcome_title"] == title


def test_the_rank_that_failed_first_is_named(candidate_client: Client, make_run: MakeRun) -> None:
    run = make_run(ranks=3)
    ranks = (RankExit(rank=0), RankExit(rank=1, exit_code=1), RankExit(rank=2, exit_code=7))
    record_result(result_of(run, ranks=ranks, first_failed_rank=2))
    shown = candidate_client.get(f"/api/runs/{run.public_id}").json()
    assert shown["outcome_title"] == "Rank 2 failed with exit code 7"


class TestQueries:
    """Each request asks a fixed number of questions, however many runs there are."""

    @pytest.fixture
    def runs(self, make_run: MakeRun) -> list[Run]:
        runs = []
        for _ in range(5):
            run = make_run(Mode.CHECKS)
            record_result(result_of(run))
            runs.append(run)
        return runs

    def test_the_list(
        self,
        candidate_client: Client,
        live_interview: Interview,
        runs: list[Run],
        django_assert_num_queries: DjangoAssertNumQueries,
    ) -> None:
        with django_assert_num_queries(5):  # interview, session, question, runs, checks
            candidate_client.get(f"/api/interviews/{live_interview.public_id}/runs?position=1")

    def test_one_run(
        self, candidate_client: Client, runs: list[Run], django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_num_queries(4):  # run, its checks, interview, session
            candidate_client.get(f"/api/runs/{runs[0].public_id}")

    def test_starting(
        self, candidate_client: Client, live_interview: Interview, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_max_num_queries(20):
            assert ask(candidate_client, live_interview).status_code == 201


def test_the_documentation_is_for_staff(interviewer_client: Client, interviewer: User) -> None:
    assert interviewer_client.get("/api/docs").status_code == 302
    User.objects.filter(pk=interviewer.pk).update(is_staff=True)
    assert interviewer_client.get("/api/docs").status_code == 200
