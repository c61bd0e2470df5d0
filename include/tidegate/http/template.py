"""The body of a webhook, made of a record by a template: MiniJinja's language, which runs nothing and reads no file."""

import json
from collections.abc import Mapping
from typing import Any

from minijinja import Environment, TemplateError

from tidegate.http.message import Message

_FUEL = 100_000  # steps of a template, so that none goes on for ever
_NAMES = {True: "body.json", False: "body.txt"}


class Template:
    """A template of topic, partition, offset, timestamp (ms), key, value and headers.

    Key, value and the values of headers are what they hold where that is JSON, else text in UTF-8. In a template that
    begins with { or [ each {{ ... }} is written as JSON, quotes included; in any other one as text.
    """

    def __init__(self, text: str) -> None:
        """Raises ValueError for a text that is no template."""
        self.is_json = text.lstrip()[:1] in ("{", "[") and text.lstrip()[:2] not in ("{{", "{%", "{#")
        self._name = _NAMES[self.is_json]
        self._environment = Environment(fuel=_FUEL, undefined_behavior="strict")
        try:
            self._environment.add_template(self._name, text)
        except TemplateError as error:
            raise ValueError(_said(error)) from None

    def render(self, message: Message) -> str:
        """The body of a record's request. Raises ValueError, saying why, where the template doesn't fit the record."""
        content, unreadable = _readable({"key": message.key, "value": message.value})
        headers, unreadable_headers = _readable(dict(message.headers))
        try:
            return self._environment.render_template(
                self._name,
                topic=message.at.topic,
                partition=message.at.partition,
                offset=message.offset,
                timestamp=message.timestamp,
                headers=headers,
                **content,
            )
        except TemplateError as error:
            named = (*unreadable, *(f"header {name}" for name in unreadable_headers))
            why = f"; it has no {', '.join(named)} in UTF-8" if named else ""
            raise ValueError(f"the template doesn't fit it: {_said(error)}{why}") from None


def _readable(contents: Mapping[str, bytes | None]) -> tuple[dict[str, Any], list[str]]:
    """What these hold, and the names of those that aren't text: a template that names none of them is fine."""
    meant: dict[str, Any] = {}
    unreadable = []
    for name, content in contents.items():
        try:
            meant[name] = _meant(content)
        except UnicodeDecodeError:
            unreadable.append(name)
    return meant, unreadable


def _meant(content: bytes | None) -> Any:
    if content is None:
        return None
    text = content.decode()
    try:
        return json.loads(text)
    except ValueError:
        return text


def _said(error: TemplateError) -> str:
    """The first line alone: the others quote the record."""
    return str(error).splitlines()[0].replace(" (in body.json:", " (line ").replace(" (in body.txt:", " (line ")
