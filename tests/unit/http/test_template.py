"""A body's template says a record as its receiver wants it, and can do nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.http.message import Message
from tidegate.http.template import Template
from tidegate.model.offsets import TopicPartition

AT = TopicPartition("orders", 3)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def message(value: bytes | None = b"x", key: bytes | None = b"k") -> Message:
    return Message(AT, 17, key, value, 1_357_035_420_000, (("trace", b"t1"), ("n", None)))


def test_all_of_a_record_can_be_said() -> None:
    text = (
        '{"t": {{ topic }}, "p": {{ partition }}, "o": {{ offset }}, '
        '"at": {{ timestamp }}, "k": {{ key }}, "h": {{ headers }}}'
    )
    assert json.loads(Template(text).render(message())) == {
        "t": "orders",
        "p": 3,
        "o": 17,
        "at": 1_357_035_420_000,
        "k": "k",
        "h": {"trace": "t1", "n": None},
    }


@given(_JSON)
def test_what_a_record_holds_is_json_in_json_whatever_it_is(value: object) -> None:
    rendered = Template('{"text": {{ value }}}').render(message(json.dumps(value).encode()))
    assert json.loads(rendered) == {"text": value}


@given(st.text())
def test_text_that_is_no_json_stays_text(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        assert json.loads(Template("[{{ value }}]").render(message(text.encode()))) == [text]


def test_a_template_of_text_says_text() -> None:
    template = Template("order {{ value.id }} of {{ value.customer | upper }}")
    assert template.render(message(b'{"id": 7, "customer": "<ann>"}')) == "order 7 of <ANN>"
    assert not template.is_json
    assert not Template("{{ value }}").is_json


def test_without_a_value_there_is_null() -> None:
    assert Template('{"v": {{ value }}}').render(message(None)) == '{"v": null}'


@pytest.mark.parametrize(
    "text",
    [
        "{{ value.nothing }}",
        "{{ nothing }}",
        '{% include "/etc/passwd" %}',
        "{{ value.__class__ }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
    ],
)
def test_what_a_template_cannot_have_is_said_without_the_record(text: str) -> None:
    with pytest.raises(ValueError, match=r"the template doesn't fit it: .*line 1") as raised:
        Template(text).render(message(b'{"card": "s3cret"}'))
    assert "s3cret" not in str(raised.value)
