"""Drafts, the lock, and who reads whose scorecard."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from grading import scoring
from grading.models import Rating, Scorecard
from grading.scoring import (
    NotOnPanel,
    NotRateable,
    RatingDraft,
    ScorecardIncomplete,
    ScorecardLocked,
    StaleDraft,
    SummaryDraft,
    may_read,
    save_rating,
    save_summary,
    version_of,
)
from interviews.models import EntryKind, Interview, PanelMember, TimelineEntry, User
from tests.grading import acts


@pytest.fixture
def running(interview: Interview, interviewer: User) -> Interview:
    """Both questions were opened."""
    return acts.begin(interview, interviewer)


def rate_first(interview: Interview, author: User, draft: RatingDraft, *, version: str = "") -> Rating:
    question = interview.questions.get(position=1)
    return save_rating(interview, author, question, acts.criterion_of(question), draft, version=version)


# Drafts


def test_a_draft_is_kept_with_what_it_cites(running: Interview, interviewer: User) -> None:
    note = acts.write_note(running, interviewer, "Asked about overflow.")
    rating = rate_first(running, interviewer, RatingDraft(level=3, evidence="Good.", cites=(note.sequence,)))
    saved = Rating.objects.get(pk=rating.pk)
    assert (saved.level, saved.evidence, list(saved.cites.all())) == (3, "Good.", [note])


def test_a_moment_of_another_interview_cannot_be_cited(running: Interview, interviewer: User) -> None:
    rating = rate_first(running, interviewer, RatingDraft(level=3, cites=(999_999,)))
    assert not rating.cites.exists()


def test_a_stale_save_overwrites_nothing(running: Interview, interviewer: User) -> None:
    first = rate_first(running, interviewer, RatingDraft(level=2, evidence="Early."))
    rate_first(running, interviewer, RatingDraft(level=3, evidence="Later."), version=version_of(first))
    with pytest.raises(StaleDraft):
        rate_first(running, interviewer, RatingDraft(level=1, evidence="From an old tab."), version=version_of(first))
    with pytest.raises(StaleDraft):
        rate_first(running, interviewer, RatingDraft(level=1, evidence="From a tab older still."), version="")
    assert Rating.objects.get().evidence == "Later."


def test_saying_again_what_is_saved_is_not_stale(running: Interview, interviewer: User) -> None:
    draft = RatingDraft(level=2, evidence="Once.")
    first = rate_first(running, interviewer, draft)
    again = rate_first(running, interviewer, draft, version="")
    assert version_of(again) == version_of(first)


def test_a_stale_summary_overwrites_nothing(running: Interview, interviewer: User) -> None:
    save_summary(running, interviewer, SummaryDraft(summary="First."), version="")
    with pytest.raises(StaleDraft):
        save_summary(running, interviewer, SummaryDraft(summary="Old tab."), version="")
    assert Scorecard.objects.get().summary == "First."


def test_ratings_do_not_make_the_summary_stale(running: Interview, interviewer: User) -> None:
    rate_first(running, interviewer, RatingDraft(level=2))
    assert save_summary(running, interviewer, SummaryDraft(recommendation="no"), version="").recommendation == "no"


def test_text_that_no_database_takes_is_made_fit(running: Interview, interviewer: User) -> None:
    rating = rate_first(running, interviewer, RatingDraft(level=2, evidence="a\0b" + "x" * scoring.EVIDENCE_LIMIT))
    assert rating.evidence.startswith("a\N{REPLACEMENT CHARACTER}b")
    assert len(rating.evidence) == scoring.EVIDENCE_LIMIT


@pytest.mark.parametrize("level", [0, 5, -1])
def test_there_are_four_levels(level: int) -> None:
    with pytest.raises(ValueError, match="four levels"):
        RatingDraft(level=level)


def test_a_level_and_not_assessed_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="not assessed"):
        RatingDraft(level=2, not_assessed=True)


def test_who_is_not_on_the_panel_has_no_scorecard(running: Interview, hiring_admin: User, stranger: User) -> None:
    for outsider in (hiring_admin, stranger):
        with pytest.raises(NotOnPanel):
            rate_first(running, outsider, RatingDraft(level=2))
    assert not Scorecard.objects.exists()


def test_nothing_is_rated_before_the_start(interview: Interview, interviewer: User) -> None:
    with pytest.raises(NotRateable):
        save_summary(interview, interviewer, SummaryDraft(summary="Early."), version="")
    assert not Scorecard.objects.exists()


def test_a_question_that_was_not_opened_is_not_rated(interview: Interview, interviewer: User) -> None:
    started = acts.begin(interview, interviewer, positions=(1,))
    with pytest.raises(NotRateable):
        acts.rate(started, interviewer, positions=(2,))


# What is missing


def words(interview: Interview, author: User) -> list[str]:
    scorecard = Scorecard.objects.filter(interview=interview, author=author).first() or Scorecard()
    return [f"{item.where} {item.words}" for item in scoring.missing_from(interview, scorecard)]


def test_everything_opened_wants_a_level_and_a_recommendation(running: Interview, interviewer: User) -> None:
    assert words(running, interviewer) == [
        "1. Adding, PRIVATE correctness needs a level, or “not assessed”",
        "2. Sharding, PRIVATE correctness needs a level, or “not assessed”",
        "Recommendation has to be chosen",
    ]


def test_a_level_wants_evidence(running: Interview, interviewer: User) -> None:
    acts.rate(running, interviewer, evidence="  \n")
    assert words(running, interviewer)[0] == "1. Adding, PRIVATE correctness needs an evidence note"


def test_not_assessed_wants_no_evidence(running: Interview, interviewer: User) -> None:
    acts.rate(running, interviewer, level=None, evidence="")
    assert words(running, interviewer) == ["Recommendation has to be chosen"]


def test_a_question_that_was_not_opened_is_not_missing(interview: Interview, interviewer: User) -> None:
    started = acts.begin(interview, interviewer, positions=(1,))
    acts.submit(started, interviewer)
    assert Scorecard.objects.get().is_submitted


def test_progress_counts_what_is_complete(running: Interview, interviewer: User) -> None:
    acts.rate(running, interviewer, positions=(1,))
    acts.rate(running, interviewer, positions=(2,), evidence="")
    assert scoring.progress(running, Scorecard.objects.get()) == (1, 2)


def test_an_incomplete_scorecard_is_not_submitted(running: Interview, interviewer: User) -> None:
    acts.rate(running, interviewer)
    with pytest.raises(ScorecardIncomplete) as refused:
        scoring.submit(running, interviewer)
    assert [item.place for item in refused.value.missing] == ["recommendation"]
    assert not Scorecard.objects.get().is_submitted
    assert not TimelineEntry.objects.filter(kind=EntryKind.SCORECARD).exists()


# The lock


def test_a_submitted_scorecard_takes_no_change(running: Interview, interviewer: User) -> None:
    acts.submit(running, interviewer)
    rating = Rating.objects.filter(question__position=1).get()
    with pytest.raises(ScorecardLocked):
        rate_first(running, interviewer, RatingDraft(level=1, evidence="After."), version=version_of(rating))
    with pytest.raises(ScorecardLocked):
        save_summary(running, interviewer, SummaryDraft(summary="After."), version=version_of(Scorecard.objects.get()))
    with pytest.raises(ScorecardLocked):
        scoring.submit(running, interviewer)
    assert Rating.objects.get(pk=rating.pk).level == 3
    assert Scorecard.objects.get().summary == "Summary of Ada Interviewer."


def test_submitting_is_in_the_timeline_for_interviewers_only(running: Interview, interviewer: User) -> None:
    acts.submit(running, interviewer)
    entry = TimelineEntry.objects.get(kind=EntryKind.SCORECARD)
    assert (entry.user, entry.private, entry.payload) == (interviewer, True, {})


@pytest.mark.django_db(transaction=True)
def test_a_save_and_a_submission_at_once_never_leave_a_locked_change(running: Interview, interviewer: User) -> None:
    """Whichever comes first: what was submitted is what stands there."""
    acts.rate(running, interviewer)
    save_summary(running, interviewer, SummaryDraft(recommendation="yes"), version="")
    before = Rating.objects.get(question__position=1)
    outcomes: list[str] = []

    def attempt(name: str, act: Callable[[], object]) -> None:
        try:
            act()
            outcomes.append(name)
        except ScorecardLocked:
            outcomes.append("locked")
        finally:
            connection.close()

    draft = RatingDraft(level=1, evidence="Changed.")
    threads = [
        threading.Thread(
            target=attempt, args=("saved", lambda: rate_first(running, interviewer, draft, version=version_of(before)))
        ),
        threading.Thread(target=attempt, args=("submitted", lambda: scoring.submit(running, interviewer))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    scorecard = Scorecard.objects.get()
    rating = Rating.objects.get(question__position=1)
    assert scorecard.is_submitted
    assert "submitted" in outcomes
    assert rating.level == (1 if "saved" in outcomes else 3)
    assert scorecard.submitted_at is not None
    assert rating.updated_at <= scorecard.submitted_at


@pytest.mark.django_db(transaction=True)
def test_two_submissions_at_once_are_one(running: Interview, interviewer: User) -> None:
    acts.rate(running, interviewer)
    save_summary(running, interviewer, SummaryDraft(recommendation="yes"), version="")
    refused: list[ScorecardLocked] = []

    def attempt() -> None:
        try:
            scoring.submit(running, interviewer)
        except ScorecardLocked as locked:
            refused.append(locked)
        finally:
            connection.close()

    threads = [threading.Thread(target=attempt) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 2
    assert TimelineEntry.objects.filter(kind=EntryKind.SCORECARD).count() == 1


# Who reads what


@pytest.mark.parametrize(
    ("reader", "theirs_submitted", "own", "reads"),
    [
        # A panel member gives an opinion of their own first.
        ("colleague", True, None, False),
        ("colleague", True, "draft", False),
        ("colleague", True, "submitted", True),
        # A draft is its author's alone, whoever asks.
        ("colleague", False, "submitted", False),
        ("hiring_admin", False, None, False),
        ("superuser", False, None, False),
        ("interviewer", False, "self", True),
        ("interviewer", True, "self", True),
        # Who gives none reads what is submitted, if they may see the report.
        ("hiring_admin", True, None, True),
        ("superuser", True, None, True),
        ("stranger", True, None, False),
        # A hiring admin on the panel is a member of the panel.
        ("hiring_admin_on_panel", True, None, False),
        ("hiring_admin_on_panel", True, "submitted", True),
        # Leaving the panel with a begun scorecard opens nothing.
        ("hiring_admin", True, "draft", False),
    ],
)
def test_who_reads_a_scorecard(
    reader: str,
    theirs_submitted: bool,
    own: str | None,
    reads: bool,
    running: Interview,
    interviewer: User,
    colleague: User,
    hiring_admin: User,
    stranger: User,
    make_user: Callable[..., User],
) -> None:
    people = {"interviewer": interviewer, "colleague": colleague, "hiring_admin": hiring_admin, "stranger": stranger}
    if reader == "hiring_admin_on_panel":
        PanelMember.objects.create(interview=running, user=hiring_admin)
        person = hiring_admin
    elif reader == "superuser":
        person = make_user("Root Superuser")
        person.is_superuser = True
        person.save()
    else:
        person = people[reader]
    interview = Interview.objects.with_people().get(pk=running.pk)
    acts.rate(interview, interviewer)
    if theirs_submitted:
        save_summary(interview, interviewer, SummaryDraft(recommendation="yes"), version="")
        scoring.submit(interview, interviewer)
    theirs = Scorecard.objects.select_related("interview").get(author=interviewer)
    own_scorecard = None
    if own == "self":
        own_scorecard = theirs
    elif own is not None:
        own_scorecard = Scorecard.objects.create(
            interview=interview, author=person, submitted_at=theirs.created_at if own == "submitted" else None
        )
    person = User.objects.get(pk=person.pk)
    assert may_read(person, theirs, own_scorecard) is reads
    assert (theirs in scoring.readable(person, interview, Scorecard.objects.all())) is reads
    if person.has_perm("interviews.see_report", interview):
        assert (theirs in scoring.readable_anywhere(person)) is reads
