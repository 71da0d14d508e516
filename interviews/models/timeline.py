from __future__ import annotations

from django.db import models

from interviews.models.accounts import User
from interviews.models.interviews import CandidateSession, Interview, InterviewQuestion


class ActorKind(models.TextChoices):
    USER = "user", "Interviewer"
    CANDIDATE = "candidate", "Candidate"
    SYSTEM = "system", "System"


class EntryKind(models.TextChoices):
    EDIT = "edit", "Edit"
    NOTE = "note", "Note"
    LOBBY = "lobby", "Waiting in the lobby"
    ADMITTED = "admitted", "Admitted"
    JOINED = "joined", "Joined"
    LEFT = "left", "Left"
    QUESTION = "question", "Question opened"
    STARTED = "started", "Interview started"
    ENDED = "ended", "Interview ended"
    RUN_REQUESTED = "run_requested", "Run requested"
    RUN_FINISHED = "run_finished", "Run finished"
    SCORECARD = "scorecard", "Scorecard submitted"


class TimelineEntry(models.Model):
    """One accepted edit or event. Ordered by ``sequence`` within its interview; written by ``interviews.timeline`` alone."""

    interview = models.ForeignKey(Interview, on_delete=models.CASCADE, related_name="timeline")
    sequence = models.PositiveIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=16, choices=EntryKind.choices)
    actor_kind = models.CharField(max_length=12, choices=ActorKind.choices)
    user = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    candidate_session = models.ForeignKey(
        CandidateSession, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    question = models.ForeignKey(
        InterviewQuestion, on_delete=models.PROTECT, null=True, blank=True, related_name="timeline"
    )
    #: Never sent to the candidate when set.
    private = models.BooleanField(default=False)
    payload = models.JSONField(default=dict)
    #: A Yjs update (``kind`` is ``edit``).
    update = models.BinaryField(null=True, blank=True)

    class Meta:
        ordering = ["interview", "sequence"]
        verbose_name_plural = "timeline entries"
        constraints = [models.UniqueConstraint(fields=["interview", "sequence"], name="timeline_sequence_once")]
        indexes = [models.Index(fields=["question", "kind", "sequence"], name="timeline_by_question")]

    def __str__(self) -> str:
        return f"{self.sequence} {self.kind}"


class DocumentSnapshot(models.Model):
    """The whole document up to and with ``sequence``, so that opening it replays only what came later."""

    question = models.ForeignKey(InterviewQuestion, on_delete=models.CASCADE, related_name="snapshots")
    epoch = models.PositiveIntegerField()
    sequence = models.PositiveIntegerField()
    state = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["question", "sequence"]
        constraints = [models.UniqueConstraint(fields=["question", "epoch", "sequence"], name="snapshot_sequence_once")]

    def __str__(self) -> str:
        return f"{self.question} at {self.sequence}"
