import tomllib

from file_order import FILES, TESTS, in_order

SECONDS = {"integration/test_a.py": 10.0, "integration/test_b.py": 30.0, "unit/test_c.py": 40.0, "unit/test_d.py": 20.0}


def test_what_waits_is_begun_beside_what_computes_and_the_longest_first():
    assert in_order(SECONDS, SECONDS, []) == [
        "integration/test_b.py",
        "unit/test_c.py",
        "unit/test_d.py",
        "integration/test_a.py",
    ]


def test_a_file_of_integration_may_compute():
    order = in_order(SECONDS, SECONDS, ["integration/test_b.py"])
    assert order[:2] == ["integration/test_a.py", "unit/test_c.py"]


def test_files_that_are_not_named_stay_in_their_order_and_come_last():
    files = ["unit/test_z.py", "unit/test_y.py", "unit/test_c.py", "unit/test_x.py"]
    assert in_order(files, SECONDS, []) == ["unit/test_c.py", "unit/test_z.py", "unit/test_y.py", "unit/test_x.py"]


def test_the_files_that_are_named_are_there():
    named = tomllib.loads(FILES.read_text("utf-8"))
    assert [file for kind in named.values() for file in kind if not (TESTS / file).is_file()] == []
