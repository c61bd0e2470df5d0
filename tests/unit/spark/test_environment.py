import pytest

from tidegate.spark.environment import job_environment, submit_environment

SECRETS = {
    "AIRFLOW_CONN_KAFKA_DEFAULT": '{"password": "of-kafka"}',
    "AIRFLOW__CORE__FERNET_KEY": "of-airflow",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:of-airflow@db/airflow",
    "TIDEGATE_LEDGER": "postgresql+psycopg2://tidegate:of-the-ledger@db/tidegate",
    "AWS_SECRET_ACCESS_KEY": "of-the-secrets-backend",
    "VAULT_TOKEN": "of-the-vault",
    "PGPASSWORD": "of-postgres",
    "http_proxy": "http://me:of-the-proxy@proxy:3128",
    "MY_PATH": "/not/the/path",
}
NEEDED = {
    "PATH": "/usr/bin",
    "HOME": "/home/airflow",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "JAVA_HOME": "/usr/lib/jvm",
    "SPARK_HOME": "/opt/spark",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "HADOOP_CONF_DIR": "/etc/hadoop",
    "PYTHONPATH": "/srv/transforms",
    "KRB5CCNAME": "/run/krb5cc",
}


@pytest.mark.parametrize(
    ("around", "added"),
    [
        ({}, {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}),
        ({"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=/a.jsa"}, {}),
        ({"SPARK_SUBMIT_OPTS": ""}, {}),
    ],
    ids=["unset", "set", "empty"],
)
def test_java_compiles_quickly_unless_the_environment_has_options_of_its_own(
    around: dict[str, str], added: dict[str, str]
) -> None:
    assert submit_environment(around) == added


def test_a_job_sees_what_programs_need_and_no_secret_of_the_worker() -> None:
    assert job_environment(SECRETS | NEEDED) == NEEDED


@pytest.mark.parametrize(
    ("added", "seen"),
    [
        ("AWS_*, http_proxy", {"AWS_SECRET_ACCESS_KEY", "http_proxy"}),
        ("VAULT_TOKEN", {"VAULT_TOKEN"}),
        ("vault_token", set()),
        (" , ", set()),
        ("*", {*SECRETS, "TIDEGATE_JOB_ENVIRONMENT"}),
    ],
)
def test_an_installation_adds_names_and_patterns(added: str, seen: set[str]) -> None:
    passed = job_environment(SECRETS | NEEDED | {"TIDEGATE_JOB_ENVIRONMENT": added})
    assert passed.keys() - NEEDED.keys() == seen
