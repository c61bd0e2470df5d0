"""What is said where an object store refuses, by a server that answers as Amazon's does."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from moto_s3 import store_connection

from tidegate.lake.object_calls import Objects
from tidegate.model.errors import TidegateError, UnauthorizedError
from tidegate.parquet.object_stores import object_store

WHY = "The request signature we calculated does not match the signature you provided. Check your key &amp; method."
REFUSED = f"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>{WHY}</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>"""


@contextmanager
def answering(text: str) -> Iterator[Objects]:
    """The objects below a URI of a store that answers 403 and this text to whatever is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = text.encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        store = object_store(store_connection(f"http://127.0.0.1:{server.server_port}"))
        yield Objects("s3://store@lake/x", store)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def said_of(text: str, ask: Callable[[Objects], object] = lambda objects: objects.read("a")) -> TidegateError:
    with answering(text) as objects, pytest.raises(TidegateError) as raised:
        ask(objects)
    return raised.value


def test_of_a_refusal_its_code_and_its_message_are_said() -> None:
    error = said_of(REFUSED)
    assert isinstance(error, UnauthorizedError)
    assert str(error) == (
        f"s3://store@lake/x can't be used: SignatureDoesNotMatch: {WHY.replace('&amp;', '&')[:-1]}; mend the keys, or "
        "let them list, read and write"
    )


def test_a_code_may_have_no_message() -> None:
    assert "can't be used: AccessDenied; mend the keys" in str(said_of("<Error><Code>AccessDenied</Code></Error>"))


def test_other_answers_are_cut_between_words() -> None:
    error = str(said_of("nobody may " * 99))
    assert re.search(r"403 Forbidden: nobody may .* (nobody|may) \.\.\.; mend the keys", error), error
    assert len(error) < 450


def test_a_store_that_refuses_to_list_is_no_store_that_is_away() -> None:
    assert isinstance(said_of(REFUSED, lambda objects: [*objects.all("a")]), UnauthorizedError)
