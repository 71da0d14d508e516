"""The API of runs at ``/api/``: for the room's page of both roles, signed by their cookies and protected against forgery."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.conf import settings
from django.contrib.admin.views.decorators import staff_member_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import NinjaAPI
from ninja.errors import ValidationError
from ninja.security import APIKeyCookie
from pydantic import Field

from grading.models import Run, RunState
from grading.runs import InvalidRun, RunNotPossible, RunRefused, TooManyRuns, request_stop, start_run
from grading.schemas import Refusal, RunIn, RunOut, RunsOut, run_out, shown_runs, to_json
from interviews.access import Participant, participant_or_404
from interviews.models import Interview, InterviewQuestion


class BrowserCookies(APIKeyCookie):
    """Enforces the protection against forged requests. Who it is, interviewer or candidate, each operation asks."""

    param_name = settings.SESSION_COOKIE_NAME

    def authenticate(self, request: HttpRequest, key: str | None) -> bool:
        return True


#: Bounded, for a database takes no number of any size.
Position = Annotated[int, Field(ge=1, le=1000)]

api = NinjaAPI(
    title="Rendezvous",
    version="1",
    auth=BrowserCookies(),
    docs_decorator=staff_member_required,
    urls_namespace="run_api",
)

_STATUS: dict[type[RunRefused], int] = {InvalidRun: 422, RunNotPossible: 409, TooManyRuns: 429}


@api.exception_handler(RunRefused)
def _refuse(request: HttpRequest, refused: RunRefused) -> HttpResponse:
    return api.create_response(request, {"error": str(refused)}, status=_STATUS[type(refused)])


@api.exception_handler(ValidationError)
def _refuse_malformed(request: HttpRequest, invalid: ValidationError) -> HttpResponse:
    fault = invalid.errors[0]
    where = ".".join(str(part) for part in fault["loc"][2:])
    return api.create_response(request, {"error": f"{where}: {fault['msg']}".strip(": ")}, status=422)


@api.post(
    "/interviews/{uuid:interview_id}/runs",
    response={201: RunOut, 409: Refusal, 422: Refusal, 429: Refusal},
    summary="Run or check the code of a question",
)
def start(request: HttpRequest, interview_id: UUID, wish: RunIn) -> HttpResponse:
    participant = participant_or_404(request, interview_id)
    question = _question_or_404(participant, wish.position)
    ranks = question.version.ranks if wish.ranks is None else wish.ranks
    run = start_run(participant, question, mode=wish.mode, ranks=ranks, text=wish.text)
    return _answer(participant, shown_runs().get(pk=run.pk), status=201)


@api.get("/interviews/{uuid:interview_id}/runs", response=RunsOut, summary="The runs of a question, newest first")
def list_runs(request: HttpRequest, interview_id: UUID, position: Position) -> HttpResponse:
    participant = participant_or_404(request, interview_id)
    question = _question_or_404(participant, position)
    runs = list(shown_runs().filter(question=question).order_by("-number"))
    places = places_in_queue(runs)
    shown = RunsOut(runs=[run_out(run, participant.role, place=places.get(run.pk)) for run in runs])
    return HttpResponse(to_json(shown), content_type="application/json")


@api.get("/runs/{uuid:run_id}", response=RunOut, summary="One run, with its code")
def get_run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    participant, run = run_or_404(request, run_id)
    return _answer(participant, run, with_text=True)


@api.post("/runs/{uuid:run_id}/stop", response=RunOut, summary="Stop a run")
def stop(request: HttpRequest, run_id: UUID) -> HttpResponse:
    participant, run = run_or_404(request, run_id)
    request_stop(run, participant)
    return _answer(participant, shown_runs().get(pk=run.pk))


def run_or_404(request: HttpRequest, run_id: UUID) -> tuple[Participant, Run]:
    """The run, for somebody who is in its room. For everybody else there is no such run."""
    run = get_object_or_404(shown_runs().select_related("interview", "submission"), public_id=run_id)
    participant = participant_or_404(request, run.interview.public_id)
    if not _is_open_to(participant, run.question):
        raise Http404
    return participant, run


def _question_or_404(participant: Participant, position: int) -> InterviewQuestion:
    question = get_object_or_404(
        InterviewQuestion.objects.select_related("version"), interview=participant.interview, position=position
    )
    if not _is_open_to(participant, question):
        raise Http404
    return question


def _is_open_to(participant: Participant, question: InterviewQuestion) -> bool:
    """A candidate learns of a question when the interviewer opens it."""
    interview: Interview = participant.interview
    return (
        participant.is_interviewer or question.opened_at is not None or question.position == interview.current_position
    )


def _answer(participant: Participant, run: Run, *, status: int = 200, with_text: bool = False) -> HttpResponse:
    place = places_in_queue([run]).get(run.pk)
    shown = run_out(run, participant.role, place=place, with_text=with_text)
    return HttpResponse(to_json(shown), content_type="application/json", status=status)


def places_in_queue(runs: list[Run]) -> dict[int, int]:
    """For those that are queued, by primary key: 1 = next among those that wait for the same kind of host."""
    kinds = {run.gpus for run in runs if run.state == RunState.QUEUED}
    if not kinds:
        return {}
    queued = Run.objects.filter(state=RunState.QUEUED, gpus__in=kinds).order_by("requested_at", "pk")
    places: dict[int, int] = {}
    ahead = dict.fromkeys(kinds, 0)
    for pk, gpus in queued.values_list("pk", "gpus"):
        ahead[gpus] += 1
        places[pk] = ahead[gpus]
    return {run.pk: places[run.pk] for run in runs if run.pk in places}
