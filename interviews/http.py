from django.http import HttpRequest

from interviews.models import User


class SignedInRequest(HttpRequest):
    """For type checkers: a request behind ``login_required``."""

    user: User
