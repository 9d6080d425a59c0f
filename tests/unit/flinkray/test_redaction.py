"""No secret is shown: not in errors, plans, listings, or the text of a configuration."""

from __future__ import annotations

import pickle
import traceback

import pytest

from actors.hosts.simulation.confinement import ThreadInSimulationError
from actors.protocol.dispatcher_errors import UnknownJobError
from flinkray import Configuration, InvalidProgramError, StreamExecutionEnvironment
from flinkray.errors import LONGEST_TEXT, ErrorInfo, FlinkrayError, UserFunctionError
from flinkray.filesystems import resolve
from flinkray.redaction import is_secret, redacted, redacted_value
from graphs.states import IllegalTransition

SECRET = "wJalr/XUt+nFEMI"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"cannot write s3://AKIA:{SECRET}@bucket/chk-1: no", "cannot write s3://***@bucket/chk-1: no"),
        (f"'s3://AKIA:{SECRET}@bucket' and 's3://AKIA:{SECRET}@other'", "'s3://***@bucket' and 's3://***@other'"),
        (f"https://{SECRET.replace('/', '')}@host/x", "https://***@host/x"),
        (f"s3://bucket/x?secret_key={SECRET}&region=eu", "s3://bucket/x?secret_key=***&region=eu"),
        (f"s3://bucket/x?region=eu&sessionToken={SECRET}", "s3://bucket/x?region=eu&sessionToken=***"),
        (f"abfs://c@account.net/x?sig={SECRET}", "abfs://***@account.net/x?sig=***"),
        (f"Row(name='a', password='{SECRET}')", "Row(name='a', password=***)"),
        (f"{{'api_key': '{SECRET}', 'n': 1}}", "{'api_key': ***, 'n': 1}"),
        (f"headers={{'Authorization': 'Bearer {SECRET}'}}", "headers={'Authorization': ***}"),
        (f"cannot take 'first:1,db.password:{SECRET},oops'", "cannot take 'first:1,db.password:***,oops'"),
        (f"-D my.aws.secret-access-key={SECRET}", "-D my.aws.secret-access-key=***"),
        (f"WITH ('password' = '{SECRET}', 'n' = '1')", "WITH ('password' = ***, 'n' = '1')"),
        (f"WITH ('s3.secret-key'='{SECRET}')", "WITH ('s3.secret-key'=***)"),
        (f'    password = "{SECRET}"', "    password = ***"),
        (f"ssl.key.passphrase={SECRET}", "ssl.key.passphrase=***"),
        (f"basic-auth.user-info=me:{SECRET}", "basic-auth.user-info=***"),
        (f"refused: Authorization: Bearer {SECRET}abc", "refused: Authorization: Bearer ***"),
    ],
)
def test_secrets_in_texts_are_hidden_and_the_rest_stays(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://host:8020/dir@2/chk-1",
        "s3://bucket/dir@2/chk-1",
        "file:///home/me@work/x",
        "s3://bucket/x?region=eu&endpoint_override=host:9000",
        "the value was Row(key=7, name='tokens')",
        "unexpected token: '}' at line 3",
        "basic arithmetic, and the bearer of it",
        "where=[token = other.token]",
        "key 7: no such key",
        "state 'secret' was saved with value_type int64",
        "memory://name/check points",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["x", "secret", "secret.", "://", "a:", "://a:", "://a:b", "'", "password='"])
def test_the_search_does_not_start_over_for_each_character_of_a_long_text(piece: str) -> None:
    redacted(piece * (4 * LONGEST_TEXT // len(piece)))


def test_values_of_settings_are_hidden_by_their_names() -> None:
    given = {"db.password": SECRET, "apiKey": SECRET, "aws": {"key": SECRET, "region": "eu"}, "n": 1}
    assert redacted_value("parameters", given) == {
        "db.password": "***",
        "apiKey": "***",
        "aws": {"key": "***", "region": "eu"},
        "n": 1,
    }
    kafka = ("sasl.password", "ssl.key.pem", "sasl.jaas.config", "sasl.oauthbearer.config")
    assert redacted_value("client_options", dict.fromkeys(kafka, SECRET)) == dict.fromkeys(kafka, "***")
    assert redacted_value("keys.of.rows", "a, b") == "a, b"


def test_the_headers_of_a_table_and_codes_in_its_url_are_secrets() -> None:
    secret = {"header.Cookie": "session=abc", "header.X-Auth": "abc", "url": "https://host/rows?n=1&code=abc"}
    plain = {"format": "json", "csv.header": "true", "key.fields": "id", "url": "https://host/rows?codec=zip&n=1"}
    assert [is_secret(*each) for each in (*secret.items(), *plain.items())] == [True] * 3 + [False] * 4
    assert redacted(secret["url"]) == "https://host/rows?n=1&code=***"


def test_a_configuration_shows_no_secret_and_keeps_it() -> None:
    configuration = Configuration(
        {
            "execution.checkpointing.dir": f"s3://AKIA:{SECRET}@bucket/x",
            "pipeline.global-job-parameters": {"password": SECRET, "city": "Rome"},
        }
    )
    assert SECRET not in repr(configuration)
    assert "s3://***@bucket/x" in repr(configuration)
    assert "Rome" in repr(configuration)
    assert dict(configuration)["execution.checkpointing.dir"] == f"s3://AKIA:{SECRET}@bucket/x"


@pytest.mark.parametrize(
    "error",
    [
        FlinkrayError(f"cannot write s3://AKIA:{SECRET}@bucket"),
        UserFunctionError("a", "1 of 1", f"Row(password='{SECRET}')", f"s3://AKIA:{SECRET}@b", f"token={SECRET}"),
    ],
)
def test_no_error_shows_a_secret(error: FlinkrayError) -> None:
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert SECRET not in str(each) + repr(each) + "".join(traceback.format_exception(each))
    caused = ValueError("no")
    caused.__cause__ = OSError(f"s3://AKIA:{SECRET}@bucket")
    assert SECRET not in str(ErrorInfo.of(caused))
    assert SECRET not in str(ErrorInfo.of(OSError(f"s3://AKIA:{SECRET}@bucket")).exception())


def test_no_class_of_errors_shows_itself_in_another_way() -> None:
    kinds = [FlinkrayError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert kind.__str__ is FlinkrayError.__str__, f"{kind} overrides __str__; _text is what says its message"
    assert {UnknownJobError, IllegalTransition, ThreadInSimulationError} < set(kinds)


def test_a_place_that_no_filesystem_knows_is_named_without_its_secret() -> None:
    with pytest.raises(InvalidProgramError, match=r"s4://\*\*\*@bucket") as refused:
        resolve(f"s4://AKIA:{SECRET}@bucket/x")
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_plan_shows_no_secret() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(lambda n: n).name(f"to s3://AKIA:{SECRET}@bucket").print()
    for graph in ("stream", "job", "execution"):
        for form in ("text", "mermaid"):
            plan = env.get_execution_plan(graph=graph, format=form)
            assert SECRET not in plan
            assert "s3://***@bucket" in plan
