"""Who may do what. Every permission of the application is decided here and nowhere else."""

from __future__ import annotations

import rules
from rules.predicates import Predicate, predicate

from interviews.models import Interview, User

INTERVIEWER = "interviewer"
BANK_EDITOR = "bank editor"
HIRING_ADMIN = "hiring admin"

is_interviewer: Predicate = rules.is_group_member(INTERVIEWER)
is_bank_editor: Predicate = rules.is_group_member(BANK_EDITOR)
is_hiring_admin: Predicate = rules.is_group_member(HIRING_ADMIN)
is_staff_member = is_interviewer | is_bank_editor | is_hiring_admin


@predicate
def is_on_panel(user: User, interview: Interview | None) -> bool:
    return interview is not None and interview.has_panel_member(user)


@predicate
def made_interview(user: User, interview: Interview | None) -> bool:
    return interview is not None and interview.created_by_id == user.pk


rules.add_perm("interviews.see_bank", is_staff_member)
rules.add_perm("interviews.edit_bank", is_bank_editor | is_hiring_admin)
rules.add_perm("interviews.make_interview", is_interviewer | is_hiring_admin)
#: Details, link and panel of an interview.
rules.add_perm("interviews.see_interview", is_on_panel | made_interview | is_hiring_admin)
rules.add_perm("interviews.change_interview", is_on_panel | made_interview | is_hiring_admin)
#: The room with its private side.
rules.add_perm("interviews.conduct_interview", is_on_panel | is_hiring_admin)
#: A scorecard of one's own.
rules.add_perm("interviews.score_interview", is_on_panel)
rules.add_perm("interviews.see_report", is_on_panel | made_interview | is_hiring_admin)
