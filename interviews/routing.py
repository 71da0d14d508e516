"""The room's WebSocket."""

from __future__ import annotations

from django.urls import URLPattern, path

from interviews.consumers import RoomConsumer

websocket_urlpatterns: list[URLPattern] = [path("ws/rooms/<uuid:public_id>/", RoomConsumer.as_asgi())]
