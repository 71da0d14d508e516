"""The pages of scorecards and reports. What a scorecard's page saves meanwhile is answered in JSON."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from grading import evidence, reports, scoring, sheets
from grading.forms import NOT_ASSESSED, RatingForm, SummaryForm
from grading.models import Rating, Recommendation, Scorecard
from interviews.http import SignedInRequest
from interviews.models import Criterion, Interview, InterviewQuestion

HTTP_LOCKED = 423


@require_safe
@login_required
def scorecard(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    interview = _interview_or_404(request, public_id)
    context: dict[str, Any] = {"interview": interview}
    if interview.has_panel_member(request.user):
        sheet = sheets.sheet(interview, request.user)
        context |= {"sheet": sheet, "recommendations": Recommendation.choices}
    return render(request, "grading/scorecard.html", context)


@require_safe
@login_required
def scorecard_panel(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    """The scorecard of one question, for the private side of the room."""
    interview = _interview_or_404(request, public_id)
    question = _question_or_404(interview, request.GET.get("position", str(interview.current_position)))
    context: dict[str, Any] = {"interview": interview, "compact": True}
    if interview.has_panel_member(request.user):
        context["sheet"] = sheets.sheet(interview, request.user, position=question.position)
    return render(request, "grading/scorecard_panel.html", context)


@require_POST
@login_required
def rating_save(request: SignedInRequest, public_id: UUID, position: int, criterion_id: int) -> HttpResponse:
    interview = _scored_interview_or_404(request, public_id)
    question = _question_or_404(interview, str(position))
    criterion = get_object_or_404(Criterion, pk=criterion_id, rubric__version=question.version_id)
    form = RatingForm(request.POST)
    if not form.is_valid():
        return _refusal(form.errors.as_data().popitem()[1][0].messages[0], 422)
    try:
        rating = scoring.save_rating(
            interview, request.user, question, criterion, form.draft(), version=form.cleaned_data["version"]
        )
    except scoring.StaleDraft as stale:
        known = Rating.objects.get(scorecard__author=request.user, question=question, criterion=criterion)
        return _refusal(str(stale), 409, saved=_rating_wire(interview, known))
    except scoring.ScorecardLocked as locked:
        return _refusal(str(locked), HTTP_LOCKED)
    except scoring.ScoringRefused as refused:
        return _refusal(str(refused), 422)
    rated, total = scoring.progress(interview, rating.scorecard)
    return JsonResponse({"saved": _rating_wire(interview, rating), "rated": rated, "total": total})


@require_POST
@login_required
def summary_save(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    interview = _scored_interview_or_404(request, public_id)
    form = SummaryForm(request.POST)
    if not form.is_valid():
        return _refusal(form.errors.as_data().popitem()[1][0].messages[0], 422)
    try:
        saved = scoring.save_summary(interview, request.user, form.draft(), version=form.cleaned_data["version"])
    except scoring.StaleDraft as stale:
        known = Scorecard.objects.get(interview=interview, author=request.user)
        return _refusal(str(stale), 409, saved=_summary_wire(known))
    except scoring.ScorecardLocked as locked:
        return _refusal(str(locked), HTTP_LOCKED)
    except scoring.ScoringRefused as refused:
        return _refusal(str(refused), 422)
    rated, total = scoring.progress(interview, saved)
    return JsonResponse({"saved": _summary_wire(saved), "rated": rated, "total": total})


@require_safe
@login_required
def citable(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    """What an evidence note of a question can cite."""
    interview = _scored_interview_or_404(request, public_id)
    question = _question_or_404(interview, request.GET.get("position", ""))
    return render(request, "grading/citable.html", {"citations": evidence.citable(interview, question)})


@login_required
def scorecard_submit(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    """Asks whether to submit, naming what is missing (a fragment for the dialog); a POST submits."""
    interview = _scored_interview_or_404(request, public_id)
    if request.method == "POST":
        try:
            scoring.submit(interview, request.user)
        except scoring.ScoringRefused as refused:
            messages.error(request, str(refused))
        else:
            messages.success(request, "Your scorecard is submitted. It no longer changes.")
        return redirect("grading:scorecard", public_id)
    own = Scorecard.objects.filter(interview=interview, author=request.user).first()
    own = own or Scorecard(interview=interview, author=request.user)
    context = {
        "interview": interview,
        "scorecard": own,
        "missing": scoring.missing_from(interview, own),
        "page": reverse("grading:scorecard", args=[public_id]),
    }
    return render(request, "grading/scorecard_submit.html", context)


@require_safe
@login_required
def report(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    interview = _interview_or_404(request, public_id)
    return render(request, "grading/report.html", {"report": reports.report(interview, request.user)})


def _interview_or_404(request: SignedInRequest, public_id: UUID) -> Interview:
    """Strangers get 404: whether an interview exists is nobody's business."""
    interview = get_object_or_404(Interview.objects.with_people().select_related("created_by"), public_id=public_id)
    if not request.user.has_perm("interviews.see_report", interview):
        raise Http404
    return interview


def _scored_interview_or_404(request: SignedInRequest, public_id: UUID) -> Interview:
    """The interview, for a member of its panel."""
    interview = _interview_or_404(request, public_id)
    if not interview.has_panel_member(request.user):
        raise Http404
    return interview


def _question_or_404(interview: Interview, position: str) -> InterviewQuestion:
    if not position.isdecimal() or len(position) > 4:
        raise Http404
    return get_object_or_404(InterviewQuestion, interview=interview, position=int(position))


def _refusal(words: str, status: int, **fields: Any) -> JsonResponse:
    return JsonResponse({"error": words, **fields}, status=status)


def _rating_wire(interview: Interview, rating: Rating) -> dict[str, Any]:
    entries = rating.cites.select_related("user").defer("update").order_by("sequence")
    citations = [evidence.citation(interview, entry) for entry in entries]
    return {
        "version": scoring.version_of(rating),
        "at": rating.updated_at.isoformat(),
        "wants": scoring.wants(rating),
        "level": NOT_ASSESSED if rating.not_assessed else str(rating.level or ""),
        "evidence": rating.evidence,
        "cites": [{"sequence": cited.sequence, "label": cited.label} for cited in citations],
    }


def _summary_wire(saved: Scorecard) -> dict[str, Any]:
    return {
        "version": scoring.version_of(saved),
        "at": saved.updated_at.isoformat(),
        "wants": "" if saved.recommendation else "a recommendation",
        "recommendation": saved.recommendation,
        "summary": saved.summary,
    }
