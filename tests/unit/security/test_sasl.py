"""Who the client says it is, by Java's names, by librdkafka's, or by the connection's login and password."""

import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.security.sasl import sasl

SECRET = "hush-hush"
MODULES = "org.apache.kafka.common.security"
PLAIN_JAAS = f'{MODULES}.plain.PlainLoginModule required username="me" password="{SECRET}";'
SCRAM_JAAS = f'{MODULES}.scram.ScramLoginModule required username="me" password="{SECRET}";'
USER = {"sasl.username": "me", "sasl.password": SECRET}
OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "http://idp/token",
}
CLIENT = {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": SECRET}


@pytest.mark.parametrize(
    ("given", "client"),
    [
        ({"sasl.mechanism": "PLAIN", **USER}, {"sasl.mechanism": "PLAIN", **USER}),
        ({"sasl.mechanisms": "PLAIN", **USER}, {"sasl.mechanism": "PLAIN", **USER}),
        (
            {"sasl.mechanisms": "SCRAM-SHA-256", "sasl.mechanism": "SCRAM-SHA-256", **USER},
            {"sasl.mechanism": "SCRAM-SHA-256", **USER},
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_JAAS}, {"sasl.mechanism": "PLAIN", **USER}),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM_JAAS},
            {"sasl.mechanism": "SCRAM-SHA-512", **USER},
        ),
        (
            {"sasl.kerberos.principal": "me@REALM"},
            {"sasl.kerberos.principal": "me@REALM", "sasl.mechanism": "GSSAPI"},
        ),
        ({**OIDC, **CLIENT, "sasl.oauthbearer.scope": "s"}, {**OIDC, **CLIENT, "sasl.oauthbearer.scope": "s"}),
        (
            {
                **OIDC,
                "sasl.oauthbearer.client.credentials.client.id": "me",
                "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            },
            {**OIDC, **CLIENT},
        ),
        (
            {**OIDC, "sasl.oauthbearer.assertion.template.file": "t"},
            {**OIDC, "sasl.oauthbearer.assertion.jwt.template.file": "t"},
        ),
        (
            {"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"},
            {"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": "true"},
        ),
    ],
)
def test_both_ways_of_saying_it_become_the_clients(given: dict[str, str], client: dict[str, str]) -> None:
    assert sasl(given, None, None) == client


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({"sasl.mechanism": "PLAIN"}, {"sasl.username": "login", "sasl.password": "pass"}),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "me"}, {"sasl.password": "pass"}),
        ({"sasl.mechanism": "PLAIN", **USER}, {}),
        (OIDC, {"sasl.oauthbearer.client.id": "login", "sasl.oauthbearer.client.secret": "pass"}),
        ({**OIDC, **CLIENT}, {}),
        ({**OIDC, "sasl.oauthbearer.metadata.authentication.type": "azure_imds"}, {}),
        ({**OIDC, "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, {}),
        ({"sasl.mechanism": "GSSAPI"}, {}),
    ],
)
def test_login_and_password_stand_in_where_the_extra_has_none(given: dict[str, str], more: dict[str, str]) -> None:
    assert sasl(given, "login", "pass") == given | more


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "sasl.mechanism is missing"),
        ({**USER}, "sasl.mechanism is missing"),
        ({"sasl.mechanism": "SCRAM-SHA-1", **USER}, "must be one of PLAIN, .*did you mean SCRAM-SHA-"),
        ({"sasl.mechanism": "plain", **USER}, "did you mean PLAIN"),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "GSSAPI"}, "are the same property: keep one"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "me"}, "sasl.password for PLAIN are missing: .*password"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username and sasl.password for PLAIN are missing"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_JAAS, **USER}, "say the same: keep one"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM_JAAS}, "ScramLoginModule is for SCRAM-SHA-256 or"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": PLAIN_JAAS}, "PlainLoginModule is for PLAIN, and"),
        ({"sasl.mechanism": "GSSAPI", "sasl.jaas.config": PLAIN_JAAS}, "PlainLoginModule is for PLAIN, and"),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM_JAAS.replace(";", ' tokenauth="true";')},
            "option tokenauth has no counterpart",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'a.PlainLoginModule required password="{SECRET}";'},
            "has no username",
        ),
        (
            {
                **OIDC,
                "sasl.jaas.config": f"a.OAuthBearerLoginModule required clientSecret='{SECRET}';",
            },
            "no Java runs in the client: set sasl.oauthbearer.method to oidc",
        ),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": f"a.Krb5LoginModule required x={SECRET};"},
            "sasl.kerberos.keytab",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"com.x.Hush required x={SECRET};"},
            "is a Java class, and no Java runs",
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.method must be oidc"),
    ],
)
def test_what_the_client_cannot_do_is_named_without_a_secret(given: dict[str, str], said: str) -> None:
    with pytest.raises(WrongDefinitionError, match=said) as caught:
        sasl(given, None, None)
    assert SECRET not in str(caught.value)
