"""Syntax highlighting: a Pygments lexer for sqlwin's SQL, and the style of the prompt."""

from __future__ import annotations

from typing import Any, ClassVar

from prompt_toolkit.styles import Style
from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from sqlwin.repl.completion.words import KEYWORDS, TYPES, WINDOW_FUNCTIONS


class SqlwinLexer(RegexLexer):  # type: ignore[misc]  # Pygments has no types
    """Lexer of sqlwin's SQL and backslash commands, for colours only. It never fails."""

    name = "sqlwin"
    aliases: ClassVar[list[str]] = ["sqlwin"]
    flags = 2  # re.IGNORECASE

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\A(\s*)(\\\S*|\.[a-z]+)(.*)", bygroups(Text, Name.Tag, Text)),
            (r"\s+", Text),
            (r"--.*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r"r?'(?:[^'\\]|\\.|'')*'?", String.Single),
            (r'r?"(?:[^"\\]|\\.|"")*"?', String.Double),
            (r"`(?:[^`]|``)*`?", Name.Variable),
            (r"\d+(?:\.\d*)?(?:e[+-]?\d+)?\w*|\.\d+(?:e[+-]?\d+)?", Number),
            (words(WINDOW_FUNCTIONS, prefix=r"\b", suffix=r"(?=\s*\()"), Name.Builtin),
            (words(("DESCRIPTOR",), prefix=r"\b", suffix=r"\b"), Name.Builtin),
            (words(tuple(sorted(KEYWORDS)), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(TYPES, prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (r"\w+(?=\()", Name.Function),
            (r"\w+", Name),
            (r"=>|<=>|[-+*/%<>=!|&^~?:@$#]+", Operator),
            (r"[()\[\],;.{}]", Punctuation),
            (r".", Text),
        ],
        "comment": [
            (r"[^*]+", Comment.Multiline),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"\*", Comment.Multiline),
        ],
    }


# The terminal's own colours suit its background, light or dark
STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "prompt.waiting": "nobold ansiyellow",
        "prompt.more": "ansibrightblack",
        "pygments.keyword": "bold ansiblue",
        "pygments.keyword.type": "nobold ansiblue",
        "pygments.name.builtin": "bold ansicyan",
        "pygments.name.function": "ansicyan",
        "pygments.name.tag": "bold ansicyan",
        "pygments.literal.string": "ansigreen",
        "pygments.literal.number": "ansimagenta",
        "pygments.comment": "italic ansibrightblack",
        "matching-bracket.cursor": "bold underline",
        "matching-bracket.other": "bold underline",
        "auto-suggestion": "ansibrightblack",
        "bottom-toolbar": "noreverse ansibrightblack",
        "bottom-toolbar.waiting": "noreverse ansiyellow",
        "bottom-toolbar.failed": "noreverse ansired",
        "bottom-toolbar.call": "noreverse",
        "bottom-toolbar.argument": "noreverse bold underline",
        "completion-menu": "bg:ansibrightblack ansiwhite",
        "completion-menu.completion": "bg:#3a3f4b #e6e6e6",
        "completion-menu.completion.current": "bg:#5f87d7 #ffffff bold",
        "completion-menu.meta.completion": "bg:#2c303a #a8b0bf",
        "completion-menu.meta.completion.current": "bg:#4a6db0 #ffffff",
        "scrollbar.background": "bg:#3a3f4b",
        "scrollbar.button": "bg:#8a92a3",
    }
)
