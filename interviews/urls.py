"""Addresses of questions, kits, interviews and the room. The names are what other code and templates use."""

from __future__ import annotations

from django.urls import path

from interviews import views, views_room

app_name = "interviews"
urlpatterns = [
    path("", views.home, name="home"),
    path("interviews/", views.interview_list, name="interviews"),
    path("interviews/new/", views.interview_new, name="interview_new"),
    path("interviews/<uuid:public_id>/", views.interview, name="interview"),
    path("interviews/<uuid:public_id>/edit/", views.interview_edit, name="interview_edit"),
    path("interviews/<uuid:public_id>/cancel/", views.interview_cancel, name="interview_cancel"),
    path("interviews/<uuid:public_id>/link/renew/", views.link_renew, name="interview_link_renew"),
    path("interviews/<uuid:public_id>/link/revoke/", views.link_revoke, name="interview_link_revoke"),
    path("interviews/<uuid:public_id>/room/", views_room.room, name="room"),
    path("room/<uuid:public_id>/", views_room.candidate_room, name="candidate_room"),
    path("j/<str:token>/", views_room.join, name="join"),
    path("questions/", views.question_list, name="questions"),
    path("questions/<slug:slug>/", views.question, name="question"),
    path("kits/", views.kit_list, name="kits"),
    path("kits/new/", views.kit_edit, name="kit_new"),
    path("kits/<int:pk>/", views.kit, name="kit"),
    path("kits/<int:pk>/edit/", views.kit_edit, name="kit_edit"),
    path("profile/", views.profile, name="profile"),
    path("components/", views.components, name="components"),
]
