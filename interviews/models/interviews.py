from __future__ import annotations

import uuid
import zoneinfo
from datetime import datetime, timedelta

from django.db import models
from django.urls import reverse
from django.utils import timezone

from interviews.models.accounts import User
from interviews.models.questions import Kit, QuestionVersion


class InterviewStatus(models.TextChoices):
    SCHEDULED = "scheduled", "Scheduled"
    LIVE = "live", "Live"
    ENDED = "ended", "Ended"


class Candidate(models.Model):
    name = models.CharField(max_length=120)
    email = models.EmailField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class InterviewQuerySet(models.QuerySet["Interview"]):
    def visible_to(self, user: User) -> InterviewQuerySet:
        """What a person may see in a list: their panels' interviews, those they made, everything for hiring admins."""
        if user.is_superuser or user.groups.filter(name="hiring admin").exists():
            return self
        return self.filter(models.Q(panel__user=user) | models.Q(created_by=user)).distinct()

    def with_people(self) -> InterviewQuerySet:
        """The candidate, the kit and the panel cost no query of their own."""
        panel = PanelMember.objects.select_related("user").order_by("-lead", "user__name")
        return self.select_related("candidate", "kit").prefetch_related(models.Prefetch("panel", panel))


class Interview(models.Model):
    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    candidate = models.ForeignKey(Candidate, on_delete=models.PROTECT, related_name="interviews")
    kit = models.ForeignKey(Kit, on_delete=models.PROTECT, related_name="interviews")
    starts_at = models.DateTimeField()
    #: The zone in which it was arranged; every reader sees their own beside it.
    time_zone = models.CharField(max_length=64, default="UTC")
    duration_minutes = models.PositiveSmallIntegerField(default=45)
    video_url = models.URLField(blank=True)
    status = models.CharField(max_length=12, choices=InterviewStatus.choices, default=InterviewStatus.SCHEDULED)
    current_position = models.PositiveSmallIntegerField(default=1)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="created_interviews")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    #: The candidate's link is derived from this and the secret key (``interviews.links``); a new value revokes the old link.
    link_nonce = models.CharField(max_length=64)
    link_hash = models.CharField(max_length=64, unique=True)
    link_expires_at = models.DateTimeField()
    link_revoked_at = models.DateTimeField(null=True, blank=True)
    #: The sequence of the newest timeline entry. Raised by ``timeline.append`` alone, which thereby takes turns.
    timeline_length = models.PositiveIntegerField(default=0)

    panel_users = models.ManyToManyField(User, through="PanelMember", related_name="panel_interviews")

    objects = InterviewQuerySet.as_manager()

    class Meta:
        ordering = ["-starts_at"]

    def __str__(self) -> str:
        return f"Interview with {self.candidate}"

    def get_absolute_url(self) -> str:
        return reverse("interviews:interview", args=[self.public_id])

    @property
    def ends_at(self) -> datetime:
        return self.starts_at + timedelta(minutes=self.duration_minutes)

    @property
    def local_starts_at(self) -> datetime:
        return self.starts_at.astimezone(zoneinfo.ZoneInfo(self.time_zone))

    @property
    def is_over(self) -> bool:
        return self.status == InterviewStatus.ENDED

    @property
    def is_live(self) -> bool:
        return self.status == InterviewStatus.LIVE

    @property
    def has_started(self) -> bool:
        return self.status != InterviewStatus.SCHEDULED

    @property
    def is_overdue(self) -> bool:
        """Its time is over, and nobody started it."""
        return self.status == InterviewStatus.SCHEDULED and self.ends_at < timezone.now()

    @property
    def is_untouched(self) -> bool:
        """Nothing happened in it yet: no candidate came, nobody wrote or ran anything."""
        return self.status == InterviewStatus.SCHEDULED and self.timeline_length == 0

    @property
    def is_link_good(self) -> bool:
        """Whether the candidate's link still opens the room."""
        return self.link_revoked_at is None and self.link_expires_at > timezone.now()

    def has_panel_member(self, user: User) -> bool:
        # Panels are small, and a panel that was loaded already costs no query.
        return any(member.user_id == user.pk for member in self.panel.all())


class PanelMember(models.Model):
    interview = models.ForeignKey(Interview, on_delete=models.CASCADE, related_name="panel")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="panels")
    lead = models.BooleanField(default=False)

    class Meta:
        ordering = ["interview", "-lead", "user"]
        constraints = [models.UniqueConstraint(fields=["interview", "user"], name="panel_member_once")]

    def __str__(self) -> str:
        return str(self.user)


class InterviewQuestion(models.Model):
    """A question version pinned to an interview; it owns one shared document."""

    interview = models.ForeignKey(Interview, on_delete=models.CASCADE, related_name="questions")
    position = models.PositiveSmallIntegerField()
    version = models.ForeignKey(QuestionVersion, on_delete=models.PROTECT, related_name="uses")
    #: Raised whenever the server starts the document anew, so that an old page never merges two histories.
    document_epoch = models.PositiveIntegerField(default=1)
    opened_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["interview", "position"]
        constraints = [models.UniqueConstraint(fields=["interview", "position"], name="interview_position_once")]

    def __str__(self) -> str:
        return f"{self.position}. {self.version.title}"


class CandidateSession(models.Model):
    """One browser that followed the candidate's link. The cookie holds a random token, the row its hash."""

    interview = models.ForeignKey(Interview, on_delete=models.CASCADE, related_name="candidate_sessions")
    token_hash = models.CharField(max_length=64, unique=True)
    display_name = models.CharField(max_length=120)
    created_at = models.DateTimeField(auto_now_add=True)
    admitted_at = models.DateTimeField(null=True, blank=True)
    admitted_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.display_name

    @property
    def is_admitted(self) -> bool:
        return self.admitted_at is not None and self.removed_at is None
