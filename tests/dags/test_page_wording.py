"""How the page writes numbers, times and bytes, and draws a lag."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.ledger.observations import LagSample
from tidegate_airflow.page.plot import plot
from tidegate_airflow.page.raw_bytes import shown_bytes, shown_headers
from tidegate_airflow.page.wording import ago, rate, size, span, until, when, with_code

pytestmark = pytest.mark.airflow

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "–"), (0, "0 s"), (4.21, "4.2 s"), (59.6, "60 s"), (185, "3 min 5 s"), (90_000, "1 d 1 h"), (3_600, "1 h")],  # noqa: RUF001
)
def test_a_span_of_time(seconds: float | None, said: str) -> None:
    assert span(seconds) == said


def test_instants() -> None:
    assert when("2024-05-01T14:00:05+02:00") == "2024-05-01 12:00:05 UTC"
    assert ago(NOON - timedelta(seconds=65), NOON) == "1 min 5 s ago"
    assert ago(NOON + timedelta(seconds=5), NOON) == "0 s ago"
    assert until(NOON + timedelta(minutes=2), NOON) == "in 2 min"
    assert until(NOON - timedelta(minutes=2), NOON) == "2 min ago"
    assert [size(each) for each in (999, 1_500, 10**13)] == ["999 bytes", "1.5 kB", "10.0 TB"]


@pytest.mark.parametrize(
    ("per_second", "said"),
    [
        (1_234.56, "+1,234.6 records/s"),
        (-0.3, "-0.3 records/s"),
        (-0.02, "-1.2 records/min"),
        (0.0005, "+1.8 records/h"),
    ],
)
def test_a_rate_is_in_a_unit_in_which_it_is_seen(per_second: float, said: str) -> None:
    assert rate(per_second) == said


def test_code_is_code_and_all_else_is_escaped() -> None:
    assert with_code("run `tidegate <x>` & `go") == "run <code>tidegate &lt;x&gt;</code> &amp; `go"


def test_bytes_are_shown_as_text_and_hex_and_cut() -> None:
    shown = shown_bytes(b"\x00\x1bab\xff" + b"y" * 5_000)
    assert shown is not None
    assert shown.text.startswith("\N{REPLACEMENT CHARACTER}" * 2 + "ab\N{REPLACEMENT CHARACTER}y")
    assert (len(shown.text), shown.size, shown.is_cut, shown.hex[:9]) == (1_000, 5_005, True, "001b 6162")
    assert shown_bytes(None) is None
    headers, more = shown_headers((("h", None),) * 25)
    assert (len(headers), more) == (20, 5)


def test_a_plot_has_a_gap_where_the_lag_wasnt_known() -> None:
    samples = [LagSample(NOON + timedelta(minutes=n), lag, None) for n, lag in enumerate((10, 5, None, 0, 10))]
    drawn = plot(samples)
    assert drawn is not None
    assert drawn.lines == ("0.0,8.0 150.0,64.0", "450.0,120.0 600.0,8.0")
    assert drawn.areas[0] == "0.0,120 0.0,8.0 150.0,64.0 150.0,120"
    assert (drawn.most, drawn.last) == (10, 10)
    assert plot(samples[:1]) is None
