"""A Schema Registry's REST interface on this machine: the paths, answers and error codes that Confluent documents."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_SCHEMA = re.compile(r"/schemas/ids/(\d+)")
_VERSION = re.compile(r"/subjects/([^/]+)/versions/(latest|\d+)")


@dataclass
class HttpRegistry:
    """What is registered, and how the server answers.

    `credentials` (`user:password`), or a `token`, are asked for where they are set; `failing` are the status and body
    that are answered whatever is asked, `issued` those that its token endpoint, /token, answers. `asked` has every path
    with its query. Protobuf's text is its `serialized` form.
    """

    url: str = ""
    credentials: str = ""
    token: str = ""
    failing: tuple[int, str] | None = None
    issued: tuple[int, str] = (200, '{"access_token": "t0ken", "token_type": "Bearer", "expires_in": 600}')
    asked: list[str] = field(default_factory=list)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def register(self, subject: str, kind: str, text: str, references: Sequence[tuple[str, str, int]] = ()) -> int:
        """Register a version; references are (name, subject, version). The id, from 1."""
        named = [dict(zip(("name", "subject", "version"), one, strict=True)) for one in references]
        self.schemas.append({"schemaType": kind, "schema": text, "references": named})
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def answer(self, target: str, authorization: str | None) -> tuple[int, str]:
        self.asked.append(target)
        if self.failing:
            return self.failing
        if self.credentials or self.token:
            basic = f"Basic {base64.b64encode(self.credentials.encode()).decode()}"
            if authorization != (f"Bearer {self.token}" if self.token else basic):
                return 401, json.dumps({"error_code": 401, "message": "Unauthorized"})
        status, body = self._found(urlsplit(target).path, parse_qs(urlsplit(target).query))
        return status, json.dumps(body)

    def _found(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if found := _SCHEMA.fullmatch(path):
            return self._schema(int(found[1]), query)
        if found := _VERSION.fullmatch(path):
            subject, version = unquote(found[1]), found[2]
            ids = self.subjects.get(subject)
            if ids is None:
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            number = len(ids) if version == "latest" else int(version)
            if not 0 < number <= len(ids):
                return 404, {"error_code": 40402, "message": f"Version {version} not found."}
            status, body = self._schema(ids[number - 1], query)
            return status, {"subject": subject, "version": number, "id": ids[number - 1], **body}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _schema(self, number: int, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        if not 0 < number <= len(self.schemas):
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        body = {name: value for name, value in self.schemas[number - 1].items() if value}
        if body["schemaType"] == "PROTOBUF" and query.get("format") != ["serialized"]:
            body["schema"] = 'syntax = "proto3"; // as text, which nobody here compiles'
        if body["schemaType"] == "AVRO":
            del body["schemaType"]  # the registry leaves its default out
        return 200, body


@contextmanager
def http_registry() -> Iterator[HttpRegistry]:
    """A registry that answers at `url` on loopback until the block ends."""
    registry = HttpRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*registry.answer(self.path, self.headers.get("Authorization")))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send(*registry.issued)

        def _send(self, status: int, body: str) -> None:
            content = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        serving.start()
        try:
            yield registry
        finally:
            server.shutdown()
            serving.join()
