"""The forms of a page, filled in and sent as a browser without scripts does."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class HtmlForm:
    """A form with its attributes, and its fields as they stand."""

    attributes: dict[str, str]
    fields: dict[str, str] = field(default_factory=dict)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[HtmlForm] = []
        self._select: str | None = None
        self._area: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(HtmlForm(values))
        elif tag == "input" and "name" in values and (values.get("type") != "checkbox" or "checked" in values):
            self.forms[-1].fields[values["name"]] = values.get("value", "")
        elif tag == "select":
            self._select = values["name"]
        elif tag == "option" and self._select and (self._select not in self.forms[-1].fields or "selected" in values):
            self.forms[-1].fields[self._select] = values["value"]
        elif tag == "textarea":
            self._area = values["name"]
            self.forms[-1].fields[self._area] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.forms[-1].fields[self._area] += data.removeprefix("\n")


def forms_in(page: str) -> list[HtmlForm]:
    """All of them, in order."""
    parser = _Forms()
    parser.feed(page)
    parser.close()
    return parser.forms
