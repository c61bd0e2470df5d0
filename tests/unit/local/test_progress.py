"""Without a terminal, progress is a few plain lines."""

import io

from rich.console import Console

from tidegate_local.progress import Display


def test_a_bar_is_a_line_at_each_quarter_and_one_at_the_end():
    text = io.StringIO()
    with Display(Console(file=text)).bar("Records", 1000) as advance:
        for done in range(0, 1001, 10):
            advance(done)
    lines = text.getvalue().splitlines()
    assert lines[:-1] == [f"Records: {done} of 1,000" for done in (250, 500, 750)]
    assert lines[-1].startswith("Records: 1,000 of 1,000 in ")


def test_an_empty_bar_is_one_line():
    text = io.StringIO()
    with Display(Console(file=text)).bar("Records", 0) as advance:
        advance(0)
    assert len(text.getvalue().splitlines()) == 1


def test_a_bar_that_nobody_moved_does_not_claim_to_be_full():
    text = io.StringIO()
    with Display(Console(file=text)).bar("Records", 1000):
        pass
    assert text.getvalue().startswith("Records: 0 of 1,000 in ")
