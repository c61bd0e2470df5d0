"""The jars of S3Proxy, a server of S3's protocol that checks signatures and keeps objects as files: for tests."""

import sys
from pathlib import Path

from jars_of_tests import JarsOfTests

from tidegate_local.java import Java, find_java

S3PROXY_VERSION = "4.1.0"
_ROOTS = (f"org.gaul:s3proxy:{S3PROXY_VERSION}",)
S3PROXY = JarsOfTests(
    owner="S3Proxy's",
    lock="s3proxy_jars.lock",
    folder=f"s3proxy-{S3PROXY_VERSION}",
    header="""\
# S3Proxy and all that it needs, as group:name:version sha256, one jar a line.
# Made by: python tests/support/s3proxy_jars.py > tests/support/s3proxy_jars.lock
""",
)


def s3proxy_jars(java: Java, cache: Path) -> Path:
    """Return the folder that holds S3Proxy's jars; see `JarSet.fetched`."""
    return S3PROXY.fetched(java, cache)


if __name__ == "__main__":
    sys.stdout.write(S3PROXY.lock_text(find_java(), _ROOTS, transitive=True))
