"""The pages of the room: the candidate's link, the lobby, and the room from both sides.

The pages are empty frames: what is in the room comes over its WebSocket, to each as they may see it.
"""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from interviews import links
from interviews.access import candidate_or_404
from interviews.http import SignedInRequest
from interviews.models import Interview


@require_safe
@never_cache
def join(request: HttpRequest, token: str) -> HttpResponse:
    """The candidate's link. A browser that followed it before keeps its place; a new one waits in the lobby."""
    interview = links.find_interview(token)
    if interview is None:
        # Somebody who holds a link that once was good may know that it is over, and nothing else.
        gone = Interview.objects.filter(link_hash=links.hash_token(token)).exists()
        return render(request, "interviews/room/dead_link.html", {"gone": gone}, status=410 if gone else 404)
    response = redirect("interviews:candidate_room", interview.public_id)
    cookie = request.COOKIES.get(links.cookie_name(interview))
    if cookie is None or links.find_session(interview, cookie) is None:
        _, cookie = links.open_session(interview)
    response.set_cookie(
        links.cookie_name(interview),
        cookie,
        expires=interview.link_expires_at,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )
    # The token is in the address: it must not travel on as a referrer.
    response["Referrer-Policy"] = "no-referrer"
    return response


@require_safe
@never_cache
def candidate_room(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The lobby, which becomes the room when somebody lets the candidate in."""
    try:
        participant = candidate_or_404(request, public_id)
    except Http404:
        return render(request, "interviews/room/dead_link.html", {"gone": False}, status=404)
    context = {"participant": participant, "public_id": public_id, "now": timezone.now()}
    return render(request, "interviews/room/candidate.html", context)


@require_safe
@never_cache
@login_required
def room(request: SignedInRequest, public_id: UUID) -> HttpResponse:
    """The room with its private side."""
    interview = get_object_or_404(Interview.objects.select_related("candidate"), public_id=public_id)
    if not request.user.has_perm("interviews.conduct_interview", interview):
        raise Http404
    context = {
        "interview": interview,
        "public_id": public_id,
        "candidate_url": links.candidate_url(interview),
        "scores": request.user.has_perm("interviews.score_interview", interview),
    }
    return render(request, "interviews/room/interviewer.html", context)
