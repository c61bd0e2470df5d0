"""The checks between definitions, and against spark_jobs/."""

import ast
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from checkout import PROJECT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.config import check, output_checks
from tidegate.config.airflow_defaults import AirflowDefaults
from tidegate.config.check import Report, examine
from tidegate.config.reading import Reading, read


@pytest.fixture
def home(tmp_path):
    (tmp_path / "spark_jobs/transforms").mkdir(parents=True)
    (tmp_path / "spark_jobs/transforms/flights.py").write_text(
        "raise RuntimeError('imported')\n"
        "from elsewhere import borrowed as lent\n"
        "def departures(rows):\n    def inner(): ...\n    return rows\n"
        "arrivals = departures\n"
    )
    (tmp_path / "spark_jobs/transforms/__init__.py").touch()
    (tmp_path / "spark_jobs/broken.py").write_text("def x(:\n")
    (tmp_path / "spark_jobs/nulls.py").write_bytes(b"\0")
    (tmp_path / "definitions").mkdir()
    return tmp_path


@pytest.fixture
def define(home):
    def write(name: str, group: str = "", output: str = "", more: str = "", processing: str = "") -> Path:
        path = home / "definitions" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"topics: [flights]\nconsumer:\n  group.id: {group or name}\n"
            f"processing:\n  output: {output or name}\n{processing}{more}"
        )
        return path

    return write


def checked(home: Path) -> Report:
    return examine([home / "definitions"], home)


def told(report: Report) -> list[tuple[str, int, str, str]]:
    return [(Path(each.file).name, each.line, each.property, each.rule) for each in report.problems]


def test_good_definitions_have_no_problems(home, define):
    define("a", processing="  transform: transforms.flights:departures\n")
    define("b")
    report = checked(home)
    assert report.problems == ()
    assert [each.name for each in report.subscriptions] == ["a", "b"]


def test_all_problems_of_all_files_at_once(home, define):
    define("a", more="members: 0\nfoo: 1\n")
    define("b", more="poll-timeout.ms: 300000\n")
    define("c", more="bar: 1\n")
    report = checked(home)
    assert told(report) == [
        ("a.yaml", 6, "members", "allowed"),
        ("a.yaml", 7, "foo", "unknown"),
        ("b.yaml", 6, "poll-timeout.ms", "R1"),
        ("c.yaml", 6, "bar", "unknown"),
    ]
    assert [each.name for each in report.subscriptions] == ["b"]
    assert len(report.errors) == 3


def test_a_group_belongs_to_one_subscription(home, define):
    define("a", group="shared")
    define("b", group="shared")
    define("c")
    report = checked(home)
    assert told(report) == [
        ("a.yaml", 3, "consumer.group.id", "shared-group"),
        ("b.yaml", 3, "consumer.group.id", "shared-group"),
    ]
    assert "b.yaml" in report.problems[0].message
    assert "shared" in str(report.problems[0].value)
    assert [each.name for each in report.subscriptions] == ["c"]


@dataclass(frozen=True)
class Known:
    """What has run: the subscriptions of each group, and the folder below home of each one's newest batch."""

    home: Path
    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)

    def of_group(self, group: str) -> Collection[str]:
        return self.groups.get(group, ())

    def outputs(self, names: Collection[str]) -> Mapping[str, str]:
        return {name: f"file://{self.home}/{self.folders[name]}" for name in names if name in self.folders}

    def report(self) -> Report:
        return examine([self.home / "definitions"], self.home, holders=self)


def test_the_definition_that_reads_with_a_group_stays_usable_beside_a_copy_of_it(home, define):
    define("a", group="shared", output="lake/a")
    define("b", group="shared", output="lake/a")
    define("c", group="shared", output="lake/c")
    report = Known(home, {"shared": {"a", "gone"}}, {"a": "lake/a"}).report()
    assert [each.name for each in report.subscriptions] == ["a"]
    assert told(report) == [
        ("b.yaml", 3, "consumer.group.id", "held-group"),
        ("b.yaml", 5, "processing.output", "shared-output"),
        ("c.yaml", 3, "consumer.group.id", "held-group"),
    ]
    assert "shared is the group that a reads with: give b a group of its own" in report.problems[0].message


def test_the_definition_that_writes_into_an_output_stays_usable_beside_one_that_takes_it(home, define):
    define("a", output="lake")
    define("b", output="x/../lake")
    define("c", output="lake/c")
    report = Known(home, folders={"a": "lake", "gone": "lake"}).report()
    assert [each.name for each in report.subscriptions] == ["a"]
    assert told(report) == [
        ("b.yaml", 5, "processing.output", "shared-output"),
        ("c.yaml", 5, "processing.output", "shared-output"),
    ]
    assert "is what a writes into: give b a folder of its own" in report.problems[0].message


def test_the_definition_that_writes_into_an_output_stays_usable_beside_one_around_it(home, define):
    define("a", output="lake/a")
    define("b", output="lake")
    report = Known(home, folders={"a": "lake/a"}).report()
    assert [each.name for each in report.subscriptions] == ["a"]
    assert told(report) == [("b.yaml", 5, "processing.output", "shared-output")]
    assert "is around the folder that a writes into: give b one beside it" in report.problems[0].message
    both = Known(home, folders={"a": "lake/a", "b": "lake"}).report()
    assert told(both) == [("a.yaml", 5, "processing.output", "shared-output")]


@pytest.mark.parametrize("folders", [{"a": "before", "b": "lake/b"}, {"a": "lake", "b": "lake"}], ids=["no", "both"])
def test_an_output_that_nobody_or_several_write_into_is_nobodys_yet(home, define, folders):
    define("a", output="lake")
    define("b", output="lake")
    report = Known(home, folders=folders).report()
    assert [name for name, _, _, _ in told(report)] == ["a.yaml", "b.yaml"]
    assert report.subscriptions == ()


def test_the_tables_that_are_written_into_stay_usable_beside_a_folder_that_takes_theirs(home, define):
    for name in ("a", "b", "c"):
        define(name, output="lake", processing="  format: delta\n")
    define("d", output="lake")
    report = Known(home, folders={"a": "lake", "b": "lake"}).report()
    assert [each.name for each in report.subscriptions] == ["a", "b", "c"]
    assert [each for each in told(report) if each[3] != "same-records"] == [
        ("d.yaml", 5, "processing.output", "shared-output")
    ]


def test_the_definition_that_has_retried_from_a_topic_stays_usable_beside_one_that_takes_it(home, define):
    define("a", more=f"{RETRY}delayed-retry-topic.topics: [own_1, shared_2]\n")
    define("b", more=f"{RETRY}delayed-retry-topic.topics: [shared_2]\n")
    report = Known(home, {"a": {"a"}}).report()
    assert [each.name for each in report.subscriptions] == ["a"]
    assert told(report) == [("b.yaml", 7, "delayed-retry-topic.topics", "shared-retry-topic")]


def test_the_same_group_on_another_cluster_is_another_group(home, define):
    define("a", group="shared")
    define("b", group="shared", more="connection: kafka_other\n")
    assert checked(home).problems == ()


def test_a_shared_group_is_found_beside_other_errors(home, define):
    define("a", group="shared", more="members: 0\n")
    define("b", group="shared")
    assert ("b.yaml", 3, "consumer.group.id", "shared-group") in told(checked(home))


@pytest.mark.parametrize("other", ["lake", "./lake/", "x/../lake", "{home}/lake", "file://{home}/lake"])
def test_an_output_belongs_to_one_subscription_however_it_is_spelt(home, define, other):
    define("a", output="lake")
    define("b", output=other.format(home=home))
    assert told(checked(home)) == [
        ("a.yaml", 5, "processing.output", "shared-output"),
        ("b.yaml", 5, "processing.output", "shared-output"),
    ]


def test_outputs_that_are_one_by_a_link_are_shared(home, define):
    (home / "real").mkdir()
    (home / "link").symlink_to(home / "real")
    define("a", output="real/lake")
    define("b", output="link/lake")
    define("c", output="link/lake/within")
    assert {(name, rule) for name, _, _, rule in told(checked(home))} == {
        ("a.yaml", "shared-output"),
        ("b.yaml", "shared-output"),
        ("c.yaml", "shared-output"),
    }


def test_a_pipe_among_definitions_is_named_and_takes_no_other_with_it(home, define):
    define("a", processing="  transform: transforms.pipe:rows\n")
    define("b")
    os.mkfifo(home / "definitions/zz.yaml")
    os.mkfifo(home / "spark_jobs/transforms/pipe.py")
    report = checked(home)
    assert {(Path(each.file).name, each.rule) for each in report.errors} == {
        ("zz.yaml", "unreadable"),
        ("a.yaml", "no-transform"),
    }
    assert [each.name for each in report.subscriptions] == ["b"]


def test_an_output_does_not_lie_within_another(home, define):
    define("a", output="lake")
    define("b", output="lake/b")
    define("c", output="lakes")
    assert told(checked(home)) == [("b.yaml", 5, "processing.output", "shared-output")]


def test_one_topic_twice_in_one_table_is_a_warning(home, define):
    table = "  format: delta\n"
    define("a", output="t", processing=table)
    define("b", output="./t", processing=table)
    define("c", output="t", processing=table, more="connection: kafka_other\n")
    define("d", output="elsewhere", processing=table)
    path = define("e", output="t", processing=table)
    path.write_text(path.read_text().replace("flights", "weather"))
    report = checked(home)
    assert told(report) == [
        ("a.yaml", 5, "processing.output", "same-records"),
        ("b.yaml", 5, "processing.output", "same-records"),
    ]
    assert {each.severity for each in report.problems} == {"warning"}
    assert "reads topic flights into this table, too: its records are there once for each" in report.problems[0].message
    assert len(report.subscriptions) == 5


def test_change_feeds_of_one_table_are_warned_of_each_others_deletes(home, define):
    feed = "  format: delta\n  keys: [id]\n  sequence-by: [ts]\n"
    define("a", output="t", processing=feed)
    path = define("b", output="t", processing=feed)
    path.write_text(path.read_text().replace("flights", "weather"))
    report = checked(home)
    assert [(rule, each.severity) for (*_, rule), each in zip(told(report), report.problems, strict=True)] == [
        ("two-feeds", "warning")
    ] * 2
    assert "what one deletes, a late change of another brings back" in report.problems[0].message


def test_a_shared_group_on_other_topics_is_still_shared(home, define):
    define("a", group="shared")
    define("b", group="shared").write_text((home / "definitions/b.yaml").read_text().replace("flights", "weather"))
    assert [rule for _, _, _, rule in told(checked(home))] == ["shared-group", "shared-group"]


def test_a_file_alone_is_compared_with_its_neighbours(home, define):
    define("a", group="shared")
    path = define("b", group="shared", output="a")
    report = examine([path], home)
    assert told(report) == [
        ("b.yaml", 3, "consumer.group.id", "shared-group"),
        ("b.yaml", 5, "processing.output", "shared-output"),
    ]
    assert report.subscriptions == ()


DEAD = "failure-strategy: dead-letter-queue\n"
RETRY = "failure-strategy: delayed-retry-topic\n"


def test_a_retry_topic_belongs_to_one_subscription(home, define):
    define("a", more=f"{RETRY}delayed-retry-topic.topics: [own_1, shared_2]\n")
    define("b", more=f"{RETRY}delayed-retry-topic.topics: [shared_2]\n")
    define("c", more=f"{RETRY}delayed-retry-topic.topics: [shared_2]\nconnection: kafka_other\n")
    report = checked(home)
    assert told(report) == [
        ("a.yaml", 7, "delayed-retry-topic.topics", "shared-retry-topic"),
        ("b.yaml", 7, "delayed-retry-topic.topics", "shared-retry-topic"),
    ]
    assert "shared_2 is also that of" in report.problems[0].message
    assert "b.yaml" in report.problems[0].message
    assert report.problems[0].value == "shared_2"
    assert [each.name for each in report.subscriptions] == ["c"]


def test_one_s_default_retry_topic_may_not_be_named_by_another(home, define):
    define("a", more=RETRY)
    define("b", more=f"{RETRY}delayed-retry-topic.topics: [a_retry_20000]\n")
    assert told(checked(home)) == [
        ("a.yaml", 6, "failure-strategy", "shared-retry-topic"),
        ("b.yaml", 7, "delayed-retry-topic.topics", "shared-retry-topic"),
    ]


def test_nobody_writes_dead_letters_into_another_s_retry_topic(home, define):
    define("a", more=RETRY)
    define("b", more=f"{DEAD}dead-letter-queue.topic: a_retry_10000\n")
    assert told(checked(home)) == [
        ("a.yaml", 6, "failure-strategy", "shared-retry-topic"),
        ("b.yaml", 7, "dead-letter-queue.topic", "shared-retry-topic"),
    ]


def test_a_shared_dead_letter_topic_is_a_warning(home, define):
    define("a", more=f"{DEAD}dead-letter-queue.topic: dead\n")
    define("b", more=f"{RETRY}dead-letter-queue.topic: dead\n")
    define("c", more="failure-strategy: ask\n")
    report = checked(home)
    assert told(report) == [
        ("a.yaml", 7, "dead-letter-queue.topic", "shared-dead-letter-topic"),
        ("b.yaml", 7, "dead-letter-queue.topic", "shared-dead-letter-topic"),
    ]
    assert {each.severity for each in report.problems} == {"warning"}
    assert "dead also gets the dead letters of" in report.problems[0].message
    assert len(report.subscriptions) == 3


def test_another_s_dead_letters_and_retries_may_be_read(home, define):
    define("a", more=DEAD)
    define("b", more=RETRY)
    path = define("c")
    path.write_text(path.read_text().replace("[flights]", "[dead-letter-topic-a, b_retry_10000]"))
    assert checked(home).problems == ()


@pytest.mark.long
def test_a_thousand_of_one_group_are_told_briefly_and_each_file_is_read_once(home, define, monkeypatch):
    for number in range(1000):
        define(f"s{number}", group="shared", output="lake")
    reads: list[Path] = []
    looked: list[str] = []

    def counted(path: Path, defaults: AirflowDefaults) -> Reading:
        reads.append(path)
        return read(path, defaults=defaults)

    def above(place: str) -> Iterator[str]:
        looked.append(place)
        return iter(())

    monkeypatch.setattr(check, "read", counted)
    monkeypatch.setattr(output_checks, "_above", above)
    report = checked(home)
    assert len(reads) == len(set(reads)) == 1000
    assert len(looked) == 1000
    assert len(report.errors) == 2000
    assert max(len(each.message) for each in report.problems) < 1000
    assert "and 996 more" in report.problems[0].message


def test_a_transforms_file_is_looked_at_once(home, define, monkeypatch):
    for number in range(20):
        define(f"s{number}", processing="  transform: transforms.flights:departures\n")
    parsed: list[bytes] = []
    monkeypatch.setattr(ast, "parse", lambda source: parsed.append(source) or ast.Module([], []))
    checked(home)
    assert len(parsed) == 1


@pytest.mark.parametrize("job", ["spark_jobs/mine.py", "{home}/spark_jobs/mine.py", "file://{home}/spark_jobs/mine.py"])
def test_a_job_that_is_there(home, define, job):
    (home / "spark_jobs/mine.py").write_text("")
    define("a", processing=f"  job: {job.format(home=home)}\n")
    assert checked(home).problems == ()


@pytest.mark.parametrize("job", ["spark_jobs/nine.py", "spark_jobs", "file:///nowhere.py", "file://host/job.py"])
def test_a_job_that_is_not_there(home, define, job):
    define("a", processing=f"  job: {job}\n")
    assert told(checked(home)) == [("a.yaml", 6, "processing.job", "no-job")]


def test_a_job_elsewhere_is_not_looked_for(home, define):
    define("a", processing="  job: hdfs://name:8020/jobs/mine.py\n")
    assert checked(home).problems == ()


@pytest.mark.parametrize("function", ["departures", "arrivals", "lent"])
def test_a_transform_is_found_without_importing_it(home, define, function):
    define("a", processing=f"  transform: transforms.flights:{function}\n")
    assert checked(home).problems == ()


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ("transforms.fligths:departures", "there is no module transforms.fligths in"),
        ("flights:departures", "/spark_jobs, nor among what Python imports here: put it there"),
        ("transforms:departures", "__init__.py has no function departures"),
        ("transforms.flights:departure", "did you mean departures?"),
        ("transforms.flights:inner", "has no function inner"),
        ("broken:x", "isn't Python"),
        ("nulls:x", "isn't Python"),
    ],
)
def test_a_transform_that_is_not_there(home, define, transform, said):
    define("a", processing=f"  transform: {transform}\n")
    report = checked(home)
    assert told(report) == [("a.yaml", 6, "processing.transform", "no-transform")]
    assert said in report.problems[0].message


@pytest.mark.parametrize("imports", [False, True])
def test_a_transform_may_be_wherever_python_finds_it(home, define, tmp_path_factory, monkeypatch, imports):
    dags = tmp_path_factory.mktemp("dags")
    (dags / "shop").mkdir()
    (dags / "shop/__init__.py").touch()
    (dags / "shop/orders.py").write_text("def placed(records): ...\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(dags)])  # as Airflow adds it
    define("a", processing="  transform: shop.orders:placed\n")
    define("b", output="b", group="b", processing="  transform: shop.orders:paced\n")
    (problem,) = examine([home / "definitions"], home, imports=imports).problems
    assert problem.message == f"processing.transform: {dags}/shop/orders.py has no function paced; did you mean placed?"


def test_what_is_in_spark_jobs_comes_before_all_others(home, define, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other")
    (other / "transforms").mkdir()
    (other / "transforms/__init__.py").touch()
    (other / "transforms/flights.py").write_text("def landings(records): ...\n")
    monkeypatch.setattr(sys, "path", [str(other), *sys.path])
    define("a", processing="  transform: transforms.flights:departures\n")
    assert checked(home).problems == ()


def test_an_import_finds_what_a_look_cannot(home, define):
    define("a", processing="  transform: transforms.flights:departures\n")
    (problem,) = examine([home / "definitions"], home, imports=True).problems
    assert (problem.rule, problem.line, problem.value) == ("no-transform", 6, "transforms.flights:departures")
    assert f"{home}/spark_jobs/transforms/flights.py:1: RuntimeError: imported" in problem.message


def test_a_module_that_hides_pythons_own_is_told_once_and_nothing_is_imported(home, define):
    define("a", processing="  transform: transforms.flights:departures\n")
    define("b", processing="  transform: transforms.flights:arrivals\n")
    (home / "spark_jobs/json.py").touch()
    report = examine([home / "definitions"], home, imports=True)
    assert list(map(str, report.errors)) == [
        f"{home}/spark_jobs/json.py: error: it hides Python's json from all jobs: rename it [hides-module]"
    ]
    assert [each.name for each in report.subscriptions] == ["a", "b"]


def test_one_name_in_two_folders_would_be_one_dag(home, define):
    define("a")
    (home / "more").mkdir()
    (home / "more/a.yaml").write_text("topics: [x]\nconsumer: {group.id: other}\nprocessing: {output: other}\n")
    report = examine([home / "definitions", home / "more"], home)
    assert [each.rule for each in report.problems] == ["shared-name", "shared-name"]


def test_a_file_given_twice_is_one_file(home, define):
    path = define("a")
    assert len(examine([home / "definitions", path], home).subscriptions) == 1


@pytest.mark.parametrize("name", ["a.yml", "a.YAML"])
def test_a_file_of_another_suffix_would_not_become_a_dag(home, define, name):
    define("a").rename(home / "definitions" / name)
    assert told(checked(home)) == [(name, 0, "", "name")]


def test_a_file_spelt_in_two_ways_is_one_file(home, define, monkeypatch):
    path = define("a")
    monkeypatch.chdir(home)
    assert len(examine([path, Path("definitions/a.yaml"), Path("definitions/../definitions")], home).subscriptions) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_what_this_user_may_not_see_takes_no_other_definition_along():
    with TemporaryDirectory() as above:  # pytest's own folder is nobody else's
        home, theirs = Path(above, "home"), Path(above, "theirs")
        (home / "definitions").mkdir(parents=True)
        (theirs / "a" / "_delta_log").mkdir(parents=True)
        for name, output in (("a", f"{theirs}/a"), ("b", "b")):
            (home / "definitions" / f"{name}.yaml").write_text(
                f"topics: [flights]\nconsumer: {{group.id: {name}}}\nprocessing: {{output: {output}}}\n"
            )
        for each in (Path(above), *Path(above).rglob("*")):
            each.chmod(0o755)
        theirs.chmod(0o700)
        examine([home / "definitions"], home)  # which imports what nobody else may read
        os.seteuid(65534)
        try:
            found = examine([home / "definitions"], home)
        finally:
            os.seteuid(0)
        assert [each.name for each in found.subscriptions] == ["a", "b"]


def test_what_lies_deeper_than_definitions_do_is_told(home, define):
    folder, path = home / "definitions", define("a")
    deeper = folder / "team" / "b.yaml"
    deeper.parent.mkdir()
    deeper.write_text(path.read_text())
    (found,) = examine([folder], home).problems
    assert (found.rule, found.severity, found.file) == ("not-read", "warning", str(deeper))
    assert f"definitions lie in {folder} itself" in found.message


def test_a_config_map_of_kubernetes_has_its_definitions_once(home, define):
    folder, path = home / "definitions", define("a")
    mounted = folder / "..2026_11_28"
    mounted.mkdir()
    path.rename(mounted / path.name)
    (folder / "..data").symlink_to(mounted.name)
    path.symlink_to(f"..data/{path.name}")
    report = examine([folder], home)
    assert ([each.name for each in report.subscriptions], report.problems) == (["a"], ())


def test_an_empty_folder_is_a_warning_and_a_missing_file_an_error(home):
    report = examine([home / "definitions", home / "none.yaml"], home)
    assert [(each.rule, each.severity) for each in report.problems] == [("empty", "warning"), ("unreadable", "error")]
    assert [each.rule for each in report.errors] == ["unreadable"]
    assert [each.rule for each in report.warnings] == ["empty"]


def test_the_project_s_own_definitions_are_right():
    assert examine([PROJECT / "include/subscriptions"], PROJECT).problems == ()


DOCUMENTS = st.lists(
    st.dictionaries(
        st.sampled_from(
            [
                *("topics", "pattern", "consumer", "processing", "members", "connection", "cursor"),
                *("failure-strategy", "dead-letter-queue.topic", "delayed-retry-topic.topics"),
            ]
        ),
        st.none()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["dead-letter-queue", "delayed-retry-topic", "a_1", ["a_1", "b_2"], ["a_1"]])
        | st.lists(st.text(max_size=3), max_size=2)
        | st.dictionaries(
            st.sampled_from(["group.id", "output", "transform", "job", "connection", "type"]),
            st.none()
            | st.text(max_size=6)
            | st.sampled_from(["a", "a/b", "/", "file:/x", "file://h/x", "m:f", "hdfs://"]),
            max_size=4,
        ),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=DOCUMENTS)
def test_any_files_together_are_judged_and_never_a_traceback(home, documents):
    for number, document in enumerate(documents):
        (home / "definitions" / f"s{number}.yaml").write_text(yaml.safe_dump(document, allow_unicode=True), "utf-8")
    report = checked(home)
    wrong = {each.file for each in report.errors}
    files = set((home / "definitions").iterdir())
    assert {Path(each) for each in wrong} | {
        home / f"definitions/{each.name}.yaml" for each in report.subscriptions
    } == files
