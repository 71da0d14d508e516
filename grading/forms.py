"""What comes back from a scorecard's page, turned into drafts."""

from __future__ import annotations

from typing import Any

from django import forms

from grading.models import Recommendation
from grading.scoring import CITES_LIMIT, EVIDENCE_LIMIT, LEVELS, SUMMARY_LIMIT, RatingDraft, SummaryDraft

NOT_ASSESSED = "not_assessed"


class _SequencesField(forms.Field):
    """Sequences of the timeline."""

    widget = forms.MultipleHiddenInput

    def clean(self, value: Any) -> tuple[int, ...]:
        try:
            sequences = {int(item) for item in value or []}
        except (TypeError, ValueError):
            raise forms.ValidationError("What the note cites could not be read.") from None
        if len(sequences) > CITES_LIMIT:
            raise forms.ValidationError(f"A note may cite {CITES_LIMIT} moments at most.")
        if any(not 0 < sequence < 2**31 for sequence in sequences):
            raise forms.ValidationError("What the note cites is not in this interview.")
        return tuple(sorted(sequences))


class RatingForm(forms.Form):
    """One criterion. ``version`` names the state that the page started from."""

    level = forms.ChoiceField(
        choices=[("", ""), *((str(level), str(level)) for level in LEVELS), (NOT_ASSESSED, NOT_ASSESSED)],
        required=False,
        error_messages={"invalid_choice": "A rating is one of the four levels, or “not assessed”."},
    )
    evidence = forms.CharField(
        required=False,
        # Whoever is writing keeps the spaces they are about to write on after.
        strip=False,
        max_length=EVIDENCE_LIMIT,
        error_messages={"max_length": f"An evidence note may have {EVIDENCE_LIMIT:,} characters at most."},
    )
    cites = _SequencesField(required=False)
    version = forms.CharField(required=False, max_length=64)

    def draft(self) -> RatingDraft:
        level = self.cleaned_data["level"]
        return RatingDraft(
            level=int(level) if level.isdigit() else None,
            not_assessed=level == NOT_ASSESSED,
            evidence=_one_line_end(self.cleaned_data["evidence"]),
            cites=self.cleaned_data["cites"],
        )


class SummaryForm(forms.Form):
    """The recommendation and what it rests on."""

    recommendation = forms.ChoiceField(
        choices=[("", ""), *Recommendation.choices],
        required=False,
        error_messages={"invalid_choice": "There is no such recommendation."},
    )
    summary = forms.CharField(
        required=False,
        strip=False,
        max_length=SUMMARY_LIMIT,
        error_messages={"max_length": f"A summary may have {SUMMARY_LIMIT:,} characters at most."},
    )
    version = forms.CharField(required=False, max_length=64)

    def draft(self) -> SummaryDraft:
        return SummaryDraft(
            recommendation=self.cleaned_data["recommendation"], summary=_one_line_end(self.cleaned_data["summary"])
        )


def _one_line_end(text: str) -> str:
    """Browsers send CR LF; what is compared and stored has LF."""
    return text.replace("\r\n", "\n")
