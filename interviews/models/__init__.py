"""The rows behind questions, kits, interviews, the room and its timeline."""

from interviews.models.accounts import User, UserManager
from interviews.models.interviews import (
    Candidate,
    CandidateSession,
    Interview,
    InterviewQuestion,
    InterviewStatus,
    PanelMember,
)
from interviews.models.questions import (
    Anchor,
    Check,
    Criterion,
    Difficulty,
    FollowUp,
    Kit,
    KitQuestion,
    Outline,
    Question,
    QuestionKind,
    QuestionVersion,
    Rubric,
    WrongAnswer,
)
from interviews.models.timeline import ActorKind, DocumentSnapshot, EntryKind, TimelineEntry

__all__ = [
    "ActorKind",
    "Anchor",
    "Candidate",
    "CandidateSession",
    "Check",
    "Criterion",
    "Difficulty",
    "DocumentSnapshot",
    "EntryKind",
    "FollowUp",
    "Interview",
    "InterviewQuestion",
    "InterviewStatus",
    "Kit",
    "KitQuestion",
    "Outline",
    "PanelMember",
    "Question",
    "QuestionKind",
    "QuestionVersion",
    "Rubric",
    "TimelineEntry",
    "User",
    "UserManager",
    "WrongAnswer",
]
