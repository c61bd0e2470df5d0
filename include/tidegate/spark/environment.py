"""Which variables a Spark job sees: of this process those that programs need and the installation adds, and PYTHONPATH.

A worker's environment holds what the job has no business with: Airflow's keys and connections, the ledger's URL,
credentials of secrets backends. So variables are passed by name, and everything else stays here.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from tidegate.config import settings
from tidegate.config.module_search import module_path

PASSED = (
    # the system, its locale and its time
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TMPDIR", "TMP", "TEMP", "TZ", "TZDIR"),
    *("LANG", "LANGUAGE", "LC_*", "LD_*"),
    # certificates of authorities, and where tickets and clusters are described: paths
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "KRB5*", "KUBECONFIG", "KUBERNETES_SERVICE_*"),
    # Python, Java, and Spark with what it reads itself
    *("PYTHON*", "VIRTUAL_ENV", "JAVA_*", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    *("SPARK_*", "PYSPARK_*", "HADOOP_*", "YARN_*", "HIVE_*", "GRPC_*", "ARROW_*", "OMP_*", "MALLOC_*"),
)
"""Names, and patterns of names, of the variables that every job sees. None of them is a cloud's credential."""


_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"


def submit_environment(around: Mapping[str, str]) -> dict[str, str]:
    """What spark-submit sees beside a job's own variables: how its Java compiles, unless `around` says that.

    A batch's driver lives for one batch. What Java's optimising compiler spends on it takes longer than it saves.
    """
    return {} if _SUBMIT_OPTIONS in around else {_SUBMIT_OPTIONS: _QUICK_COMPILER}


def job_environment(around: Mapping[str, str]) -> dict[str, str]:
    """The variables of `around` that a job sees: those of `PASSED`, and those that the installation adds."""
    patterns = (*PASSED, *settings.job_environment(around))
    return {name: value for name, value in around.items() if any(fnmatchcase(name, each) for each in patterns)}


def python_path(jobs: Path | None) -> dict[str, str]:
    """The variables by which a job imports what this process can, and what is in the folder `jobs` before that."""
    return module_path(jobs).variables
