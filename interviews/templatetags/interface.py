"""Small template tags of the interface: icons, times, words. They print what they are given, they do not decide."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

from django import template
from django.conf import settings
from django.forms import BoundField, CheckboxInput
from django.http import HttpRequest
from django.template.context import RequestContext
from django.templatetags.static import static
from django.utils import timezone
from django.utils.dateformat import format as format_date
from django.utils.html import format_html
from django.utils.safestring import SafeString

from interviews import highlighting, prose

register = template.Library()

#: Cookie written by the theme switch (``static/js/interface/theme.js``).
THEME_COOKIE = "theme"
THEMES = ("light", "dark")
#: ``static/js/interface/time_zone.js`` prints the same in the browser.
TIME_STYLES = {"full": "j M Y, H:i", "short": "D j M, H:i", "date": "D j M Y", "time": "H:i"}

MINUTE_S = 60
HOUR_S = 60 * MINUTE_S


@register.simple_tag
def icon(name: str, classes: str = "", label: str = "") -> SafeString:
    """A lucide icon. Decorative, unless ``label`` says what it means."""
    role = format_html('role="img" aria-label="{}"', label) if label else SafeString('aria-hidden="true"')
    return format_html(
        '<svg class="{}" width="16" height="16" {}><use href="{}#{}"/></svg>',
        f"icon {classes}".strip(),
        role,
        static("dist/icons.svg"),
        name,
    )


@register.simple_tag
def icons_url() -> str:
    """Where scripts find the sprite."""
    return static("dist/icons.svg")


@register.simple_tag(takes_context=True)
def theme(context: RequestContext | dict[str, object]) -> str:
    """``light`` or ``dark`` if the reader chose one, else empty: then the system decides."""
    request = context.get("request")
    chosen = request.COOKIES.get(THEME_COOKIE, "") if isinstance(request, HttpRequest) else ""
    return chosen if chosen in THEMES else ""


@register.simple_tag
def time_zone_name() -> str:
    """The zone in which this page prints its times."""
    return timezone.get_current_timezone_name()


def zone_label(at: datetime) -> str:
    """A short name people know ("CET"), or the distance from UTC where the zone has none."""
    name = at.tzname() or "UTC"
    if name.isalpha():
        return name
    offset = at.strftime("%z")
    return f"UTC{offset[:3]}" if offset.endswith("00") else f"UTC{offset[:3]}:{offset[3:]}"


@register.simple_tag
def local_time(at: datetime | None, style: str = "full", zone: str = "") -> SafeString:
    """A moment in the reader's zone (scripts put it right on a first visit), or in ``zone``, which is then named."""
    if at is None:
        return SafeString("–")
    shown = timezone.localtime(at, zoneinfo.ZoneInfo(zone) if zone else None)
    words = format_date(shown, TIME_STYLES[style])
    if zone:
        words = f"{words} {zone_label(shown)}"
    return format_html(
        '<time datetime="{}"{} title="{} ({})">{}</time>',
        at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "" if zone else format_html(' data-local="{}"', style),
        format_date(shown, "l j F Y, H:i"),
        zone or timezone.get_current_timezone_name(),
        words,
    )


@register.filter
def duration(seconds: float | None) -> str:
    """``0.84`` → "840 ms", ``1.3`` → "1.3 s", ``125`` → "2 min 5 s", ``3900`` → "1 h 5 min"."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < MINUTE_S:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < HOUR_S:
        return _two_units(whole // MINUTE_S, "min", whole % MINUTE_S, "s")
    return _two_units(whole // HOUR_S, "h", whole % HOUR_S // MINUTE_S, "min")


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"


@register.filter
def markdown(text: str, top_level: int = 3) -> SafeString:
    """Rendered Markdown; put it into an element of class ``prose``. Its highest heading is ``<h{top_level}>``."""
    return prose.render_markdown(text, top_level)


@register.filter
def highlight(source: str, language: str = "python") -> SafeString:
    """Code in a ``<pre class="code">``."""
    return highlighting.highlight(source, language)


@register.filter
def initials(name: str) -> str:
    """``Mei-Ling Zhao`` → "MZ"."""
    words = name.split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()


@register.simple_tag
def development() -> bool:
    """Whether this is a developer's server."""
    return bool(settings.DEBUG)


@register.inclusion_tag("components/field.html")
def field(bound: BoundField, hint: str = "", classes: str = "", placeholder: str | None = None) -> dict[str, object]:
    """A form's field with its label, hint and errors, tied together for screen readers."""
    widget = bound.field.widget
    hint = hint or str(bound.help_text)
    described_by = [f"{bound.auto_id}_helptext"] if hint else []
    described_by += [f"{bound.auto_id}_error"] if bound.errors else []
    attributes: dict[str, str | bool] = {"aria-describedby": " ".join(described_by)} if described_by else {}
    if placeholder is not None:
        attributes["placeholder"] = placeholder
    is_choice = isinstance(widget, CheckboxInput)
    if not is_choice:
        attributes["class"] = f"{widget.attrs.get('class', '')} input {classes}".strip()
    return {"field": bound, "hint": hint, "is_choice": is_choice, "control": bound.as_widget(attrs=attributes)}
