"""moto as the tests run it: of two that create an object at once one may, as on every store."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError
from moto.s3.models import S3Backend
from moto_s3 import running_moto

pytestmark = pytest.mark.object_store


def test_of_two_that_look_before_either_stores_one_creates(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, look = threading.Barrier(2, timeout=2), S3Backend.get_object

    def look_and_wait(*given, **named):
        found = look(*given, **named)
        if found is None:
            try:
                looked.wait()
            except threading.BrokenBarrierError:
                return found  # the other one isn't let in before this one has stored
        return found

    def create(server, content):
        try:
            server.client.put_object(Bucket="lake", Key="one", Body=content, IfNoneMatch="*")
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "created"

    with running_moto() as server, ThreadPoolExecutor(2) as pool:
        server.bucket("lake")
        monkeypatch.setattr(S3Backend, "get_object", look_and_wait)
        said = Counter(pool.map(lambda content: create(server, content), (b"a", b"b")))
    assert said == {"created": 1, "PreconditionFailed": 1}
