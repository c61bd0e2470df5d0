"""S3Proxy on this machine: a server of S3's protocol that checks signatures and keeps objects as files."""

from pathlib import Path

from class_data import SHORT_LIVED
from documents import ROOT
from moto_s3 import ACCESS_KEY, SECRET_KEY
from s3proxy_jars import s3proxy_jars

from tidegate_local.java import find_java
from tidegate_local.loopback import HOST, answers, free_port
from tidegate_local.servers import Awaited, Server

START_SECONDS = 240


class S3Proxy(Awaited):
    """Answers at `endpoint` after `wait`, to ACCESS_KEY and SECRET_KEY alone."""

    def __init__(self, data: Path) -> None:
        java, self._port = find_java(), free_port()
        self.endpoint = f"http://{HOST}:{self._port}"
        (data / "objects").mkdir(parents=True)
        said = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(data / "objects"),
        }
        properties = data / "s3proxy.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in said.items()), encoding="utf-8")
        jars = s3proxy_jars(java, ROOT / ".cache")
        command = [str(java.program), *SHORT_LIVED.split(), "-Xmx300m", "-cp", f"{jars}/*", "org.gaul.s3proxy.Main"]
        self._server = Server("S3Proxy", [*command, "--properties", str(properties)], log=data / "s3proxy.log")

    def wait(self) -> None:
        """Return when it takes connections."""
        self._server.wait_until(lambda: answers(self._port), seconds=START_SECONDS)

    def stop(self) -> None:
        """End it."""
        self._server.stop()
