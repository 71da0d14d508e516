"""The administration: people and roles are made here, the rest is mostly looked at."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import ReadOnlyPasswordHashField
from django.db import models
from django.http import HttpRequest

from interviews import time_zones
from interviews.models import (
    Anchor,
    Candidate,
    CandidateSession,
    Check,
    Criterion,
    DocumentSnapshot,
    FollowUp,
    Interview,
    InterviewQuestion,
    Kit,
    KitQuestion,
    Outline,
    PanelMember,
    Question,
    QuestionVersion,
    Rubric,
    TimelineEntry,
    User,
    WrongAnswer,
)

admin.site.site_header = "Rendezvous"
admin.site.site_title = "Rendezvous"
admin.site.index_title = "Administration"


class ReadOnlyMixin:
    """For rows that are never edited by hand: versions are pinned by interviews, the timeline is evidence."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class UserChangeForm(forms.ModelForm):
    password = ReadOnlyPasswordHashField(
        help_text='Nobody can read the password; <a href="../password/">set another one</a>.'
    )
    time_zone = forms.ChoiceField(choices=time_zones.choices)

    class Meta:
        model = User
        fields = ["email", "password", "name", "time_zone", "groups", "is_active", "is_staff", "is_superuser"]


@admin.register(User)
class UserAdmin(DjangoUserAdmin):
    form = UserChangeForm
    list_display = ["email", "name", "roles", "is_active", "is_staff", "last_login"]
    list_filter = ["groups", "is_active", "is_staff"]
    search_fields = ["email", "name"]
    ordering = ["name"]
    fieldsets = [
        (None, {"fields": ["email", "password", "name", "time_zone"]}),
        ("Roles", {"fields": ["groups", "is_active", "is_staff", "is_superuser"]}),
        ("Dates", {"fields": ["last_login", "date_joined"]}),
    ]
    add_fieldsets = [(None, {"fields": ["email", "name", "groups", "usable_password", "password1", "password2"]})]
    readonly_fields = ["last_login", "date_joined"]
    filter_horizontal = ["groups"]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("groups")

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        return ", ".join(group.name for group in user.groups.all()) or "–"


# The bank


class VersionInline(ReadOnlyMixin, admin.TabularInline):
    model = QuestionVersion
    fields = ["number", "title", "kind", "difficulty", "minutes"]
    show_change_link = True
    extra = 0


@admin.register(Question)
class QuestionAdmin(admin.ModelAdmin):
    list_display = ["slug", "created_at", "retired_at"]
    list_filter = ["retired_at"]
    search_fields = ["slug"]
    readonly_fields = ["created_at"]
    inlines = [VersionInline]


class OutlineInline(ReadOnlyMixin, admin.StackedInline):
    model = Outline


class FollowUpInline(ReadOnlyMixin, admin.StackedInline):
    model = FollowUp
    extra = 0


class CheckInline(ReadOnlyMixin, admin.TabularInline):
    model = Check
    extra = 0


class WrongAnswerInline(ReadOnlyMixin, admin.StackedInline):
    model = WrongAnswer
    extra = 0


@admin.register(QuestionVersion)
class QuestionVersionAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["title", "number", "kind", "difficulty", "minutes", "ranks", "created_at"]
    list_filter = ["kind", "difficulty"]
    search_fields = ["title", "question__slug"]
    inlines = [OutlineInline, FollowUpInline, CheckInline, WrongAnswerInline]


class AnchorInline(ReadOnlyMixin, admin.TabularInline):
    model = Anchor
    extra = 0


@admin.register(Criterion)
class CriterionAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["name", "rubric", "position", "weight"]
    list_select_related = ["rubric__version"]
    search_fields = ["name", "rubric__version__title"]
    inlines = [AnchorInline]


class CriterionInline(ReadOnlyMixin, admin.TabularInline):
    model = Criterion
    show_change_link = True
    extra = 0


@admin.register(Rubric)
class RubricAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["version"]
    list_select_related = ["version"]
    inlines = [CriterionInline]


@admin.register(Outline, FollowUp, Anchor)
class TextAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["__str__", "text"]

    def get_queryset(self, request: HttpRequest) -> Any:
        related = "criterion" if self.model is Anchor else "version"
        return super().get_queryset(request).select_related(related)


@admin.register(Check)
class CheckAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["title", "name", "hidden", "version"]
    list_filter = ["hidden"]
    list_select_related = ["version"]
    search_fields = ["name", "title"]


@admin.register(WrongAnswer)
class WrongAnswerAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["title", "file", "version"]
    list_select_related = ["version"]
    search_fields = ["title", "misconception"]


class KitQuestionInline(admin.TabularInline):
    model = KitQuestion
    extra = 0


@admin.register(Kit)
class KitAdmin(admin.ModelAdmin):
    list_display = ["name", "created_by", "created_at"]
    list_select_related = ["created_by"]
    search_fields = ["name"]
    readonly_fields = ["created_at"]
    inlines = [KitQuestionInline]


# Interviews


@admin.register(Candidate)
class CandidateAdmin(admin.ModelAdmin):
    list_display = ["name", "email", "created_at"]
    search_fields = ["name", "email"]


class PanelInline(admin.TabularInline):
    model = PanelMember
    autocomplete_fields = ["user"]
    extra = 0


class InterviewQuestionInline(ReadOnlyMixin, admin.TabularInline):
    model = InterviewQuestion
    fields = ["position", "version", "document_epoch", "opened_at"]
    extra = 0


@admin.register(Interview)
class InterviewAdmin(admin.ModelAdmin):
    list_display = ["candidate", "kit", "starts_at", "status", "created_by"]
    list_filter = ["status", "kit"]
    list_select_related = ["candidate", "kit", "created_by"]
    search_fields = ["candidate__name", "candidate__email", "public_id"]
    date_hierarchy = "starts_at"
    autocomplete_fields = ["candidate", "kit", "created_by"]
    formfield_overrides = {models.URLField: {"assume_scheme": "https"}}
    #: The link's secrets stay out of sight; its state is what an administrator needs.
    exclude = ["link_nonce", "link_hash"]
    readonly_fields = [
        "public_id", "created_at", "started_at", "ended_at", "link_expires_at", "link_revoked_at", "timeline_length"
    ]  # fmt: skip
    inlines = [PanelInline, InterviewQuestionInline]

    def has_add_permission(self, request: HttpRequest) -> bool:
        # An interview needs its link and its pinned questions: the page of new interviews makes both.
        return False


@admin.register(CandidateSession)
class CandidateSessionAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["display_name", "interview", "created_at", "admitted_at", "removed_at"]
    list_select_related = ["interview__candidate"]
    exclude = ["token_hash"]


@admin.register(TimelineEntry)
class TimelineEntryAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["interview", "sequence", "at", "kind", "actor_kind", "user", "private"]
    list_filter = ["kind", "actor_kind", "private"]
    list_select_related = ["interview__candidate", "user"]
    exclude = ["update"]
    ordering = ["-at"]


@admin.register(DocumentSnapshot)
class DocumentSnapshotAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["question", "epoch", "sequence", "created_at"]
    list_select_related = ["question__version"]
    exclude = ["state"]
