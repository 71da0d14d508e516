"""The rows behind runs, their checks, and scorecards."""

from __future__ import annotations

import secrets
import uuid

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from gpu_runner.protocol import CheckStatus, Mode, Outcome
from interviews.models import CandidateSession, Criterion, Interview, InterviewQuestion, TimelineEntry, User


def new_token() -> str:
    return secrets.token_urlsafe(32)


def _choices(members: type[Mode] | type[Outcome] | type[CheckStatus]) -> list[tuple[str, str]]:
    return [(member.value, member.value.replace("_", " ").capitalize()) for member in members]


class Submission(models.Model):
    """The code of one question at the moment somebody pressed Run or Check."""

    question = models.ForeignKey(InterviewQuestion, on_delete=models.PROTECT, related_name="submissions")
    text = models.TextField()
    #: Newest timeline entry of the interview when it was taken.
    timeline_sequence = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"Submission {self.pk}"


class RunState(models.TextChoices):
    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    FINISHED = "finished", "Finished"


class RunQuerySet(models.QuerySet["Run"]):
    def open(self) -> RunQuerySet:
        return self.exclude(state=RunState.FINISHED)


class Run(models.Model):
    """One execution of a submission. The row is the truth; messages and streams are wake-ups and views.

    Every change of ``state`` is a conditional UPDATE in ``grading.runs`` whose row count is looked at, so that a late,
    doubled or forged message changes nothing.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    interview = models.ForeignKey(Interview, on_delete=models.PROTECT, related_name="runs")
    question = models.ForeignKey(InterviewQuestion, on_delete=models.PROTECT, related_name="runs")
    submission = models.ForeignKey(Submission, on_delete=models.PROTECT, related_name="runs")
    #: Counts from 1 within the interview: "run 5".
    number = models.PositiveIntegerField()
    mode = models.CharField(max_length=12, choices=_choices(Mode))
    ranks = models.PositiveSmallIntegerField(default=1)
    gpus = models.PositiveSmallIntegerField(default=0)
    seed = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=12, choices=RunState.choices, default=RunState.QUEUED)
    requested_by_user = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    requested_by_candidate = models.ForeignKey(
        CandidateSession, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    requested_at = models.DateTimeField(default=timezone.now)
    attempt = models.PositiveSmallIntegerField(default=1)
    token = models.CharField(max_length=64, default=new_token)
    enqueued_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    host = models.CharField(max_length=200, blank=True)
    slot = models.CharField(max_length=120, blank=True)
    rehearsed = models.BooleanField(default=False)
    outcome = models.CharField(max_length=16, choices=_choices(Outcome), blank=True)
    message = models.TextField(blank=True)
    wall_s = models.FloatField(null=True, blank=True)
    cpu_s = models.FloatField(null=True, blank=True)
    peak_memory_mb = models.FloatField(null=True, blank=True)
    #: ``RankExit`` of each rank, as on the wire. In checks mode empty: output belongs to the checks.
    rank_exits = models.JSONField(default=list)
    first_failed_rank = models.PositiveSmallIntegerField(null=True, blank=True)
    diagnosis = models.JSONField(null=True, blank=True)
    card = models.JSONField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-requested_at"]
        constraints = [
            models.UniqueConstraint(fields=["interview", "number"], name="run_number_once_per_interview"),
            models.CheckConstraint(
                condition=models.Q(state=RunState.FINISHED, finished_at__isnull=False)
                | (~models.Q(state=RunState.FINISHED) & models.Q(finished_at__isnull=True)),
                name="run_finished_at_goes_with_state",
            ),
        ]
        indexes = [models.Index(fields=["state", "requested_at"], name="run_by_state")]

    def __str__(self) -> str:
        return f"Run {self.number}"

    @property
    def is_finished(self) -> bool:
        return self.state == RunState.FINISHED


class CheckResult(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checks")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=80)
    title = models.CharField(max_length=200)
    hidden = models.BooleanField()
    status = models.CharField(max_length=16, choices=_choices(CheckStatus))
    #: For the candidate.
    message = models.TextField(blank=True)
    #: For interviewers only.
    detail = models.TextField(blank=True)
    output = models.TextField(blank=True)
    duration_s = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ["run", "position"]
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="check_result_once_per_run")]

    def __str__(self) -> str:
        return f"{self.name}: {self.status}"


class Recommendation(models.TextChoices):
    STRONG_NO = "strong_no", "Strong no"
    NO = "no", "No"
    YES = "yes", "Yes"
    STRONG_YES = "strong_yes", "Strong yes"


class Scorecard(models.Model):
    """What one interviewer thinks of one interview. Its author's alone until submitted; locked from then on."""

    interview = models.ForeignKey(Interview, on_delete=models.PROTECT, related_name="scorecards")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="scorecards")
    recommendation = models.CharField(max_length=12, choices=Recommendation.choices, blank=True)
    summary = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    submitted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["interview", "author"]
        constraints = [models.UniqueConstraint(fields=["interview", "author"], name="scorecard_once_per_author")]

    def __str__(self) -> str:
        return f"Scorecard of {self.author}"

    @property
    def is_submitted(self) -> bool:
        return self.submitted_at is not None


class Rating(models.Model):
    """A level from 1 to 4 for one criterion of one question, with the evidence for it. ``level`` empty: not assessed."""

    scorecard = models.ForeignKey(Scorecard, on_delete=models.CASCADE, related_name="ratings")
    question = models.ForeignKey(InterviewQuestion, on_delete=models.PROTECT, related_name="ratings")
    criterion = models.ForeignKey(Criterion, on_delete=models.PROTECT, related_name="ratings")
    level = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(4)]
    )
    not_assessed = models.BooleanField(default=False)
    evidence = models.TextField(blank=True)
    #: Timeline entries that the evidence cites: "12:41, run 5, check 3".
    cites = models.ManyToManyField(TimelineEntry, blank=True, related_name="+")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["scorecard", "question", "criterion__position"]
        constraints = [
            models.UniqueConstraint(fields=["scorecard", "question", "criterion"], name="rating_once_per_criterion")
        ]

    def __str__(self) -> str:
        return f"{self.criterion}: {self.level or 'not assessed'}"
