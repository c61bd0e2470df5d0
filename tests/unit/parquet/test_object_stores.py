import json

import pytest

from tidegate.model.errors import WrongDefinitionError
from tidegate.parquet.object_stores import ObjectStore, object_store, warehouse_store
from tidegate.ports import Connection
from tidegate.runtime.connections import connection_of
from tidegate.security.secret_values import secret_values


def of(login=None, password=None, kind="aws", **extra):
    return object_store(Connection("store", kind, None, None, login, password, extra))


@pytest.mark.parametrize(
    ("properties", "store"),
    [
        ({"uri": "sqlite:///c.db", "s3.access-key-id": ""}, None),
        ({"s3.endpoint": "http://s3:9000/"}, ObjectStore(endpoint="http://s3:9000", region="us-east-1")),
        (
            {"s3.access-key-id": "ann", "s3.secret-access-key": "hush", "s3.session-token": "t", "client.region": "eu"},
            ObjectStore("ann", "hush", "t", region="eu"),
        ),
        (
            {"client.access-key-id": "ann", "s3.region": "eu", "s3.force-virtual-addressing": "True"},
            ObjectStore(region="eu", virtual_addressing=True),
        ),
    ],
)
def test_a_catalogs_properties_speak_of_a_store(properties, store):
    assert warehouse_store(properties) == store


def test_keys_are_login_and_password_or_stand_in_the_extra():
    assert of("ann", "hush") == of(aws_access_key_id="ann", aws_secret_access_key="hush") == ObjectStore("ann", "hush")


def test_a_connection_as_airflow_documents_it_in_its_uri_form():
    uri = "aws://ann:hu%2Fsh@/?region_name=eu-west-1&endpoint_url=https%3A%2F%2Fs3.example%3A9000%2F"
    store = object_store(connection_of("store", uri, "AIRFLOW_CONN_STORE"))
    assert store == ObjectStore("ann", "hu/sh", endpoint="https://s3.example:9000", region="eu-west-1")


def test_each_library_is_told_in_its_own_words():
    store = of(
        "ann",
        "hush",
        aws_session_token="brief",
        region_name="eu-west-1",
        endpoint_url="http://s3.example:9000",
        config_kwargs={"s3": {"addressing_style": "virtual"}},
    )
    assert store.for_pyarrow() == {
        "access_key": "ann",
        "secret_key": "hush",
        "session_token": "brief",
        "endpoint_override": "http://s3.example:9000",
        "region": "eu-west-1",
        "force_virtual_addressing": True,
    }
    assert store.for_object_store({}) == {
        "aws_access_key_id": "ann",
        "aws_secret_access_key": "hush",
        "aws_session_token": "brief",
        "aws_endpoint": "http://s3.example:9000",
        "aws_region": "eu-west-1",
        "aws_virtual_hosted_style_request": "true",
        "allow_http": "true",
    }


def test_without_keys_nothing_is_said_of_them():
    store = of(region_name="eu-west-1")
    assert (store.for_pyarrow(), store.for_object_store({})) == ({"region": "eu-west-1"}, {"aws_region": "eu-west-1"})


def test_keys_arent_joined_by_a_token_of_the_environment_where_a_library_would():
    environ = {"AWS_SESSION_TOKEN": "of-the-environment"}
    with pytest.raises(WrongDefinitionError, match="AWS_SESSION_TOKEN of the environment would be joined"):
        of(login="ann", password="hush").for_object_store(environ)
    own = of(login="ann", password="hush", aws_session_token="brief").for_object_store(environ)
    assert own["aws_session_token"] == "brief"
    assert of().for_object_store(environ) == {}


def test_an_endpoint_may_stand_where_the_provider_has_it_for_one_service_and_needs_no_region():
    store = of(service_config={"s3": {"endpoint_url": "https://s3.example"}})
    assert (store.endpoint, store.region) == ("https://s3.example", "us-east-1")
    assert "allow_http" not in store.for_object_store({})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "generic"}, "it is of type generic, and that of an object store is aws"),
        ({"login": "ann"}, "it has no password, the secret key: give both"),
        ({"password": "hush"}, "it has no login, the access key"),
        ({"aws_session_token": "hush"}, "it has a session token and no keys"),
        ({"endpoint_url": "s3.example"}, "must begin with http:// or https://"),
        ({"endpoint_url": 5}, "extra endpoint_url must be a text"),
        ({"service_config": "hush"}, "extra service_config must be a mapping"),
        ({"role_arn": "arn:aws:iam::1:role/hush"}, "extra role_arn isn't taken"),
        ({"profile_name": "hush"}, "extra profile_name isn't taken"),
        ({"verify": "hush"}, "extra verify isn't taken: certificates are always verified"),
        ({"endpoint-url": "hush"}, "extra endpoint-url isn't known: did you mean endpoint_url"),
    ],
)
def test_what_cant_be_used_is_refused_by_name_and_without_a_secret(given, said):
    with pytest.raises(WrongDefinitionError, match=r"^connection store: ") as refused:
        of(**given)
    assert said in str(refused.value)
    assert "hush" not in str(refused.value)


def test_no_secret_shows():
    store = of("ann", "hush", aws_session_token="hush")
    assert "hush" not in repr(store)
    assert "hush" not in json.dumps(str(store))


def test_keys_in_the_extra_are_hidden_in_logs():
    extra = {"aws_access_key_id": "ann", "aws_secret_access_key": "hush", "aws_session_token": "brief"}
    assert secret_values(Connection("store", "aws", None, None, None, None, extra)) == {"hush", "brief"}
