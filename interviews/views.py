"""The pages of interviews, questions, kits and the profile. The room's pages are in ``views_room``."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from interviews import agenda, catalogue, links, scheduling
from interviews.forms import InterviewForm, KitForm, ProfileForm
from interviews.http import SignedInRequest
from interviews.models import Interview, Kit, Question
from interviews.showcase import showcase

INTERVIEWS_PER_PAGE = 25


@require_safe
@login_required
def home(request: SignedInRequest) -> HttpResponse:
    return render(request, "interviews/home.html", {"agenda": agenda.for_user(request.user)})


# Interviews


@require_safe
@login_required
@permission_required("interviews.make_interview", raise_exception=True)
def interview_list(request: SignedInRequest) -> HttpResponse:
    show = agenda.Show.of(request.GET.get("show", ""))
    search = request.GET.get("q", "").strip()
    found = agenda.search(Interview.objects.visible_to(request.user), search)
    page = Paginator(agenda.shown(found, show).with_people(), INTERVIEWS_PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "show": show, "search": search, "counts": agenda.counts(found)}
    return render(request, "interviews/interview_list.html", context)


@login_required
@permission_required("interviews.make_interview", raise_exception=True)
def interview_new(request: SignedInRequest) -> HttpResponse:
    form = InterviewForm(request.POST or None, user=request.user, kit=request.GET.get("kit"))
    if request.method == "POST" and form.is_valid():
        interview = scheduling.create_interview(form.arrangement(), by=request.user)
        messages.success(request, f"{interview} is arranged. Send the candidate their link.")
        return redirect(interview)
    status = 422 if form.is_bound else 200
    return render(request, "interviews/interview_form.html", {"form": form}, status=status)


@require_safe
@login_required
def interview(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    shown = _interview_or_404(request, public_id, "interviews.see_interview")
    context = {
        "interview": shown,
        "candidate_url": links.candidate_url(shown),
        "questions": shown.questions.select_related("version__question"),
    }
    return render(request, "interviews/interview_detail.html", context)


@login_required
def interview_edit(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    changed = _interview_or_404(request, public_id, "interviews.change_interview")
    if changed.is_over:
        messages.error(request, "This interview has ended; it can no longer be changed.")
        return redirect(changed)
    form = InterviewForm(request.POST or None, user=request.user, interview=changed)
    if request.method == "POST" and form.is_valid():
        try:
            scheduling.rearrange(changed, form.arrangement())
        except scheduling.InterviewTouched:
            messages.error(request, "Something happened in the interview just now, so its kit can no longer change.")
        else:
            messages.success(request, "The changes are saved.")
        return redirect(changed)
    context = {"form": form, "interview": changed}
    return render(request, "interviews/interview_form.html", context, status=422 if form.is_bound else 200)


@require_POST
@login_required
def interview_cancel(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    cancelled = _interview_or_404(request, public_id, "interviews.change_interview")
    words = str(cancelled)
    try:
        scheduling.cancel(cancelled)
    except scheduling.InterviewTouched:
        messages.error(request, "Something happened in this interview already, so it stays. Revoke the link instead.")
        return redirect("interviews:interview", public_id)
    messages.success(request, f"{words} is called off. The candidate's link opens nothing any more.")
    return redirect("interviews:interviews")


@require_POST
@login_required
def link_renew(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    renewed = _interview_or_404(request, public_id, "interviews.change_interview")
    scheduling.renew_link(renewed)
    messages.success(request, "The candidate has a new link. The old one opens nothing any more.")
    return redirect(renewed)


@require_POST
@login_required
def link_revoke(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    revoked = _interview_or_404(request, public_id, "interviews.change_interview")
    scheduling.revoke_link(revoked)
    messages.success(request, "The candidate's link opens nothing any more.")
    return redirect(revoked)


# Questions and kits


@require_safe
@login_required
@permission_required("interviews.see_bank", raise_exception=True)
def question_list(request: SignedInRequest) -> HttpResponse:
    wanted = catalogue.Filter.of(request.GET)
    context = {"wanted": wanted, "versions": catalogue.find(wanted)}
    return render(request, "interviews/question_list.html", context)


@require_safe
@login_required
@permission_required("interviews.see_bank", raise_exception=True)
def question(request: SignedInRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(Question, slug=slug)
    version = catalogue.version_or_404(shown, request.GET.get("version"))
    context = {"question": shown, "version": version, "versions": shown.versions.defer_texts()}
    return render(request, "interviews/question_detail.html", context)


@require_safe
@login_required
@permission_required("interviews.see_bank", raise_exception=True)
def kit_list(request: SignedInRequest) -> HttpResponse:
    return render(request, "interviews/kit_list.html", {"kits": Kit.objects.with_questions()})


@require_safe
@login_required
@permission_required("interviews.see_bank", raise_exception=True)
def kit(request: SignedInRequest, pk: int) -> HttpResponse:
    shown = get_object_or_404(Kit.objects.with_questions().select_related("created_by"), pk=pk)
    return render(request, "interviews/kit_detail.html", {"kit": shown})


@login_required
@permission_required("interviews.edit_bank", raise_exception=True)
def kit_edit(request: SignedInRequest, pk: int | None = None) -> HttpResponse:
    """A new kit (no ``pk``) or one that is there. A press of a button of the list saves nothing."""
    changed = get_object_or_404(Kit, pk=pk) if pk is not None else None
    button = request.POST.get("do", "")
    if button:
        form = KitForm(instance=changed, draft=request.POST)
        form.press(button, request.POST.get("add_question", ""))
    else:
        form = KitForm(request.POST or None, instance=changed)
    if request.method == "POST" and form.is_valid():
        saved = form.save_with_questions(by=request.user)
        messages.success(request, f"{saved} is saved.")
        return redirect(saved)
    status = 422 if form.is_bound else 200
    return render(request, "interviews/kit_form.html", {"form": form, "kit": changed}, status=status)


# Oneself, and the language of the pages


@login_required
def profile(request: SignedInRequest) -> HttpResponse:
    form = ProfileForm(request.POST or None, instance=request.user)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Your profile is saved.")
        return redirect("interviews:profile")
    return render(request, "interviews/profile.html", {"form": form}, status=422 if form.is_bound else 200)


@require_safe
def components(request: SignedInRequest) -> HttpResponse:
    """Every token and component in every state, for those who build pages."""
    if not (settings.DEBUG or request.user.is_staff):
        raise Http404
    return render(request, "components/page.html", showcase())


def _interview_or_404(request: SignedInRequest, public_id: UUID, permission: str) -> Interview:
    """Strangers get 404: whether an interview exists is nobody's business."""
    found = get_object_or_404(Interview.objects.with_people().select_related("created_by"), public_id=public_id)
    if not request.user.has_perm(permission, found):
        raise Http404
    return found
