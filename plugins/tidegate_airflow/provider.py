"""What Airflow knows of Tidegate as a provider: a connection type, `airflow tidegate`, a section of airflow.cfg.

In the form of Airflow's own `provider_info.schema.json`.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

_OPTIONS: Mapping[str, tuple[str, str | None]] = {
    "home": ("Folder that relative paths start from, without it AIRFLOW_HOME/tidegate.", "/opt/airflow/tidegate"),
    "subscriptions": ("Folder of the definitions.", "/opt/airflow/subscriptions"),
    "ledger": (
        "SQLAlchemy URL of the ledger, without it a SQLite file below home. Tasks on several machines need PostgreSQL.",
        "postgresql+psycopg2://tidegate@database/tidegate",
    ),
    "landing": ("Path or URI below which records are landed.", "s3://lake/landing"),
    "logs": ("Folder of the logs of Spark jobs that the command line starts.", None),
    "operators": ("Airflow users who may clear, commit, reset and answer, separated by commas.", "anna,bert"),
    "operator_roles": ("Roles that may trigger what does it, for auth managers that know roles for a DAG.", "Op"),
    "job_environment": ("Variables that a Spark job sees beside the usual ones: names and patterns.", "AWS_*"),
    "http_allowed": ("Hosts and networks that delivery over HTTP may send to though they aren't public.", "10.0.0.0/8"),
    "monitor_schedule": (
        "When the DAG tidegate_monitor looks at all subscriptions, without it */5 * * * *.",
        "*/15 * * * *",
    ),
    "maintenance_schedule": (
        "When the DAG tidegate_maintenance maintains the subscriptions' tables; without it there is no such DAG.",
        "@daily",
    ),
    "umask": ("Permissions that are taken from files and folders that are made, without it 077.", "027"),
}


def get_provider_info() -> dict[str, Any]:
    """The provider's information, as Airflow asks for it."""
    return {
        "package-name": "tidegate",
        "name": "Tidegate",
        "description": "Kafka records into a lake in bounded batches, their offsets committed last.",
        "versions": [version("tidegate")],
        "connection-types": [_kafka()],
        "cli": ["tidegate_airflow.command_line.commands"],
        "config": {
            "tidegate": {
                "description": "Where Tidegate's definitions, ledger and landing are. The variable TIDEGATE_HOME goes "
                "before the option home, and so on; relative paths start from home.",
                "options": {
                    name: {
                        "description": description,
                        "version_added": None,
                        "type": "string",
                        "example": example,
                        "default": None,
                    }
                    for name, (description, example) in _OPTIONS.items()
                },
            }
        },
    }


def _kafka() -> dict[str, Any]:
    return {
        "connection-type": "tidegate_kafka",
        "hook-class-name": "tidegate_airflow.kafka_hook.KafkaHook",
        "hook-name": "Kafka (Tidegate)",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"host": "Broker", "login": "SASL user", "password": "SASL password"},
            "placeholders": {"host": "broker.example", "port": "9092"},
        },
        "conn-fields": {
            "bootstrap.servers": _text("Brokers", "host:port, several with commas; in place of broker and port."),
            "security.protocol": _choice(
                "Security protocol",
                ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
                "Kafka's own default: PLAINTEXT.",
            ),
            "sasl.mechanism": _choice(
                "SASL mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"], None
            ),
            "ssl.ca.location": _text(
                "CA certificates",
                "Path, on the workers, of a PEM file with the authorities that the brokers' certificates come from.",
            ),
            "ssl.certificate.location": _text(
                "Client certificate", "Path of a PEM file on the workers, for mutual TLS."
            ),
            "ssl.key.location": _text("Client key", "Path of a PEM file on the workers; never the key itself."),
            "ssl.key.password": {
                "label": "Client key's password",
                "schema": {"type": ["string", "null"], "format": "password"},
            },
        },
    }


def _text(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}


def _choice(label: str, values: list[str], description: str | None) -> dict[str, Any]:
    return {
        "label": label,
        **({"description": description} if description else {}),
        "schema": {"type": ["string", "null"], "enum": values},
    }
