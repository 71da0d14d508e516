from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from interviews import links, scheduling
from interviews.models import Candidate, Interview, InterviewQuestion, Kit, Question, QuestionVersion, User
from tests.interviews.making import arrangement, make_interview


def new_version(slug: str) -> QuestionVersion:
    version = Question.objects.get(slug=slug).latest
    version.pk = None
    version.number += 1
    version.save()
    return version


def test_an_interview_has_its_panel_its_link_and_its_questions_in_order(
    kit: Kit, interviewer: User, colleague: User
) -> None:
    wanted = replace(arrangement(interviewer, kit), panel=(interviewer, colleague), lead=colleague)
    interview = scheduling.create_interview(wanted, by=interviewer)
    assert [(member.user, member.lead) for member in interview.panel.all()] == [(colleague, True), (interviewer, False)]
    token = links.candidate_url(interview).rstrip("/").rpartition("/")[2]
    assert links.find_interview(token) == interview
    questions = interview.questions.select_related("version__question")
    assert [(each.position, each.version.question.slug) for each in questions] == [(1, "adding"), (2, "sharding")]


def test_questions_are_pinned_to_the_version_that_was_the_latest(kit: Kit, interviewer: User) -> None:
    second = new_version("adding")
    interview = make_interview(interviewer, kit)
    new_version("adding")
    assert interview.questions.get(position=1).version == second


def test_who_leads_must_be_on_the_panel(kit: Kit, interviewer: User, colleague: User) -> None:
    with pytest.raises(ValueError, match="must be on the panel"):
        replace(arrangement(interviewer, kit), lead=colleague)


def test_moving_an_interview_keeps_the_link_and_lets_it_last_as_long_as_needed(
    interview: Interview, kit: Kit, interviewer: User
) -> None:
    before = interview.link_hash
    scheduling.rearrange(interview, arrangement(interviewer, kit, "Cleo Chang", starts_in=timedelta(days=9)))
    interview.refresh_from_db()
    assert interview.link_hash == before
    assert interview.link_expires_at == interview.ends_at + links.LINK_GRACE
    assert interview.candidate.name == "Cleo Chang"
    assert [member.user for member in interview.panel.all()] == [interviewer]


def test_the_kit_can_change_until_something_happened(interview: Interview, interviewer: User) -> None:
    other = Kit.objects.create(name="Other kit")
    other.set_questions([Question.objects.get(slug="sharding")])
    scheduling.rearrange(interview, arrangement(interviewer, other))
    assert [each.version.title for each in interview.questions.select_related("version")] == ["Sharding"]

    Interview.objects.update(timeline_length=1)
    kit = Kit.objects.get(name="Small kit")
    with pytest.raises(scheduling.InterviewTouched):
        scheduling.rearrange(interview, arrangement(interviewer, kit))
    assert InterviewQuestion.objects.filter(interview=interview).count() == 1


def test_an_interview_that_is_called_off_leaves_nothing_behind(interview: Interview) -> None:
    scheduling.cancel(interview)
    assert not Interview.objects.exists()
    assert not Candidate.objects.exists()


def test_an_interview_in_which_something_happened_is_not_called_off(interview: Interview) -> None:
    Interview.objects.update(timeline_length=1)
    with pytest.raises(scheduling.InterviewTouched):
        scheduling.cancel(interview)
    assert Interview.objects.count() == 1


def test_a_new_link_kills_the_old_one(interview: Interview) -> None:
    old = links.candidate_url(interview).rstrip("/").rpartition("/")[2]
    scheduling.renew_link(interview)
    new = links.candidate_url(Interview.objects.get()).rstrip("/").rpartition("/")[2]
    assert links.find_interview(old) is None
    assert links.find_interview(new) == interview


def test_a_new_link_of_an_interview_long_past_works_now(interview: Interview) -> None:
    Interview.objects.update(starts_at=timezone.now() - timedelta(days=30))
    interview.refresh_from_db()
    scheduling.renew_link(interview)
    assert Interview.objects.get().is_link_good


def test_a_revoked_link_opens_nothing_nor_do_the_browsers_that_followed_it(interview: Interview) -> None:
    token = links.candidate_url(interview).rstrip("/").rpartition("/")[2]
    _, cookie = links.open_session(interview)
    scheduling.revoke_link(interview)
    assert links.find_interview(token) is None
    assert links.find_session(Interview.objects.get(), cookie) is None
