from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def rendered(source: str, **context: object) -> str:
    return Template(source).render(Context(context))


def test_an_icon_comes_from_the_sprite_and_is_hidden_from_screen_readers() -> None:
    html = rendered('{% icon "play" %}')
    assert 'href="/static/dist/icons.svg#play"' in html
    assert 'aria-hidden="true"' in html


def test_an_icon_with_a_label_is_an_image_of_that_name() -> None:
    html = rendered('{% icon "play" label=words %}', words='"Run"')
    assert 'role="img" aria-label="&quot;Run&quot;"' in html
    assert "aria-hidden" not in html


def test_a_time_is_shown_in_the_readers_zone() -> None:
    with timezone.override("Asia/Tokyo"):
        html = rendered("{% local_time at %}", at=NOON)
    assert 'datetime="2026-12-01T12:00:00Z"' in html
    assert ">1 Dec 2026, 21:00</time>" in html
    assert 'data-local="full"' in html


def test_a_time_in_a_named_zone_names_it_and_stays_in_it() -> None:
    html = rendered('{% local_time at "short" zone="Europe/Berlin" %}', at=NOON)
    assert ">Tue 1 Dec, 13:00 CET</time>" in html
    assert "data-local" not in html


def test_a_zone_without_a_short_name_shows_its_distance_from_utc() -> None:
    assert "12:00 UTC" in rendered('{% local_time at zone="UTC" %}', at=NOON)
    assert "17:45 UTC+05:45" in rendered('{% local_time at zone="Asia/Kathmandu" %}', at=NOON)
    assert "09:00 UTC-03" in rendered('{% local_time at zone="America/Sao_Paulo" %}', at=NOON)


def test_no_time_is_a_dash() -> None:
    assert rendered("{% local_time at %}", at=None) == "–"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0004, "0 ms"),
        (0.84, "840 ms"),
        (1, "1 s"),
        (1.26, "1.3 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (3900, "1 h 5 min"),
        (None, "–"),
    ],
)
def test_durations_are_written_in_units_people_read(seconds: float | None, words: str) -> None:
    assert rendered("{{ seconds|duration }}", seconds=seconds) == words


def test_markdown_keeps_structure_and_fits_under_the_headings_of_its_page() -> None:
    html = rendered(
        "{{ text|markdown }}", text="# Task\n\n## Input\n\nA *tensor*.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    assert "<h3>Task</h3>" in html
    assert "<h4>Input</h4>" in html
    assert "<em>tensor</em>" in html
    assert "<td>2</td>" in html


def test_markdown_takes_no_html_no_script_and_no_picture_from_elsewhere() -> None:
    text = '<script>alert(1)</script>\n\n![x](https://example.org/x.png) [y](javascript:alert(1)) <b onclick="x">b</b>'
    html = rendered("{{ text|markdown }}", text=text)
    for forbidden in ("<script", "<img", 'href="javascript', "<b "):
        assert forbidden not in html


def test_code_in_markdown_is_highlighted_by_classes_and_escaped() -> None:
    html = rendered("{{ text|markdown }}", text="```python\ndef f(): return '<b>'\n```\n")
    assert '<span class="hl-k">def</span>' in html
    assert "&lt;b&gt;" in html
    assert 'tabindex="0"' in html
    assert "style=" not in html


def test_code_in_an_unknown_language_is_shown_as_it_is() -> None:
    assert "a &lt; b" in rendered('{{ code|highlight:"nonsense" }}', code="a < b\n")


def test_the_theme_is_the_readers_choice_and_nothing_else() -> None:
    for cookie, shown in [("dark", "dark"), ("light", "light"), ('"><script>', ""), ("", "")]:
        request = RequestFactory().get("/", HTTP_COOKIE=f"theme={cookie}")
        assert rendered("{% theme %}", request=request) == shown
    assert rendered("{% theme %}") == ""
