"""What Prometheus reads."""

from amend.core.metrics import SECONDS_BUCKETS, Counter, Histogram, render


def test_a_counter_counts_by_labels_and_shows_before_its_first_event() -> None:
    marks = Counter()
    marks.add(0, cause="deleted")
    marks.add(cause="edited")
    marks.add(2, cause="edited")

    text = render({"amend_marks_total": ("Marks.", marks)})

    assert text == (
        "# HELP amend_marks_total Marks.\n"
        "# TYPE amend_marks_total counter\n"
        'amend_marks_total{cause="deleted"} 0\n'
        'amend_marks_total{cause="edited"} 3\n'
    )


def test_buckets_are_cumulative_and_the_last_holds_everything() -> None:
    seconds = Histogram()
    for value in (0.0, SECONDS_BUCKETS[0], 0.0007, 99.0):
        seconds.observe(value, route="/v1/lookup")

    lines = render({"q": ("Answers.", seconds)}).splitlines()

    assert 'q_bucket{route="/v1/lookup",le="5e-05"} 2' in lines
    assert 'q_bucket{route="/v1/lookup",le="0.0005"} 2' in lines
    assert 'q_bucket{route="/v1/lookup",le="0.001"} 3' in lines
    assert 'q_bucket{route="/v1/lookup",le="5"} 3' in lines
    assert 'q_bucket{route="/v1/lookup",le="+Inf"} 4' in lines
    assert 'q_count{route="/v1/lookup"} 4' in lines
    assert len(lines) == 2 + len(SECONDS_BUCKETS) + 1 + 2


def test_a_gauge_keeps_every_digit() -> None:
    text = render({"rss": ("Bytes.", {(): 123456789.0}), "up": ("Seconds.", {(("a", "b"),): 0.25})})

    assert "rss 123456789\n" in text
    assert 'up{a="b"} 0.25\n' in text


def test_the_order_of_labels_makes_no_second_series() -> None:
    counter = Counter()
    counter.add(a="1", b="2")
    counter.add(b="2", a="1")

    assert 'n{a="1",b="2"} 2\n' in render({"n": ("N.", counter)})


def test_any_text_makes_one_legible_line() -> None:
    counter = Counter()
    counter.add(path='a"b\\c\nd\udcff')

    text = render({"n": ("two\nlines \\ more", counter)})

    assert text.splitlines()[0] == r"# HELP n two\nlines \\ more"
    assert text.splitlines()[2] == r'n{path="a\"b\\c\nd?"} 1'
    assert text.encode()


def test_a_sum_that_is_no_whole_number_is_not_rounded() -> None:
    seconds = Histogram()
    seconds.observe(1234567.25)

    assert "q_sum 1234567.25\n" in render({"q": ("Q.", seconds)})
