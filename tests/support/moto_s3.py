"""A real server of S3's protocol for tests, in this process: moto's. It takes every key, and signs nothing."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import atomic_moto
import boto3
from botocore.config import Config
from moto.server import ThreadedMotoServer

from tidegate.ports import Connection
from tidegate_local.loopback import HOST, answers, free_port
from tidegate_local.servers import Server

ACCESS_KEY = "an-access-key"
SECRET_KEY = "a-secret-key"
_SECONDS = 60

logging.getLogger("werkzeug").setLevel(logging.ERROR)


class MotoS3:
    """The server's address, and a client that sees what lies there."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.client: Any = s3_client(endpoint)

    def connection(self, **changed: Any) -> Connection:
        """A connection named `store`, as Airflow would have it."""
        return store_connection(self.endpoint, **changed)

    def bucket(self, name: str) -> str:
        self.client.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """All objects, markers of folders aside."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = [each["Key"] for page in pages for each in page.get("Contents", [])]
        return [key for key in found if not key.endswith("/")]

    def uploads(self, bucket: str) -> list[str]:
        """The keys of multipart uploads that were begun, and neither completed nor aborted."""
        return [each["Key"] for each in self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


class OneConnection:
    """The port `Connections` with one, whatever its id."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def get(self, _connection_id: str) -> Connection:
        return self.connection


def store_connection(
    endpoint: str, *, login: str | None = ACCESS_KEY, password: str | None = SECRET_KEY, **extra: Any
) -> Connection:
    return Connection(
        "store", "aws", None, None, login, password, {"endpoint_url": endpoint, "region_name": "us-east-1", **extra}
    )


def s3_client(endpoint: str, login: str = ACCESS_KEY, password: str = SECRET_KEY) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=login,
        aws_secret_access_key=password,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}),
    )


@contextmanager
def running_moto() -> Iterator[MotoS3]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield MotoS3(f"http://{host}:{port}")
    finally:
        server.stop()


@contextmanager
def moto_apart(folder: Path) -> Iterator[MotoS3]:
    """One in a process of its own, for clients that keep this one's other threads waiting."""
    port = free_port()
    command = [sys.executable, atomic_moto.PROGRAM, "--host", HOST, "--port", str(port)]
    server = Server("moto", command, log=folder / "moto.log")
    try:
        server.wait_until(lambda: answers(port), seconds=_SECONDS)
        yield MotoS3(f"http://{HOST}:{port}")
    finally:
        server.stop()
