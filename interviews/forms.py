"""Forms of interviews, kits and the profile. They check what was typed and turn it into what the domain takes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.core.validators import URLValidator
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone

from interviews import rules, time_zones
from interviews.models import Interview, Kit, Question, User
from interviews.scheduling import Arrangement

#: An interview may be written down shortly after it began, and no later.
LATEST_START_AGO = timedelta(hours=1)
SHORTEST_MINUTES = 10
LONGEST_MINUTES = 240


class InterviewForm(forms.Form):
    """One interview. The instance, where there is one, is only read: ``arrangement`` says what was typed."""

    candidate_name = forms.CharField(
        label="Name",
        max_length=120,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": "Who is the candidate?"},
    )
    candidate_email = forms.EmailField(
        label="Email",
        required=False,
        widget=forms.EmailInput(attrs={"autocomplete": "off", "placeholder": "name@example.org"}),
        error_messages={"invalid": "This is not an email address."},
    )
    kit = forms.ModelChoiceField(
        Kit.objects.none(), empty_label="Choose a kit", error_messages={"required": "Which questions will you ask?"}
    )
    date = forms.DateField(
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        error_messages={"required": "On which day?", "invalid": "Write the day as 2026-12-31."},
    )
    time = forms.TimeField(
        widget=forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        error_messages={"required": "At what time?", "invalid": "Write the time as 14:30."},
    )
    time_zone = forms.ChoiceField(
        choices=time_zones.choices, error_messages={"invalid_choice": "Nobody knows this time zone."}
    )
    duration_minutes = forms.IntegerField(
        label="Minutes",
        min_value=SHORTEST_MINUTES,
        max_value=LONGEST_MINUTES,
        error_messages={
            "required": "How many minutes?",
            "invalid": "Write the minutes as a number.",
            "min_value": f"An interview lasts {SHORTEST_MINUTES} minutes or more.",
            "max_value": f"An interview lasts {LONGEST_MINUTES} minutes or less.",
        },
    )
    video_url = forms.URLField(
        label="Link to the video call",
        required=False,
        assume_scheme="https",
        widget=forms.URLInput(attrs={"autocomplete": "off", "placeholder": "https://"}),
        help_text="Both sides find it in the room.",
    )
    panel = forms.ModelMultipleChoiceField(
        User.objects.none(),
        error_messages={
            "required": "Choose at least one interviewer.",
            "invalid_choice": "Somebody you chose is gone.",
        },
    )
    lead = forms.ModelChoiceField(User.objects.none(), required=False)

    def __init__(
        self, data: Any = None, *, user: User, interview: Interview | None = None, kit: str | None = None
    ) -> None:
        self.interview = interview
        initial = _initial(interview, user)
        super().__init__(data, initial={"kit": kit, **initial} if kit else initial)
        people = people_for_panels()
        if interview is not None:
            people = people | User.objects.filter(panels__interview=interview)
        self.people = list(people.distinct())
        _kit_field(self).queryset = Kit.objects.filter(entries__isnull=False).distinct()
        _kit_field(self).disabled = interview is not None and not interview.is_untouched
        for name in ("panel", "lead"):
            cast("forms.ModelChoiceField[User]", self.fields[name]).queryset = User.objects.filter(
                pk__in=[person.pk for person in self.people]
            )

    def panel_rows(self) -> Iterable[tuple[User, bool, bool]]:
        """Everybody who could sit on the panel, whether they do, and whether they lead it."""
        chosen = {str(value) for value in self["panel"].value() or []}
        lead = str(self["lead"].value() or "")
        return [(person, str(person.pk) in chosen, str(person.pk) == lead) for person in self.people]

    def clean_video_url(self) -> str:
        url: str = self.cleaned_data["video_url"]
        if url:
            URLValidator(schemes=["https", "http"], message="The link must start with https://.")(url)
        return url

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        self._clean_start(cleaned)
        panel = list(cleaned.get("panel") or [])
        lead = cleaned.get("lead")
        if panel and len(panel) > 1 and lead is None:
            self.add_error("panel", "Choose who leads the interview.")
        elif lead is not None and panel and lead not in panel:
            self.add_error("panel", f"{lead} leads the interview, but is not on the panel.")
        elif panel and lead is None:
            cleaned["lead"] = panel[0]
        return cleaned

    def _clean_start(self, cleaned: dict[str, Any]) -> None:
        if not {"date", "time", "time_zone"} <= cleaned.keys():
            return
        try:
            starts_at = time_zones.moment(cleaned["date"], cleaned["time"], cleaned["time_zone"])
        except time_zones.NoSuchMoment:
            self.add_error("time", f"In {cleaned['time_zone']} the clocks jump over this time on that day.")
            return
        moved = self.interview is None or starts_at != self.interview.starts_at
        if moved and starts_at < timezone.now() - LATEST_START_AGO:
            self.add_error("date", "This is in the past.")
        cleaned["starts_at"] = starts_at

    def arrangement(self) -> Arrangement:
        """What was typed. Only for a valid form."""
        cleaned = self.cleaned_data
        return Arrangement(
            candidate_name=cleaned["candidate_name"],
            candidate_email=cleaned["candidate_email"],
            kit=cleaned["kit"],
            starts_at=cleaned["starts_at"],
            time_zone=cleaned["time_zone"],
            duration_minutes=cleaned["duration_minutes"],
            video_url=cleaned["video_url"],
            panel=tuple(cleaned["panel"]),
            lead=cleaned["lead"],
        )


def people_for_panels() -> QuerySet[User]:
    """Those who may sit on a panel."""
    return User.objects.filter(is_active=True, groups__name__in=[rules.INTERVIEWER, rules.HIRING_ADMIN])


def _kit_field(form: forms.Form) -> forms.ModelChoiceField[Kit]:
    return cast("forms.ModelChoiceField[Kit]", form.fields["kit"])


def _initial(interview: Interview | None, user: User) -> dict[str, Any]:
    if interview is None:
        now = timezone.localtime()
        next_hour = (now + timedelta(hours=1)).replace(minute=0)
        zone = timezone.get_current_timezone_name()
        return {
            "date": next_hour.date(),
            "time": next_hour.time(),
            "time_zone": zone if time_zones.is_known(zone) else user.time_zone,
            "duration_minutes": 45,
            "panel": [user.pk],
            "lead": user.pk,
        }
    panel = list(interview.panel.all())
    return {
        "candidate_name": interview.candidate.name,
        "candidate_email": interview.candidate.email,
        "kit": interview.kit_id,
        "date": interview.local_starts_at.date(),
        "time": interview.local_starts_at.time(),
        "time_zone": interview.time_zone,
        "duration_minutes": interview.duration_minutes,
        "video_url": interview.video_url,
        "panel": [member.user_id for member in panel],
        "lead": next((member.user_id for member in panel if member.lead), None),
    }


class KitForm(forms.ModelForm):
    """A kit and its questions in order.

    The list is edited on the server, one press of a button at a time, so it works by keyboard and without scripts. What is
    typed meanwhile is a ``draft``: kept, not judged and not saved.
    """

    questions = forms.ModelMultipleChoiceField(
        Question.objects.none(),
        to_field_name="slug",
        error_messages={
            "required": "Add at least one question.",
            "invalid_choice": "%(value)s is no longer in the bank.",
        },
    )

    class Meta:
        model = Kit
        fields = ["name", "description"]
        widgets = {
            "name": forms.TextInput(attrs={"autocomplete": "off"}),
            "description": forms.Textarea(attrs={"rows": 3}),
        }
        error_messages = {
            "name": {"required": "What is the kit called?", "unique": "There is a kit of this name already."},
        }
        help_texts = {"description": "For which role and level, and what it is meant to show."}

    def __init__(
        self, data: QueryDict | None = None, *, instance: Kit | None = None, draft: QueryDict | None = None
    ) -> None:
        typed = {name: draft.get(name, "") for name in ("name", "description")} if draft is not None else None
        super().__init__(data, instance=instance, initial=typed)
        self.bank = {question.slug: question for question in Question.objects.with_latest().order_by("slug")}
        self.in_order = self._slugs_in_order(instance, data or draft)
        cast("forms.ModelChoiceField[Question]", self.fields["questions"]).queryset = Question.objects.all()

    def _slugs_in_order(self, instance: Kit | None, typed_data: QueryDict | None) -> list[str]:
        if typed_data is not None:
            typed = typed_data.getlist("questions")
        elif instance is not None:
            typed = [entry.question.slug for entry in instance.entries.select_related("question").order_by("position")]
        else:
            typed = []
        known = [slug for slug in typed if slug in self.bank]
        return list(dict.fromkeys(known))

    @property
    def chosen(self) -> list[Question]:
        """The kit's questions, in order."""
        return [self.bank[slug] for slug in self.in_order]

    @property
    def addable(self) -> list[Question]:
        return [
            question
            for slug, question in self.bank.items()
            if slug not in self.in_order and question.retired_at is None
        ]

    @property
    def minutes(self) -> int:
        return sum(question.latest.minutes for question in self.chosen)

    def press(self, button: str, question: str = "") -> None:
        """Does what a button of the list says: ``add`` (with the question), ``remove:slug``, ``up:slug``, ``down:slug``."""
        verb, _, slug = button.partition(":")
        slug = slug or question
        slugs = self.in_order
        if verb == "add" and slug in self.bank and slug not in slugs:
            slugs.append(slug)
        elif slug not in slugs:
            return
        elif verb == "remove":
            slugs.remove(slug)
        elif verb in {"up", "down"}:
            at = slugs.index(slug)
            other = max(at - 1, 0) if verb == "up" else min(at + 1, len(slugs) - 1)
            slugs[at], slugs[other] = slugs[other], slugs[at]

    def save_with_questions(self, *, by: User) -> Kit:
        kit = self.save(commit=False)
        if kit.pk is None:
            kit.created_by = by
        kit.save()
        kit.set_questions(self.chosen)
        return kit


class ProfileForm(forms.ModelForm):
    time_zone = forms.ChoiceField(
        choices=time_zones.choices,
        help_text="Pages show times in the zone of your browser; this one stands in where the browser does not tell.",
    )

    class Meta:
        model = User
        fields = ["name", "time_zone"]
        error_messages = {"name": {"required": "What shall we call you?"}}
        help_texts = {"name": "Candidates and colleagues see it beside your cursor."}
