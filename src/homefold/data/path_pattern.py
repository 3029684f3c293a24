"""Domain, label and split read from a path by a pattern that a person wrote."""

from __future__ import annotations

import re
from functools import cached_property

from homefold.errors import ConfigError, shown

__all__ = ["PathPattern"]

_NAMES = ("domain", "label", "split")
_TOKEN = re.compile(r"\{(\w*)\}|\*\*/|\*\*|\*|\?|[^{*?]+|\{")
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class PathPattern:
    """What `{domain}`, `{label}` and `{split}` stand for in a path, whose parts are separated by `/`.

    Args:
        text: a template such as `{domain}/{label}/*`, which must match the whole path: a name in braces stands for a
            part of a path or some of one, `*` for any letters but `/`, `**` for any number of folders. Or a regular
            expression with groups of these names, such as `(?P<domain>[^/]+)_cam/`, which may match anywhere.

    >>> PathPattern("{domain}/{label}_*.jpg").names("street/cat_17.jpg")
    {'domain': 'street', 'label': 'cat'}
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._is_expression = "(?P<" in text
        if "domain" not in self.given:
            raise ConfigError(
                f"the pattern {shown(text)} does not say where the domain stands; write a template such as "
                "'{domain}/{label}/*', or a regular expression with a group (?P<domain>…)."
            )

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        try:
            return re.compile(self.text if self._is_expression else _as_expression(self.text))
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"the pattern {shown(self.text)} is no regular expression ({error}).") from None

    @cached_property
    def given(self) -> frozenset[str]:
        """Which of domain, label and split it tells."""
        names = frozenset(self._expression.groupindex)
        if strange := sorted(names - set(_NAMES)):
            raise ConfigError(
                f"the pattern {shown(self.text)} names {', '.join(strange)}; it can name {', '.join(_NAMES)}."
            )
        return names

    def names(self, path: str) -> dict[str, str] | None:
        """What the path says of its image; None where it does not match, or a name would be empty."""
        match = self._expression.search(path) if self._is_expression else self._expression.fullmatch(path)
        found = match.groupdict() if match else {}
        return found if found and all(found.values()) else None


def _as_expression(template: str) -> str:
    parts, seen = [], set()
    for token in _TOKEN.finditer(template):
        name = token[1]
        if name is None:
            parts.append(_WILD.get(token[0]) or re.escape(token[0]))
        elif not name.isidentifier():
            parts.append(re.escape(token[0]))
        elif name in seen:
            parts.append(f"(?P={name})")  # the same text again
        else:
            seen.add(name)
            parts.append(f"(?P<{name}>[^/]+?)")
    return "(?s:" + "".join(parts) + ")"
