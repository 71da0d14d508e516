from __future__ import annotations

from collections.abc import Sequence

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.urls import reverse

from interviews.models.accounts import User


class QuestionKind(models.TextChoices):
    ARITHMETIC = "arithmetic", "Arithmetic"
    DISTRIBUTED = "distributed", "Distributed"
    KERNEL = "kernel", "Kernel"


class Difficulty(models.TextChoices):
    WARM_UP = "warm-up", "Warm-up"
    CORE = "core", "Core"
    STRETCH = "stretch", "Stretch"


class QuestionQuerySet(models.QuerySet["Question"]):
    def in_use(self) -> QuestionQuerySet:
        """Those one may still ask."""
        return self.filter(retired_at=None)

    def with_latest(self) -> QuestionQuerySet:
        """``latest`` of each costs no query of its own."""
        latest = QuestionVersion.objects.latest_of_each()
        return self.prefetch_related(models.Prefetch("versions", latest, to_attr="latest_versions"))


class Question(models.Model):
    """A question of the bank. What it says stands in its versions."""

    slug = models.SlugField(max_length=80, unique=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = QuestionQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("interviews:question", args=[self.slug])

    @property
    def latest(self) -> QuestionVersion:
        prefetched: list[QuestionVersion] = getattr(self, "latest_versions", [])
        return prefetched[0] if prefetched else self.versions.latest("number")


class QuestionVersionQuerySet(models.QuerySet["QuestionVersion"]):
    def latest_of_each(self) -> QuestionVersionQuerySet:
        newest = QuestionVersion.objects.filter(question=models.OuterRef("question")).order_by("-number")
        return self.filter(number=models.Subquery(newest.values("number")[:1]))

    def defer_texts(self) -> QuestionVersionQuerySet:
        """Leaves the long texts in the database; lists do not show them."""
        return self.defer("prompt", "starter", "reference", "checks_source")


class QuestionVersion(models.Model):
    """The text, code and checks of a question at one moment. Never edited: a change makes the next version."""

    question = models.ForeignKey(Question, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    #: SHA-256 of the folder it was loaded from: a folder like its latest version makes no new one.
    content_hash = models.CharField(max_length=64)
    title = models.CharField(max_length=200)
    summary = models.CharField(max_length=300)
    kind = models.CharField(max_length=16, choices=QuestionKind.choices)
    difficulty = models.CharField(max_length=16, choices=Difficulty.choices)
    minutes = models.PositiveSmallIntegerField()
    topics = models.JSONField(default=list)
    ranks = models.PositiveSmallIntegerField(default=1)
    max_ranks = models.PositiveSmallIntegerField(default=1)
    gpus = models.PositiveSmallIntegerField(default=0)
    #: Names and units of ``gpu_runner.protocol.Limits``; what is not named has the default there.
    limits = models.JSONField(default=dict)
    #: What differs from ``limits`` when all the checks are run; each check starts fresh ranks, so together they take longer.
    check_limits = models.JSONField(default=dict)
    prompt = models.TextField()
    starter = models.TextField()
    reference = models.TextField()
    checks_source = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)

    objects = QuestionVersionQuerySet.as_manager()

    class Meta:
        ordering = ["question", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["question", "number"], name="version_number_once_per_question"),
        ]

    def __str__(self) -> str:
        return f"{self.title} (version {self.number})"


class Outline(models.Model):
    """How the interviewer leads the conversation. Private."""

    version = models.OneToOneField(QuestionVersion, on_delete=models.CASCADE, related_name="outline")
    text = models.TextField()

    def __str__(self) -> str:
        return f"Outline of {self.version}"


class FollowUp(models.Model):
    """A further question to ask, and what a good answer says. Private."""

    version = models.ForeignKey(QuestionVersion, on_delete=models.CASCADE, related_name="follow_ups")
    position = models.PositiveSmallIntegerField()
    title = models.CharField(max_length=200)
    text = models.TextField()

    class Meta:
        ordering = ["version", "position"]

    def __str__(self) -> str:
        return self.title


class Check(models.Model):
    """A check of ``checks.py`` by the name of its function."""

    version = models.ForeignKey(QuestionVersion, on_delete=models.CASCADE, related_name="checks")
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=80)
    title = models.CharField(max_length=200)
    hidden = models.BooleanField()

    class Meta:
        ordering = ["version", "position"]
        constraints = [models.UniqueConstraint(fields=["version", "name"], name="check_name_once_per_version")]

    def __str__(self) -> str:
        return self.title


class WrongAnswer(models.Model):
    """A plausible answer that is wrong, with the checks that must say so. Private."""

    version = models.ForeignKey(QuestionVersion, on_delete=models.CASCADE, related_name="wrong_answers")
    file = models.CharField(max_length=80)
    title = models.CharField(max_length=200)
    misconception = models.TextField()
    source = models.TextField()
    fails = models.JSONField(default=list)

    class Meta:
        ordering = ["version", "file"]

    def __str__(self) -> str:
        return self.title


class Rubric(models.Model):
    """The criteria by which a question's answer is rated. Private."""

    version = models.OneToOneField(QuestionVersion, on_delete=models.CASCADE, related_name="rubric")

    def __str__(self) -> str:
        return f"Rubric of {self.version}"


class Criterion(models.Model):
    rubric = models.ForeignKey(Rubric, on_delete=models.CASCADE, related_name="criteria")
    position = models.PositiveSmallIntegerField()
    slug = models.SlugField(max_length=80)
    name = models.CharField(max_length=120)
    tells = models.CharField("what it tells", max_length=300)
    weight = models.DecimalField(max_digits=4, decimal_places=2, default=1, validators=[MinValueValidator(0)])

    class Meta:
        ordering = ["rubric", "position"]
        verbose_name_plural = "criteria"
        constraints = [models.UniqueConstraint(fields=["rubric", "slug"], name="criterion_slug_once_per_rubric")]

    def __str__(self) -> str:
        return self.name


class Anchor(models.Model):
    """What somebody at this level does, in behaviour one can observe. Four levels, no middle."""

    criterion = models.ForeignKey(Criterion, on_delete=models.CASCADE, related_name="anchors")
    level = models.PositiveSmallIntegerField(validators=[MinValueValidator(1), MaxValueValidator(4)])
    text = models.TextField()

    class Meta:
        ordering = ["criterion", "level"]
        constraints = [models.UniqueConstraint(fields=["criterion", "level"], name="anchor_level_once_per_criterion")]

    def __str__(self) -> str:
        return f"{self.criterion}: {self.level}"


class KitQuerySet(models.QuerySet["Kit"]):
    def with_questions(self) -> KitQuerySet:
        """``entries``, their questions and the latest version of each cost no query of their own."""
        questions = Question.objects.with_latest()
        entries = KitQuestion.objects.order_by("position").prefetch_related(models.Prefetch("question", questions))
        return self.prefetch_related(models.Prefetch("entries", entries))


class Kit(models.Model):
    """Questions that are asked together, in order."""

    name = models.CharField(max_length=120, unique=True)
    description = models.TextField(blank=True)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="kits", null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    questions = models.ManyToManyField(Question, through="KitQuestion", related_name="kits")

    objects = KitQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("interviews:kit", args=[self.pk])

    @property
    def minutes(self) -> int:
        """How long its questions take together. Load the kit by ``with_questions``."""
        return sum(entry.question.latest.minutes for entry in self.entries.all())

    @transaction.atomic
    def set_questions(self, questions: Sequence[Question]) -> None:
        """Makes these its questions, in this order. Interviews already made keep theirs."""
        self.entries.all().delete()
        KitQuestion.objects.bulk_create(
            KitQuestion(kit=self, position=position, question=question)
            for position, question in enumerate(questions, start=1)
        )


class KitQuestion(models.Model):
    kit = models.ForeignKey(Kit, on_delete=models.CASCADE, related_name="entries")
    position = models.PositiveSmallIntegerField()
    question = models.ForeignKey(Question, on_delete=models.PROTECT)

    class Meta:
        ordering = ["kit", "position"]
        constraints = [
            models.UniqueConstraint(fields=["kit", "position"], name="kit_position_once"),
            models.UniqueConstraint(fields=["kit", "question"], name="kit_question_once"),
        ]

    def __str__(self) -> str:
        return f"{self.kit} {self.position}"
