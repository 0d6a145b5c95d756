"""Values become places, figures become words, days become forecasts: exactly."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from gateway.dashboard import words
from gateway.dashboard.charts.columns import Box, Column, Label, Part, stacked
from gateway.dashboard.charts.lines import Dot, Line, Stroke, over_positions
from gateway.dashboard.charts.scale import scale
from gateway.dashboard.charts.spans import Span, spans
from gateway.dashboard.drafter_form import groups, patch, rebased
from gateway.dashboard.drawings import over_time
from gateway.dashboard.forecast import Forecast, alarm, forecast
from gateway.dashboard.savings import Card, card
from gateway.deployments.speculation import Speculation
from gateway.reports.savings import savings_object
from storage.savings.cohorts import Saving
from storage.savings.values import Holdout, Interval, Modelled, NotEnough

NOW = datetime(2026, 11, 16, tzinfo=UTC)
"""Half of November is over."""


@pytest.mark.parametrize(
    ("most", "last", "step"),
    [(0, 1, 1), (1, 1, 0.25), (7, 8, 2), (98, 100, 25), (100, 100, 25), (101, 150, 50), (0.003, 0.003, 0.001)],
)
def test_an_axis_ends_at_a_round_number(most: float, last: float, step: float) -> None:
    axis = scale(most, 100.0)
    assert (axis.most, axis.step) == (pytest.approx(last), pytest.approx(step))
    assert axis.size(axis.most) == 100.0


def test_columns_are_stacked_from_the_ground() -> None:
    parts = [Part("kept s1", 30, "kept"), Part("lost s1", 10, "lost"), Part("kept s2", 0, "nothing")]
    chart = stacked([Column("Mon", parts), Column("Tue", [])])
    assert chart.boxes == [Box(8.5, 45.0, 33.0, 135.0, "kept s1", "kept"), Box(8.5, 0.0, 33.0, 45.0, "lost s1", "lost")]
    assert [mark.label for mark in chart.marks] == ["0", "10", "20", "30", "40"]
    assert chart.labels == [Label(25.0, "Mon"), Label(75.0, "Tue", is_spare=True)]


def test_hours_are_named_by_the_clock_and_days_by_their_midnight() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = int(NOW.timestamp())
    of_day = over_time([(first + 3600 * hour, {}) for hour in range(24)], "hour", berlin)
    assert [label.text for label in of_day.labels] == ["06:00", "12:00", "18:00", "17 Nov"]
    of_days = over_time([(first + 86400 * day, {}) for day in range(14)], "day", berlin)
    assert [label.text for label in of_days.labels][:2] == ["16 Nov", "18 Nov"]


def test_a_line_has_a_gap_where_nothing_is_known() -> None:
    chart = over_positions([Line("s1", "lookup", [1.0, 0.5, None, 0.25])])
    assert [(dot.x, dot.y) for dot in chart.dots] == [(12.5, 0.0), (37.5, 90.0), (87.5, 135.0)]
    assert chart.dots[1] == Dot(37.5, 90.0, "s1", "lookup, position 2: 50.0%")
    assert chart.strokes == [Stroke(12.5, 0.0, 37.5, 90.0, "s1")]


def test_spans_share_one_scale() -> None:
    [queue, decode] = spans([Span("Queue", 0.1, 0.2), Span("Decode", 1.0, 2.0)])
    assert (queue.middle, queue.end, decode.middle, decode.end) == (5.0, 10.0, 50.0, 100.0)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (words.short(9_999), "9,999"),
        (words.short(12_345), "12.3 k"),
        (words.short(999_600), "1.00 M"),
        (words.short(-2_500_000), "−2.50 M"),
        (words.seconds(0.000_042), "42.0 µs"),
        (words.seconds(0.0834), "83.4 ms"),
        (words.seconds(7.081), "7.08 s"),
        (words.seconds(100), "1 min 40 s"),
        (words.duration(-3_725), "−1 h 2 min"),
        (words.duration(-0.2), "0 s"),
        (words.duration(90_000), "1 d 1 h"),
        (words.share(0.2284), "22.8%"),
        (words.share(None), "–"),
        (words.money(1_741_000, "USD"), "USD 1.74"),
        (words.money(42, "EUR"), "EUR 0.000042"),
        (words.told(True), "on"),
        (words.told(None), "none"),
        (words.moment(NOW, ZoneInfo("Asia/Tokyo")), "16 Nov 2026, 09:00"),
    ],
)
def test_figures_are_told(told: str, expected: str) -> None:
    assert told == expected


def test_a_budget_is_foretold_from_the_second_day_on() -> None:
    assert forecast(500, 900, NOW) == Forecast(1000, datetime(2026, 11, 28, tzinfo=UTC))
    assert forecast(500, 1001, NOW) == Forecast(1000, None)
    assert forecast(1000, 1000, NOW) == Forecast(2000, None)  # reached already
    assert forecast(0, 10, NOW) == Forecast(0, None)
    assert forecast(5, 10, datetime(2026, 11, 1, 23, 59, tzinfo=UTC)) is None


@pytest.mark.parametrize(("used", "limit", "is_"), [(79, 100, ""), (80, 100, "warn"), (100, 100, "bad"), (0, 0, "bad")])
def test_alarms_go_off_at_80_and_100(used: int, limit: int, is_: str) -> None:
    assert alarm(used, limit) == is_


def test_a_form_that_is_sent_as_it_was_shown_changes_nothing() -> None:
    shown = Speculation.model_validate({"drafter": {"length": 9}, "holdout_rate": 0.1}).model_dump(mode="json")
    sent = {}
    for group in groups(shown):
        for field in group.fields:
            if field.kind != "tick":
                sent[field.name] = "" if field.value is None else str(field.value)
            elif field.value:
                sent[field.name] = "on"
    assert Speculation.model_validate(patch(sent)).model_dump(mode="json") == shown


def test_what_is_no_number_is_left_to_be_refused() -> None:
    assert patch({"adaptive.start": "eight", "drafter.length": ""})["adaptive"] == {"start": "eight"}
    assert patch({"drafter.length": " "})["drafter"] == {"length": None}
    assert patch({})["enabled"] is False


def test_somebody_elses_change_is_kept() -> None:
    base = {"length": 16, "ngram": {"min": 2, "max": 5}}
    now = {"length": 16, "ngram": {"min": 2, "max": 6}}
    wanted = {"length": 9, "ngram": {"min": 3, "max": 5}}
    assert rebased(wanted, base, now) == {"length": 9, "ngram": {"min": 3, "max": 6}}
    assert rebased(wanted, None, now) == wanted


MEASURED = Holdout(90, 9_000, 1.0, 60_000_000, 100_000_000, 45, Interval(80_000_000, 130_000_000), 30.0)
MODELLED = Modelled(90, 9_000, 1.0, 60_000_000, 50_000_000, 45, 0.25, 0.01)


@pytest.mark.parametrize(
    ("saving", "expected"),
    [
        (Saving(MEASURED, None, None, None), Card("40 s", "20 s to 1 min 10 s", "Measured on 45 controls.")),
        (
            Saving(MODELLED, None, None, None),
            Card("−10 s", "no interval", "Modelled from 45 other requests, not measured; a request's time is 25% off."),
        ),
        (
            Saving(NotEnough(3, 2.0, 0.5, 850), None, None, None),
            Card("", "", "About 850 more requests are missing; 3 controls can be compared so far."),
        ),
        (
            Saving(NotEnough(0, 0.0, 0.0, None), MODELLED, None, None),
            Card(
                "",
                "",
                "No request of this time took part in the holdout, so time saved cannot be measured. "
                "Outside the draw about −10 s more, modelled.",
            ),
        ),
    ],
)
def test_time_saved_says_how_it_is_known(saving: Saving, expected: Card) -> None:
    assert card(savings_object(saving)) == expected
