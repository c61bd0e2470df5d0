"""Definitions that were subscribed by REST, on the command line: commands know them by their names, like files."""

import json
import uuid
from http.server import BaseHTTPRequestHandler

import pytest
from desk import TIDEGATE, Desk
from hooks import hooked, say

from tidegate.ledger.stored_definitions import SqlStoredDefinitions

pytestmark = pytest.mark.broker


def test_commands_know_a_subscription_that_is_no_file(desk: Desk) -> None:
    is_broken: list[bool] = []

    def answer(handler: BaseHTTPRequestHandler, _: int) -> None:
        say(handler, 422 if is_broken else 200)

    name = f"r{uuid.uuid4().hex[:8]}"
    desk.environment["TIDEGATE_HTTP_ALLOWED"] = "127.0.0.1"
    with hooked(answer) as hook:
        document = {
            "connection": "kafka_default",
            "topics": [name],
            "poll-timeout.ms": 3000,
            "max-retries": 0,
            "consumer": {"group.id": f"{name}-hook", "auto.offset.reset": "earliest"},
            "processing": {"kind": "http", "uri": hook.uri, "output": f"lake/{name}", "retry-before-commit": 1},
        }
        file = desk.define(name, document)
        desk.run(TIDEGATE, "status")  # makes the ledger
        SqlStoredDefinitions(f"sqlite:///{desk.home}/data/ledger.db").add(name, json.dumps(document), {}, "anna")
        file.unlink()
        desk.produce(name, [b"v%d" % n for n in range(40)])

        assert f"REST/{name}.yaml" in desk.run(TIDEGATE, "check")
        assert json.loads(desk.run(TIDEGATE, "run", name, "--json"))["records"] == 40
        desk.run(TIDEGATE, "group", "reset", name, "--to", "earliest", typed="y\n")
        is_broken.append(True)
        assert json.loads(desk.run(TIDEGATE, "run", name, "--json", status=1))["state"] == "stopped"
        desk.run(TIDEGATE, "clear", name, typed="y\n")
        is_broken.clear()
        assert json.loads(desk.run(TIDEGATE, "run", name, "--json"))["state"] == "committed"
        status = json.loads(desk.run(TIDEGATE, "status", name, "--json"))
    assert (status["subscription"], status["lag"], status["verdict"]) == (name, 0, "OK"), status
