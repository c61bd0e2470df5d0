"""The columnar reader of Protobuf against Protobuf's own."""

import json
import math
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from orders_proto import SCALARS, base64_of, common, field, message_class, shop

from tidegate.schemas.message_types import layout
from tidegate_spark.deserializers import protobuf_columns, protobuf_wire
from tidegate_spark.deserializers.protobuf_columns import Reader
from tidegate_spark.deserializers.protobuf_wire import NO_MESSAGE, NO_TIME

FILES = (common(), shop())
Order = message_class("shop.Order", *FILES)
READER = Reader(json.loads(layout(base64_of(FILES[1]), [base64_of(FILES[0])], "shop.Order")))
KINDS = {0: "NONE", 1: "BIG", -2: "NEGATIVE"}
FAR_PAST = datetime(1, 1, 1, tzinfo=UTC)

often = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
uint32, uint64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
scalars: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), int32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), int64),
    **dict.fromkeys(("uint32", "fixed32"), uint32),
    **dict.fromkeys(("uint64", "fixed64"), uint64),
    "bool": st.booleans(),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=4),
    "bytes": st.binary(max_size=4),
}
moneys = st.fixed_dictionaries({}, optional={"units": int64, "currency": st.text(max_size=3)})
timestamps = st.builds(
    lambda seconds, nanos: {"seconds": seconds, "nanos": nanos},
    st.integers(int(FAR_PAST.timestamp()), 253402300799),
    st.integers(0, 999_999_999),
)
lines = st.fixed_dictionaries(
    {},
    optional={
        "item": st.text(max_size=3),
        "tax": st.fixed_dictionaries({}, optional={"rates": st.lists(st.floats(), max_size=3)}),
    },
)
orders = st.fixed_dictionaries(
    {},
    optional={
        **{f"a_{kind}": values for kind, values in scalars.items()},
        **{f"some_{kind}": st.lists(values, max_size=3) for kind, values in scalars.items()},
        "kind": st.sampled_from([0, 1, -2, 7]),
        "kinds": st.lists(st.sampled_from([0, 1, -2, -7]), max_size=3),
        "maybe": int32,
        "price": moneys,
        "lines": st.lists(lines, max_size=3),
        "by_number": st.dictionaries(st.sampled_from([0, 1]) | int32, int64, max_size=3),
        "at": timestamps,
        "far": st.booleans(),
    },
)
paid = st.sampled_from([{}, {"card": ""}, {"card": "x"}, {"cash": {}}, {"cash": {"units": 1}}, {"points": 0}])


@st.composite
def messages(draw: st.DrawFn) -> Any:
    """An Order of any kind."""
    made = Order(**draw(orders), **draw(paid))
    for name, money in draw(st.dictionaries(st.text(max_size=2), moneys, max_size=2)).items():
        made.by_name[name].SetInParent()
        for part, value in money.items():
            setattr(made.by_name[name], part, value)
    return made


@pytest.fixture(params=[0, 64], ids=["in rounds", "one by one"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many messages are read one by one: none, or all that a test reads at once."""
    monkeypatch.setattr(protobuf_wire, "_FEW", request.param)


both_ways = pytest.mark.usefixtures("few")


def read(*contents: bytes | None) -> tuple[list[Any], list[bool]]:
    values, bad = READER.read(pa.array(contents, pa.binary()))
    values.validate(full=True)
    return values.to_pylist(), bad.tolist()


def expected(order: Any) -> dict[str, Any]:
    """What Protobuf's own reader has, as a row says it."""
    row: dict[str, Any] = {}
    for kind in SCALARS:
        wide = Decimal if kind in {"uint64", "fixed64"} else lambda value: value
        row[f"a_{kind}"] = wide(getattr(order, f"a_{kind}"))
        row[f"some_{kind}"] = [wide(one) for one in getattr(order, f"some_{kind}")]
    row["kind"] = KINDS.get(order.kind, str(order.kind))
    row["kinds"] = [KINDS.get(one, str(one)) for one in order.kinds]
    row["maybe"] = order.maybe if order.HasField("maybe") else None
    row["price"] = money(order.price) if order.HasField("price") else None
    row["lines"] = [{"item": one.item, "tax": tax(one)} for one in order.lines]
    row["by_name"] = {name: money(one) for name, one in order.by_name.items()}
    row["by_number"] = dict(order.by_number)
    given = order.WhichOneof("paid")
    row["card"] = order.card if given == "card" else None
    row["cash"] = money(order.cash) if given == "cash" else None
    row["points"] = order.points if given == "points" else None
    micros = timedelta(seconds=order.at.seconds, microseconds=order.at.nanos // 1000)
    row["at"] = datetime(1970, 1, 1, tzinfo=UTC) + micros if order.HasField("at") else None
    row["far"] = order.far
    return row


def money(one: Any) -> dict[str, Any]:
    return {"units": one.units, "currency": one.currency}


def tax(line: Any) -> dict[str, Any] | None:
    return {"rates": list(line.tax.rates)} if line.HasField("tax") else None


def comparable(value: Any) -> Any:
    """Equal where it means the same: maps without order, NaNs alike, zeros by their signs."""
    match value:
        case float():
            return "nan" if math.isnan(value) else (value, math.copysign(1, value))
        case dict():
            return {key: comparable(one) for key, one in value.items()}
        case [(_, _), *_] if all(isinstance(one, tuple) for one in value):
            return {key: comparable(one) for key, one in value}
        case list():
            return [comparable(one) for one in value]
    return value


def check(found: Any, order: Any) -> None:
    wanted = expected(order)
    for name in ("by_name", "by_number"):
        assert len(dict(found[name])) == len(found[name])
    row = {name: dict(one) if name.startswith("by_") else one for name, one in found.items()}
    assert comparable(row) == comparable(wanted)


@both_ways
@often
@given(st.lists(messages(), max_size=5), st.lists(messages(), max_size=2))
def test_every_message_is_read_as_protobuf_reads_it(sent: list[Any], parts: list[Any]) -> None:
    contents = [one.SerializeToString() for one in sent]
    joined = b"".join(one.SerializeToString() for one in parts)  # which means the merged message
    found, bad = read(*contents, None, joined)
    assert bad == [False] * (len(sent) + 2)
    for value, order in zip(found, [*sent, None, Order.FromString(joined)], strict=True):
        if order is None:
            assert value is None
        else:
            check(value, order)


@both_ways
@often
@given(
    st.lists(
        st.binary(max_size=12)
        | st.builds(lambda one, end: one.SerializeToString()[:end], messages(), st.integers(0, 60)),
        min_size=1,
    )
)
@example([b"\xb2\x01\x03\x01\x80", b"\x0d\x01\x00\x00\x00", b"\xb2\x01\x01\x01\xb0\x01\x02", b"\x00\x00", b"\x0f"])
@example([b"\x72\x01\xff", b"\x72\x01a"])
@example(
    [
        b"\x08" + b"\xff" * 9 + b"\x01",
        b"\x08" + b"\xff" * 10 + b"\x01",
        b"\xf8\xff\xff\xff\x0f\x01",
        b"\x80\x80\x80\x80\x10\x01",
    ]
)
def test_what_protobuf_cannot_read_is_bad_and_spoils_no_other(contents: list[bytes]) -> None:
    found, bad = read(*contents)
    for content, value, is_bad in zip(contents, found, bad, strict=True):
        try:
            order = Order.FromString(content)
        except DecodeError:
            assert is_bad, content.hex()
            assert value is None
            continue
        if is_bad and has_group(content):
            continue
        assert bool(is_bad) is not in_range(order), content.hex()
        if in_range(order):
            check(value, order)


def has_group(content: bytes) -> bool:
    """Groups, which nobody writes any more, are failures here; Protobuf skips unknown ones."""
    return any(byte & 7 in {3, 4} for byte in content)


def in_range(order: Any) -> bool:
    return -62135596800 <= order.at.seconds < 253402300800 and 0 <= order.at.nanos < 1_000_000_000


FIRST, LAST = -62135596800, 253402300799
TIMES = [(0, 0), (FIRST, 0), (LAST, 999_999_999), (-1, 999_999_999)]
NO_TIMES = [
    *[(FIRST - 1, 0), (LAST + 1, 0), (10**14, 0), (2**63 - 1, 0), (-(2**63), 0)],
    *[(0, -1), (0, 10**9), (LAST, 2**31 - 1)],
]


@both_ways
def test_a_time_that_protobuf_does_not_allow_spoils_its_record_and_no_other() -> None:
    sent = [Order(at={"seconds": seconds, "nanos": nanos}) for seconds, nanos in [*TIMES, *NO_TIMES]]
    found, bad = read(*(one.SerializeToString() for one in sent), b"\x08")
    assert bad == [0] * len(TIMES) + [NO_TIME] * len(NO_TIMES) + [NO_MESSAGE]
    assert found[len(TIMES) :] == [None] * (len(NO_TIMES) + 1)
    for value, order in zip(found, sent[: len(TIMES)], strict=False):
        check(value, order)


@both_ways
def test_what_is_read_after_a_time_that_is_none_does_not_hide_it() -> None:
    files = (FILES[0], shop(field("after", 60, "message", ".shop.common.Money")))
    late = message_class("shop.Order", *files)(at={"seconds": 10**14}, after={"units": 1})
    reader = Reader(json.loads(layout(base64_of(files[1]), [base64_of(files[0])], "shop.Order")))
    _, bad = reader.read(pa.array([late.SerializeToString()], pa.binary()))
    assert bad.tolist() == [NO_TIME]


@pytest.mark.parametrize("skipped", [0, 1, 3])
def test_a_slice_of_an_array_is_read_from_its_own_place(skipped: int) -> None:
    contents = [Order(a_int32=number).SerializeToString() for number in range(1, 5)]
    values, _ = READER.read(pa.array(contents, pa.binary())[skipped:])
    assert [one["a_int32"] for one in values.to_pylist()] == list(range(skipped + 1, 5))


@both_ways
def test_a_few_long_messages_among_short_ones_are_read_as_protobuf_reads_them() -> None:
    sent = [Order(a_int32=number, some_string=[str(number)] * (number % 7)) for number in range(200)]
    for number in (3, 90, 199):
        sent[number].some_string.extend(f"{part}" for part in range(500))
        sent[number].some_sint64.extend(range(-300, 300))
    contents = [one.SerializeToString() for one in sent]
    contents[90] += b"\x08"
    found, bad = read(*contents)
    assert [place for place, is_bad in enumerate(bad) if is_bad] == [90]
    for place in (0, 3, 89, 91, 199):
        check(found[place], sent[place])


def test_messages_are_read_some_bytes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [Order(a_int32=number, a_bytes=bytes(number % 50)) for number in range(100)]
    contents = [one.SerializeToString() for one in sent]
    contents[50:50] = [None, b"\x08"]
    whole, bad = READER.read(pa.array(contents, pa.binary()))
    monkeypatch.setattr(protobuf_columns, "_MOST_BYTES", 100)
    assert len(list(protobuf_columns._parts(pa.array(contents, pa.binary())))) > 10
    again, bad_again = READER.read(pa.array([b"x" * 500, *contents], pa.binary())[1:])
    assert (again.to_pylist(), bad_again.tolist()) == (whole.to_pylist(), bad.tolist())


def many_fields(count: int) -> bytes:
    return b"\x08\x01" * count


LONG = {
    "fields": lambda: many_fields(100_000),
    "packed varints": lambda: Order(some_int32=[number % 300 for number in range(200_000)]).SerializeToString(),
    "packed numbers": lambda: Order(some_float=[0.5] * 500_000).SerializeToString(),
    "texts": lambda: Order(some_string=["x"] * 100_000).SerializeToString(),
    "messages": lambda: Order(lines=[{"item": "x"}] * 100_000).SerializeToString(),
}


@pytest.mark.parametrize("kind", LONG)
def test_one_long_message_takes_little_time_and_memory(kind: str) -> None:
    sent = pa.array([LONG[kind](), b"\x08\x07"], pa.binary())
    began = time.process_time()
    values, bad = READER.read(sent)
    took = time.process_time() - began
    assert (len(values), bad.tolist()) == (2, [False, False])
    assert took < 3  # of this process' own time, which others on the machine don't lengthen much
    tracemalloc.start()
    READER.read(sent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_no_messages_make_an_empty_array_of_the_same_type() -> None:
    values, bad = READER.read(pa.array([], pa.binary()))
    assert (len(values), values.type, len(bad)) == (0, READER.kind, 0)
