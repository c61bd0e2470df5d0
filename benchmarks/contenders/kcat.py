"""kcat, the C program on librdkafka, to nowhere: what the client does without Python."""

import subprocess

from cost import report_children


def kcat(*, bootstrap: str, topic: str, partitions: int, each: int) -> None:
    """Take all records and print none of them; kcat ends with status 0 only once it had so many."""
    command = ["kcat", "-C", "-q", "-b", bootstrap, "-t", topic, "-o", "beginning", "-c", str(each * partitions)]
    for setting in ("fetch.error.backoff.ms=0", "check.crcs=true"):
        command += ["-X", setting]
    subprocess.run([*command, "-f", ""], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    report_children(kcat)
