"""Uploaded programs, which Flink's interface calls jars."""

from __future__ import annotations

from msgspec.structs import replace

from actors.rest.asking.call import Call
from actors.rest.asking.refusals import Refusal
from actors.rest.programs.forms import FormFile
from actors.rest.programs.running import Running
from actors.rest.programs.uploads import Uploads
from flinkray.rest import programs as shapes
from flinkray.rest.jobs import JobPlan
from flinkray.rest.operations import Nothing


class ProgramHandlers:
    """
    Args:
        uploads, running: None: programs cannot be run here.
        why_not: the reason for that.
    """

    def __init__(self, uploads: Uploads | None, running: Running | None, why_not: str = "") -> None:
        self._uploads = uploads
        self._running = running
        self._why_not = why_not

    @property
    def can_run(self) -> bool:
        return self._running is not None

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
        if self._uploads is not None:
            self._uploads.close()

    def programs(self, call: Call) -> shapes.Programs:
        files = [
            shapes.UploadedProgram(
                id=program.id,
                name=program.name,
                uploaded=program.uploaded_ms,
                entry=[shapes.ProgramEntry(name=module) for module in program.modules()],
            )
            for program in (() if self._uploads is None else self._uploads.all())
        ]
        return shapes.Programs(address=call.url, files=files)

    def upload_program(self, call: Call) -> shapes.UploadedFile:
        uploads, _ = self._checked()
        file: FormFile = call.body
        return shapes.UploadedFile(filename=str(uploads.add(file.name, file.data).path))

    def run_program(self, call: Call) -> shapes.SubmittedJob:
        uploads, running = self._checked()
        return running.run(uploads.find(call.parameters["jarid"]), _request_of(call))

    def plan_of_program(self, call: Call) -> JobPlan:
        uploads, running = self._checked()
        return running.plan(uploads.find(call.parameters["jarid"]), _request_of(call))

    def delete_program(self, call: Call) -> Nothing:
        uploads, _ = self._checked()
        uploads.delete(call.parameters["jarid"])
        return Nothing()

    def _checked(self) -> tuple[Uploads, Running]:
        if self._uploads is None or self._running is None:
            raise Refusal(403, self._why_not)
        return self._uploads, self._running


def _request_of(call: Call) -> shapes.ProgramRequest:
    """The body, and what is not in it from the query."""
    request: shapes.ProgramRequest = call.body or shapes.ProgramRequest()
    allow = call.text_in_query("allowNonRestoredState")
    if allow not in (None, "", "true", "false"):
        raise Refusal(400, f"allowNonRestoredState is true or false, and not {allow!r}")
    has_arguments = request.program_args_list is not None or request.program_args is not None
    asked = {
        "entry_class": call.text_in_query("entry-class"),
        "parallelism": call.text_in_query("parallelism"),
        "savepoint_path": call.text_in_query("savepointPath"),
        "allow_non_restored_state": allow == "true" if allow else None,
        "program_args_list": None if has_arguments else call.list_in_query("programArg"),
        "program_args": None if has_arguments else call.text_in_query("program-args"),
    }
    return replace(request, **{name: value for name, value in asked.items() if getattr(request, name) is None})
