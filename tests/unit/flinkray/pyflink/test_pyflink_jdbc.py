"""PyFlink's JdbcSink as programs describe it, without a server."""

from __future__ import annotations

import pytest

from flinkray import InvalidProgramError
from flinkray.pyflink.common import Types
from flinkray.pyflink.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink

TYPE = Types.ROW([Types.INT(), Types.STRING()])
POSTGRES = "jdbc:postgresql://h:5432/d"


def builder() -> JdbcConnectionOptions.JdbcConnectionOptionsBuilder:
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder()


def test_options_say_what_they_were_given() -> None:
    made = builder().with_url(POSTGRES).with_driver_name("org.postgresql.Driver").with_user_name("me")
    options = made.with_password("hush").build()
    assert (options.get_db_url(), options.get_driver_name()) == (POSTGRES, "org.postgresql.Driver")
    assert (options.get_user_name(), options.get_password()) == ("me", "hush")
    assert "hush" not in repr(options)
    assert "hush" not in repr(JdbcSink.sink("SELECT ?, ?", TYPE, options).to_sink())
    execution = JdbcExecutionOptions.builder().with_batch_size(7).with_batch_interval_ms(8).with_max_retries(9).build()
    assert (execution.get_batch_size(), execution.get_batch_interval_ms(), execution.get_max_retries()) == (7, 8, 9)
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_batch_interval_ms(), defaults.get_max_retries()) == (5000, 0, 3)


def test_other_databases_and_statements_that_do_not_fit_are_refused_before_the_job_starts() -> None:
    with pytest.raises(InvalidProgramError, match=r"with_url takes the address of a PostgreSQL .*\(flinkray\.Sink\)"):
        builder().with_url("jdbc:mysql://h/d")
    with pytest.raises(InvalidProgramError, match=r"with_driver_name takes 'org.*not 'com.*\(flinkray\.Sink\)"):
        builder().with_driver_name("com.mysql.cj.jdbc.Driver")
    with pytest.raises(InvalidProgramError, match="needs with_url"):
        builder().build()
    with pytest.raises(InvalidProgramError, match="with_max_retries takes 0 or more"):
        JdbcExecutionOptions.builder().with_max_retries(-1)
    options = builder().with_url(POSTGRES).build()
    with pytest.raises(InvalidProgramError, match=r"JdbcSink\.sink: the statement has 1 \? for values, .* 2 fields"):
        JdbcSink.sink("SELECT ?", TYPE, options)
    with pytest.raises(InvalidProgramError, match=r"takes Types\.ROW"):
        JdbcSink.sink("SELECT ?", Types.INT(), options)
    with pytest.raises(InvalidProgramError, match="JdbcConnectionOptions: parameter 'gssLib' of 'url'"):
        JdbcSink.sink("SELECT ?, ?", TYPE, builder().with_url(f"{POSTGRES}?gssLib=a").build())
