"""The properties that make one-node brokers a cluster, and that give a broker more listeners."""

from cluster import node_properties

from tidegate_local.broker import Listener, listener_properties

OWN = "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"


def test_every_node_knows_all_controllers_and_listens_on_ports_of_its_own() -> None:
    nodes = {node: node_properties(node, 10 + node, {1: 21, 2: 22, 3: 23}) for node in (1, 2, 3)}
    assert {each["node.id"] for each in nodes.values()} == {"1", "2", "3"}
    assert {each["controller.quorum.voters"] for each in nodes.values()} == {
        "1@127.0.0.1:21,2@127.0.0.1:22,3@127.0.0.1:23"
    }
    assert nodes[3]["listeners"] == "PLAINTEXT://127.0.0.1:13,CONTROLLER://127.0.0.1:23"
    assert (nodes[1]["offsets.topic.replication.factor"], nodes[1]["transaction.state.log.min.isr"]) == ("3", "2")


def test_a_broker_without_more_listeners_keeps_its_own() -> None:
    assert listener_properties(OWN, 1, []) == {}


def test_clients_of_another_listener_are_told_where_to_come() -> None:
    more = [Listener("ROAD", 3, advertised_port=4), Listener("GUARDED", 5, 5, security="SASL_PLAINTEXT")]
    assert listener_properties(OWN, 1, more) == {
        "listeners": f"{OWN},ROAD://127.0.0.1:3,GUARDED://127.0.0.1:5",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:1,ROAD://127.0.0.1:4,GUARDED://127.0.0.1:5",
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,ROAD:PLAINTEXT,GUARDED:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
    }
