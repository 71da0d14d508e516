"""Every address of the web application."""

from django.contrib import admin
from django.urls import include, path

from config.health import healthz
from grading.api import api

urlpatterns = [
    path("", include("interviews.urls")),
    path("", include("grading.urls")),
    path("api/", api.urls),
    path("accounts/", include("allauth.account.urls")),
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
]
