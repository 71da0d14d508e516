"""What ran and what was thought of it, to look at: results and submitted scorecards are never edited by hand.

Django's own admin classes take no type arguments at run time, hence the remarks for the type checker.
"""

from __future__ import annotations

from typing import Any, cast

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from grading import scoring
from grading.models import CheckResult, Rating, Run, Scorecard, Submission
from interviews.models import User


class ReadOnlyMixin:
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class CheckResultInline(ReadOnlyMixin, admin.TabularInline):  # type: ignore[type-arg]
    model = CheckResult
    fields = ["position", "name", "hidden", "status", "duration_s", "message"]
    extra = 0


@admin.register(Run)
class RunAdmin(ReadOnlyMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["number", "interview", "mode", "ranks", "state", "outcome", "wall_s", "host", "requested_at"]
    list_filter = ["state", "outcome", "mode", "rehearsed"]
    list_select_related = ["interview__candidate"]
    search_fields = ["public_id", "host", "interview__candidate__name"]
    date_hierarchy = "requested_at"
    #: With the token one could report a result for the run.
    exclude = ["token"]
    inlines = [CheckResultInline]


@admin.register(CheckResult)
class CheckResultAdmin(ReadOnlyMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["name", "run", "hidden", "status", "duration_s"]
    list_filter = ["status", "hidden"]
    list_select_related = ["run"]


@admin.register(Submission)
class SubmissionAdmin(ReadOnlyMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["id", "question", "created_at"]
    list_select_related = ["question__version"]


class RatingInline(ReadOnlyMixin, admin.TabularInline):  # type: ignore[type-arg]
    model = Rating
    fields = ["question", "criterion", "level", "not_assessed", "evidence"]
    extra = 0


@admin.register(Scorecard)
class ScorecardAdmin(ReadOnlyMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    """Those that this person may read on the pages too."""

    list_display = ["interview", "author", "recommendation", "submitted_at"]
    list_filter = ["recommendation"]
    list_select_related = ["interview__candidate", "author"]
    inlines = [RatingInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Scorecard]:
        return super().get_queryset(request).filter(pk__in=scoring.readable_anywhere(cast("User", request.user)))


@admin.register(Rating)
class RatingAdmin(ReadOnlyMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["criterion", "scorecard", "level", "not_assessed"]
    list_select_related = ["criterion", "scorecard__author"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Rating]:
        return super().get_queryset(request).filter(scorecard__in=scoring.readable_anywhere(cast("User", request.user)))
