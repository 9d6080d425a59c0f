"""What processes print: their logs go to standard error, and on Ray both go to files."""

from __future__ import annotations

from collections.abc import Sequence

from actors.protocol.client_requests import OutputFile
from actors.protocol.ports import Address
from actors.rest.answers.task_managers import address_of
from actors.rest.asking.call import Call
from actors.rest.asking.masters import Masters
from actors.rest.asking.refusals import Refusal
from flinkray.redaction import redacted
from flinkray.rest.cluster import LogFile, LogFiles

# The end of a log is what is looked for, and a page can show as much.
MOST_BYTES = 1 << 20


class LogHandlers:
    """Handlers of routes about what processes have printed."""

    def __init__(self, masters: Masters) -> None:
        self._masters = masters

    def master_logs(self, _call: Call) -> LogFiles:
        return self._files(self._master())

    def master_log_file(self, call: Call) -> str:
        return self._text(self._master(), call.parameters["filename"])

    def master_log(self, _call: Call) -> str:
        return self._own(self._master(), is_error=True)

    def master_stdout(self, _call: Call) -> str:
        return self._own(self._master(), is_error=False)

    def task_manager_logs(self, call: Call) -> LogFiles:
        return self._files(self._executor(call))

    def task_manager_log_file(self, call: Call) -> str:
        return self._text(self._executor(call), call.parameters["filename"])

    def task_manager_log(self, call: Call) -> str:
        return self._own(self._executor(call), is_error=True)

    def task_manager_stdout(self, call: Call) -> str:
        return self._own(self._executor(call), is_error=False)

    def job_log(self, call: Call) -> str:
        job_id = call.job_id()
        text = self._masters.job_log(job_id)
        if text is None:
            raise Refusal(404, f"no process of job {job_id!r} that still runs logs to a file of its own")
        return redacted(text)

    # -- inside --------------------------------------------------------------------------------------------------

    def _master(self) -> Address:
        clusters = self._masters.cluster_ids()
        if len(clusters) != 1:
            named = ", ".join(clusters) or "none"
            raise Refusal(404, f"this server looks at several clusters ({named}), each with masters of its own")
        return Address(f"{clusters[0]}/dispatcher")

    def _executor(self, call: Call) -> Address:
        name = call.parameters["taskmanagerid"]
        address = address_of(name)
        if self._masters.task_executor(address) is None:
            raise Refusal(404, f"there is no TaskExecutor {name!r}; /taskmanagers has those that there are")
        return address

    def _files(self, address: Address) -> LogFiles:
        known = [file for files in self._masters.outputs(address).values() for file in files]
        return LogFiles(logs=[LogFile(name=file.name, size=file.nbytes, mtime=file.modified_ms) for file in known])

    def _own(self, address: Address, *, is_error: bool) -> str:
        own: Sequence[OutputFile] = self._masters.outputs(address).get(address, ())
        file = next((each for each in own if each.is_error is is_error), None)
        if file is None:
            what = "standard error, with its log," if is_error else "standard output"
            raise Refusal(404, f"the {what} of {address} goes to no file of its own")
        return self._read(address, file.name)

    def _text(self, address: Address, name: str) -> str:
        """Only what the process itself has named can be read: a name is no path."""
        for process, files in self._masters.outputs(address).items():
            if any(file.name == name for file in files):
                return self._read(Address(process), name)
        raise Refusal(404, f"{address} prints to no file {name!r}")

    def _read(self, address: Address, name: str) -> str:
        text = self._masters.output(address, name, MOST_BYTES)
        if text is None:
            raise Refusal(404, f"{address} prints to no file {name!r} any more")
        return redacted(text)
