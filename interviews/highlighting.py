"""Code as HTML with a class for each kind of word; ``static/css/app/content.css`` gives them their colours."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

_FORMATTER = HtmlFormatter(nowrap=True, classprefix="hl-")


def highlight(source: str, language: str = "python") -> SafeString:
    """A ``<pre class="code">`` of ``source``. A language that nobody knows is shown as plain text.

    It takes the focus, because a block wider than the page must scroll by keyboard too.
    """
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    # Pygments escapes the source itself.
    inner = mark_safe(pygments_highlight(source.rstrip("\n"), lexer, _FORMATTER))  # noqa: S308
    return format_html('<pre class="code" tabindex="0"><code>{}</code></pre>', inner)
