"""Markdown as HTML that is safe to show: no HTML of its own, no picture from elsewhere, no script."""

from __future__ import annotations

from collections.abc import Sequence

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from interviews.highlighting import highlight

_TAGS = {
    *("p", "br", "hr", "em", "strong", "s", "code", "pre", "span", "blockquote", "a", "ul", "ol", "li"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "span": {"class"},
    "pre": {"class", "tabindex"},
    "table": {"tabindex"},
}
_LOWEST_HEADING = 6


def _fence(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> SafeString:
    words = tokens[index].info.split()
    return highlight(tokens[index].content, words[0] if words else "text")


def _table_open(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    # A table wider than the page scrolls, so the keyboard must reach it.
    return '<table tabindex="0">\n'


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_MARKDOWN.add_render_rule("fence", _fence)
_MARKDOWN.add_render_rule("code_block", _fence)
_MARKDOWN.add_render_rule("table_open", _table_open)


def render_markdown(text: str, top_level: int = 3) -> SafeString:
    """``text`` as HTML whose highest heading is ``<h{top_level}>``, so that it fits under the headings of its page."""
    tokens = _MARKDOWN.parse(text)
    headings = [token for token in tokens if token.type in {"heading_open", "heading_close"}]
    shift = top_level - min((int(token.tag[1]) for token in headings), default=top_level)
    for token in headings:
        token.tag = f"h{min(max(int(token.tag[1]) + shift, 1), _LOWEST_HEADING)}"
    rendered: str = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return mark_safe(nh3.clean(rendered, tags=_TAGS, attributes=_ATTRIBUTES))  # noqa: S308
