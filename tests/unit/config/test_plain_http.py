import pytest

from tidegate.config.plain_http import readable_at


@pytest.mark.parametrize("url", ["http://registry:8081", "HTTP://registry", "http://ann:pw@registry/x"])
def test_plain_http_to_another_machine_is_readable(url: str) -> None:
    assert readable_at(url) == "registry"


@pytest.mark.parametrize(
    "url",
    [
        "https://registry",
        "http://localhost:1",
        "http://LOCALHOST.",
        "http://127.0.0.2",
        "http://[::1]:1",
        "http://[x",
        "",
    ],
)
def test_what_is_encrypted_or_stays_here_is_not(url: str) -> None:
    assert readable_at(url) is None
