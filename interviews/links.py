"""The candidate's link, and the cookie it is exchanged for.

The link's token is 256 bits, derived from the secret key and a random nonce in the row, so that an interviewer can copy it
at any time although the database holds only its hash. A new nonce revokes the old link.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from interviews.models import CandidateSession, Interview

#: How long after its end an interview's link still opens the room.
LINK_GRACE = timedelta(hours=12)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _token(nonce: str) -> str:
    digest = hmac.digest(settings.SECRET_KEY.encode(), b"candidate link " + nonce.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def issue(interview: Interview, *, expires_at: datetime | None = None) -> None:
    """Gives the (not yet saved) interview a new link; any former one is dead from the next save on."""
    interview.link_nonce = secrets.token_urlsafe(32)
    interview.link_hash = hash_token(_token(interview.link_nonce))
    interview.link_expires_at = expires_at or interview.ends_at + LINK_GRACE
    interview.link_revoked_at = None


def candidate_url(interview: Interview) -> str:
    """The full address to send to the candidate."""
    path: str = reverse("interviews:join", args=[_token(interview.link_nonce)])
    return f"{settings.BASE_URL}{path}"


def find_interview(token: str) -> Interview | None:
    """The interview whose link this is, unless it expired or was revoked."""
    return Interview.objects.filter(
        link_hash=hash_token(token), link_revoked_at=None, link_expires_at__gt=timezone.now()
    ).first()


def cookie_name(interview: Interview) -> str:
    return f"candidate_{interview.public_id.hex}"


def open_session(interview: Interview) -> tuple[CandidateSession, str]:
    """A new candidate's session, in the lobby, and the token for its cookie."""
    token = secrets.token_urlsafe(32)
    session = CandidateSession.objects.create(
        interview=interview, token_hash=hash_token(token), display_name=interview.candidate.name
    )
    return session, token


def find_session(interview: Interview, token: str) -> CandidateSession | None:
    """The session of this cookie, unless the candidate was removed or the link is no longer good."""
    if interview.link_revoked_at is not None or interview.link_expires_at <= timezone.now():
        return None
    return CandidateSession.objects.filter(interview=interview, token_hash=hash_token(token), removed_at=None).first()
