"""How a subscription comes to the broker, and how that is struck: by a proxy, with a password, or with certificates."""

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from certificates import Authority
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from traffic import Fault as Trouble
from traffic import Traffic

from chaos.draws import Target
from chaos.fault import Fault, nothing
from chaos.kinds import Access
from tidegate_local.broker import Listener
from tidegate_local.loopback import HOST, free_port

USER = "lake"
_ANSWER_SECONDS = 30
_ITERATIONS = 4096
_NODE = "1"


class Entrance(Protocol):
    """A listener of the broker, and the fault that strikes those who come by it."""

    @property
    def listener(self) -> Listener:
        """Its port."""

    @property
    def target(self) -> Target:
        """What the fault is called."""

    @property
    def fault(self) -> Fault:
        """What happens to it."""

    def open(self, bootstrap: str) -> None:
        """Let the subscription in; the broker answers."""

    def close(self) -> None:
        """Nothing of it is left running."""


class Proxy:
    """A road on which the answers are held back for a while: what is asked arrives, and is carried out."""

    target: Target = "network"

    def __init__(self, _folder: Path) -> None:
        self._stack = ExitStack()
        self._trouble = ExitStack()
        self._road = self._stack.enter_context(Traffic(free_port()))
        self.listener = Listener("PROXY", self._road.target, advertised_port=self._road.port)
        self.fault = Fault(
            lambda: self._trouble.enter_context(self._road.faulty(Trouble(hold="answer"))), self._trouble.close
        )

    def open(self, bootstrap: str) -> None:
        """It is open from the beginning."""

    def close(self) -> None:
        """Let nobody through any more."""
        self._stack.close()


class Password:
    """SCRAM with a password that changes: who has read the one before is let in no more; who is in stays."""

    target: Target = "password"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port = free_port()
        own = {
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        }
        self.listener = Listener("PASSWORD", port, port, "SASL_PLAINTEXT", own)
        self.fault = Fault(self._change, nothing)
        self._bootstrap = ""

    def open(self, bootstrap: str) -> None:
        """Set the first password."""
        self._bootstrap = bootstrap
        self._change()

    def close(self) -> None:
        """Nothing runs."""

    def _change(self) -> None:
        new = secrets.token_urlsafe(24)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        changed = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, info, new.encode())])
        changed[USER].result(_ANSWER_SECONDS)
        _write(_password(self._folder), new)


class Certificates:
    """TLS both ways, with certificates that change, and whoever has signed them: first both are trusted, then one."""

    target: Target = "certificate"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stores = {each: folder / f"broker-{each}.pem" for each in ("keystore", "truststore")}
        self._authority = Authority.new(f"authority {secrets.token_hex(4)}")
        port = free_port()
        own = {"ssl.client.auth": "required"}
        for store, path in self._stores.items():
            own |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
        self.listener = Listener("CERTIFICATE", port, port, "SSL", own)
        self.fault = Fault(self._renew, nothing)
        self._bootstrap = ""
        self._authority.sign("broker").write_pem(self._stores["keystore"])
        self._authority.write_pem(self._stores["truststore"])
        self._hand_out(self._authority.pem)

    def open(self, bootstrap: str) -> None:
        """The broker has its certificate from the beginning."""
        self._bootstrap = bootstrap

    def close(self) -> None:
        """Nothing runs."""

    def _renew(self) -> None:
        before, self._authority = self._authority, Authority.new(f"authority {secrets.token_hex(4)}")
        _write(self._stores["truststore"], before.pem + self._authority.pem)
        self._reload()
        self._hand_out(before.pem + self._authority.pem)
        _write(self._stores["truststore"], self._authority.pem)
        self._authority.sign("broker").write_pem(self._stores["keystore"])
        self._reload()

    def _hand_out(self, trusted: str) -> None:
        """What the subscription trusts, and its own certificate with its key in one file."""
        _write(_trusted(self._folder), trusted)
        mine = self._authority.sign("me")
        _write(_own(self._folder), mine.key_pem() + mine.chain_pem)

    def _reload(self) -> None:
        """The broker reads its stores again when it is told where they are, be it where they were."""
        prefix = f"listener.name.{self.listener.name.lower()}.ssl"
        told = [
            ConfigEntry(f"{prefix}.{store}.location", str(path), incremental_operation=AlterConfigOpType.SET)
            for store, path in self._stores.items()
        ]
        broker = ConfigResource(ConfigResource.Type.BROKER, _NODE, incremental_configs=told)
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for changed in admin.incremental_alter_configs([broker]).values():
            changed.result(_ANSWER_SECONDS)


ENTRANCES: dict[Access, Callable[[Path], Entrance]] = {
    "proxy": Proxy,
    "password": Password,
    "certificate": Certificates,
}
"""Those that aren't the broker's own port, each with its files in a folder."""


def client(access: Access, folder: Path) -> dict[str, str]:
    """What a client that comes so needs, beside the address, as it stands in the folder now."""
    match access:
        case "password":
            secured = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
            return {**secured, "sasl.username": USER, "sasl.password": _password(folder).read_text(encoding="utf-8")}
        case "certificate":
            own = str(_own(folder))
            stores = {"ssl.ca.location": str(_trusted(folder)), "ssl.certificate.location": own}
            return {"security.protocol": "SSL", **stores, "ssl.key.location": own}
        case _:
            return {}


def address(entrance: Entrance) -> str:
    """Where clients come to it."""
    return f"{HOST}:{entrance.listener.advertised_port}"


def _password(folder: Path) -> Path:
    return folder / "password"


def _trusted(folder: Path) -> Path:
    return folder / "trusted.pem"


def _own(folder: Path) -> Path:
    return folder / "own.pem"


def _write(path: Path, text: str) -> None:
    """Whoever reads the file finds the text before or this one."""
    written = path.with_suffix(".new")
    written.write_text(text, encoding="utf-8")
    written.replace(path)
