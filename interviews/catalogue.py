"""Finding questions in the bank, and reading one of their versions whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Q
from django.http import Http404

from interviews.models import Difficulty, Question, QuestionKind, QuestionVersion
from interviews.models.questions import QuestionVersionQuerySet


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What somebody looks for. An empty value leaves it open."""

    kind: str = ""
    difficulty: str = ""
    search: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Filter:
        kind, difficulty = query.get("kind", ""), query.get("difficulty", "")
        return cls(
            kind=kind if kind in QuestionKind.values else "",
            difficulty=difficulty if difficulty in Difficulty.values else "",
            search=query.get("q", "").strip(),
        )

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(kind.value, str(kind.label)) for kind in QuestionKind]

    @property
    def difficulties(self) -> list[tuple[str, str]]:
        return [(difficulty.value, str(difficulty.label)) for difficulty in Difficulty]

    @property
    def is_open(self) -> bool:
        return not (self.kind or self.difficulty or self.search)


def find(wanted: Filter) -> QuestionVersionQuerySet:
    """The latest versions of the questions in use that fit."""
    found = QuestionVersion.objects.latest_of_each().filter(question__retired_at=None)
    if wanted.kind:
        found = found.filter(kind=wanted.kind)
    if wanted.difficulty:
        found = found.filter(difficulty=wanted.difficulty)
    for word in wanted.search.split():
        found = found.filter(
            Q(title__icontains=word)
            | Q(summary__icontains=word)
            | Q(topics__icontains=word)
            | Q(prompt__icontains=word)
        )
    return found.select_related("question").order_by("title").defer_texts()


def version_or_404(question: Question, number: str | None) -> QuestionVersion:
    """The version of this number, or the latest, with everything that belongs to it."""
    versions = question.versions.select_related("question", "outline", "rubric").prefetch_related(
        "follow_ups", "checks", "wrong_answers", "rubric__criteria__anchors"
    )
    if number is not None:
        if not number.isdecimal():
            raise Http404
        versions = versions.filter(number=int(number))
    version = versions.order_by("-number").first()
    if version is None:
        raise Http404
    return version
