"""Programs that are uploaded: how a form is read, where they are kept, and how a command for one is made."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.rest.access import Access
from actors.rest.asking.refusals import Refusal
from actors.rest.handlers.programs import ProgramHandlers
from actors.rest.programs.forms import FormFile, file_of
from actors.rest.programs.running import MOST, TIMEOUT_MS, CommandState, Running, plan_arguments, run_arguments
from actors.rest.programs.uploads import StoredProgram, Uploads
from actors.rest.service import LARGEST_BODY, Request, Response, Service
from actors.rest.starting import start_server
from flinkray.config.configuration import Configuration
from flinkray.errors import ConfigurationError, FlinkrayError
from flinkray.rest.programs import ProgramRequest, SubmittedJob
from flinkray.rest.routes import ROUTES
from tests.support.rest import RestClient
from tests.support.waiting import eventually

JOB = "ab" * 16
LIMIT = 100_000


def form(name: str | None, data: bytes, *, boundary: str = "x-y", end: str = "--", more: bytes = b"") -> bytes:
    """As curl writes it."""
    file = "" if name is None else f'; filename="{name}"'
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"{file}\r\n\r\n'
    return head.encode() + data + b"\r\n" + more + f"--{boundary}{end}\r\n".encode()


def archive(*names: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        for name in names:
            made.writestr(name, "pass")
    return written.getvalue()


# -- forms


def test_a_file_of_a_form_has_the_bytes_that_were_sent() -> None:
    field = b'--x-y\r\nContent-Disposition: form-data; name="more"\r\n\r\n1\r\n'
    for data in (b"", b"\r\n", b"print(1)\n", b"\r\n--x-", b"x--x-y", bytes(range(256)) * 4, b"\r\n\r\n\xff\x00"):
        for body in (form("a.py", data), form("a.py", data, more=field), b"before\r\n" + form("a.py", data)):
            assert file_of('multipart/form-data; boundary="x-y"', body) == FormFile("a.py", data)


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("multipart/form-data", form("a.py", b""), "no boundary"),
        (f"multipart/form-data; boundary={'x' * 71}", form("a.py", b""), "no boundary"),
        ("multipart/form-data; boundary=other", form("a.py", b""), "not whole"),
        ("multipart/form-data; boundary=x-y", form("a.py", b"", end=""), "not whole"),
        ("multipart/form-data; boundary=x-y", b"", "not whole"),
        ("multipart/form-data; boundary=x-y", form(None, b"1"), "0 files"),
        (
            "multipart/form-data; boundary=x-y",
            form("a.py", b"", more=form("b.py", b"").removesuffix(b"--x-y--\r\n")),
            "2 files",
        ),
        ("multipart/form-data; boundary=x-y", b"--x-y\r\nno headers\r\n--x-y--", "no headers"),
        ("multipart/form-data; boundary=x-y", b"--x-y\r\nA: " + b"x" * 9_000 + b"\r\n\r\n\r\n--x-y--", "too many"),
        ("multipart/form-data; boundary=x-y", b"--x-y\r\n" * 20 + b"--x-y--", "more than 16 parts"),
    ],
)
def test_what_is_no_form_with_one_file_is_refused(kind: str, body: bytes, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        file_of(kind, body)


def test_no_bytes_break_the_reading_of_forms() -> None:
    chosen = random.Random(7)
    whole = form("a.py", b"print(1)")
    for _ in range(500):
        body = bytearray(whole)
        for _ in range(chosen.randrange(1, 6)):
            at = chosen.randrange(len(body))
            body[at : at + chosen.randrange(3)] = chosen.randbytes(chosen.randrange(4))
        with contextlib.suppress(Refusal):
            file_of("multipart/form-data; boundary=x-y", bytes(body))


# -- the directory


def test_programs_are_kept_under_ids_and_listed_until_they_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    uploads = Uploads(str(tmp_path))
    assert uploads.all() == []
    script = uploads.add("C:\\jobs\\one job.py", b"print(1)")
    packed = uploads.add("two.zip", archive("b.py", "__main__.py", "a.py", "in/side.py", "data.txt", "1x.py"))
    os.utime(script.path, (1, 1))
    assert [(each.name, each.modules()) for each in uploads.all()] == [
        ("two.zip", ["__main__", "a", "b"]),
        ("one job.py", []),
    ]
    assert Uploads(str(tmp_path)).find(script.id).path.read_bytes() == b"print(1)"
    uploads.delete(script.id)
    assert [each.id for each in uploads.all()] == [packed.id]
    with pytest.raises(Refusal, match="no program has the id"):
        uploads.delete(script.id)
    uploads.close()
    assert packed.path.exists()
    assert (tmp_path / "mine.py").exists(), "what is beside the programs is not theirs"


def test_what_is_no_program_is_not_kept(tmp_path: Path) -> None:
    uploads, damaged = Uploads(str(tmp_path)), archive("a.py")[:-30]
    names = ("", "a", "a.jar", ".py", "..", "../..", "-c.py", "a\x00.py", "a\n.py", "ä.py", "a.py/", "a.PY", "$(id).py")
    wrong = [
        *((name, b"") for name in (*names, "a;b.py", "x" * 200 + ".py", "~.py")),
        ("a.zip", b"no"),
        ("a.zip", damaged),
    ]
    for name, data in wrong:
        with pytest.raises(Refusal, match=r"names no program|is no zip archive") as refused:
            uploads.add(name, data)
        assert refused.value.status == 400
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_no_id_leads_out_of_the_directory(tmp_path: Path) -> None:
    uploads = Uploads(str(tmp_path / "in"))
    stored = uploads.add("a.py", b"")
    outside = tmp_path / "secret.py"
    outside.touch()
    (stored.path.parent / stored.id.replace("a.py", "link.py")).symlink_to(outside)
    (stored.path.parent / "other.py").touch()
    assert [each.id for each in uploads.all()] == [stored.id]
    for wrong in ("../../secret.py", str(outside), "other.py", "", ".", f"./{stored.id}", stored.id.upper()):
        with pytest.raises(Refusal, match="no program has the id"):
            uploads.delete(wrong)
    assert outside.exists()


def test_a_directory_of_its_own_goes_with_the_server() -> None:
    uploads = Uploads("")
    stored = uploads.add("a.py", b"")
    assert stored.path.parent.parent.stat().st_mode & 0o77 == 0, "others of the machine do not read programs"
    uploads.close()
    assert not stored.path.parent.parent.exists()


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "flink-web-upload").write_text("a file")
    with pytest.raises(Refusal, match=r"'a\.py' cannot be kept in .*: (File exists|Not a directory)"):
        Uploads(str(tmp_path)).add("a.py", b"")


# -- commands


@pytest.fixture
def script(tmp_path: Path) -> StoredProgram:
    return Uploads(str(tmp_path)).add("a.py", b"print(1)")


@pytest.fixture
def packed(tmp_path: Path) -> StoredProgram:
    return Uploads(str(tmp_path)).add("a.zip", archive("jobs.py"))


def test_the_command_has_what_was_asked_for_and_says_itself_where_jobs_run(
    script: StoredProgram, packed: StoredProgram
) -> None:
    request = ProgramRequest(
        parallelism="3",
        program_args_list=["--rows", "5; rm -rf /", ""],
        savepoint_path="s3://b/sp",
        allow_non_restored_state=True,
        flink_configuration={"pipeline.max-parallelism": "8", "execution.target": "local"},
    )
    arguments = run_arguments(script, request, {"execution.target": "ray"})
    assert arguments[:3] == ["run", "--detached", "--json"]
    assert arguments[-5:] == ["--", "a.py", "--rows", "5; rm -rf /", ""]
    options = dict(each.split("=", 1) for each in arguments[4:-5:2])
    assert set(arguments[3:-5:2]) == {"-D"}
    assert options == {
        "parallelism.default": "3",
        "pipeline.max-parallelism": "8",
        "execution.target": "ray",
        "execution.state-recovery.path": "s3://b/sp",
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    whole = ProgramRequest(entry_class="jobs:main", program_args="-n 'two words'")
    assert plan_arguments(packed, whole) == ["render", "--json", "--module", "jobs:main", "--", "-n", "two words"]
    assert plan_arguments(script, ProgramRequest(entry_class="")) == ["render", "--json", "--", "a.py"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"parallelism": 0}, "parallelism.default"),
        ({"parallelism": "many"}, "parallelism.default"),
        ({"flink_configuration": {"no.such": "1"}}, "unknown option 'no.such'"),
        ({"job_id": JOB}, "jobId cannot be chosen"),
        ({"claim_mode": "CLAIM"}, "claimMode 'CLAIM'"),
        ({"program_args": "'open"}, "cannot be divided"),
        ({"entry_class": "main"}, "single file"),
    ],
)
def test_a_wrong_request_is_told_before_anything_is_started(
    script: StoredProgram, wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises((Refusal, ConfigurationError), match=says):
        run_arguments(script, ProgramRequest(**wrong), {})


@pytest.mark.parametrize(
    ("entry", "says"), [(None, "no __main__.py.* its modules, jobs"), ("-c", "no module"), ("a b", "no module")]
)
def test_an_archive_is_run_by_a_module(packed: StoredProgram, entry: str | None, says: str) -> None:
    with pytest.raises(Refusal, match=says):
        plan_arguments(packed, ProgramRequest(entry_class=entry))


# -- running


class Commands:
    """A ProgramHost whose commands print what they are to."""

    settings: Mapping[str, str] = {"execution.target": "ray"}

    def __init__(self, *states: CommandState | Exception) -> None:
        self._states = list(states)
        self.started: list[tuple[list[str], dict[str, bytes]]] = []
        self.stopped: list[str] = []

    def start(self, arguments: list[str], files: Path) -> str:
        found = {path.name: path.read_bytes() for path in (files.iterdir() if files.is_dir() else [files])}
        self.started.append((arguments, found))
        return "raysubmit_1"

    def stop(self, command_id: str) -> None:
        self.stopped.append(command_id)

    def state(self, command_id: str) -> CommandState:
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if isinstance(state, Exception):
            raise state
        return state


SAID = CommandState(False, f'Running entrypoint\n{{"other": 1}}\n{{"jobid": "{JOB}"}}\n{{"jobid": "later"}}\n')


def test_a_program_is_run_until_it_has_said_its_jobs_id(script: StoredProgram, packed: StoredProgram) -> None:
    for program, files in ((script, {"a.py": b"print(1)"}), (packed, {packed.id: packed.path.read_bytes()})):
        host = Commands(CommandState(False, ""), CommandState(False, '{"jobid'), SAID)
        request = ProgramRequest(entry_class="jobs" if program.is_archive else None)
        found = Running(host, lambda: 0.0, 0).run(program, request)
        assert found == SubmittedJob(jobid=JOB)
        assert host.started[0][1] == files


def test_a_program_that_fails_is_told_with_what_it_has_said(script: StoredProgram) -> None:
    host = Commands(CommandState(True, "x" * 10_000 + "\nValueError: s3://key:secret@bucket\n"))
    with pytest.raises(Refusal, match=r"'a.py' has ended \(raysubmit_1\) and not submitted a job") as refused:
        Running(host, lambda: 0.0, 0).run(script, ProgramRequest())
    assert refused.value.status == 400
    assert refused.value.reason.endswith("ValueError: s3://***@bucket")
    assert len(refused.value.reason) < 5_000


def test_what_is_waited_for_has_an_end_and_its_place_is_free_again(script: StoredProgram) -> None:
    clock = iter(range(0, 10**9, round(TIMEOUT_MS / 2)))
    running = Running(Commands(CommandState(False, "")), lambda: float(next(clock)), 0)
    for _ in range(MOST + 1):
        with pytest.raises(Refusal, match=r"has not come to a job for 120 s"):
            running.plan(script, ProgramRequest())
    broken = Running(Commands(FlinkrayError("no dashboard")), lambda: 0.0, 0)
    for _ in range(MOST + 1):
        with pytest.raises(FlinkrayError, match="no dashboard"):
            broken.run(script, ProgramRequest())


def test_a_program_is_stopped_when_nobody_waits_for_its_plan_and_one_that_is_run_goes_on(script: StoredProgram) -> None:
    late = CommandState(False, "")
    for state, is_closed, stops in (
        (late, False, True),
        (late, True, True),
        (FlinkrayError("no dashboard"), False, True),
        (CommandState(True, ""), False, False),
    ):
        for is_plan in (True, False):
            clock, host = iter((0.0, 0.0 if is_closed else TIMEOUT_MS)), Commands(state)
            running = Running(host, partial(next, clock), 0)
            if is_closed:
                running.close()
            with pytest.raises((Refusal, FlinkrayError)):
                (running.plan if is_plan else running.run)(script, ProgramRequest())
            assert host.stopped == (["raysubmit_1"] if stops and is_plan else []), (state, is_closed, is_plan)


def test_only_some_programs_are_waited_for_at_a_time_and_none_when_the_server_ends(script: StoredProgram) -> None:
    host = Commands(CommandState(False, ""))
    running = Running(host, lambda: 0.0, 60)
    with ThreadPoolExecutor(MOST) as pool:
        waiting = [pool.submit(running.run, script, ProgramRequest()) for _ in range(MOST)]
        eventually(lambda: len(host.started) == MOST)
        with pytest.raises(Refusal, match="4 programs are being started"):
            running.run(script, ProgramRequest())
        running.close()
        assert [str(each.exception(20)) for each in waiting] == [
            "this server ends; 'a.py' goes on (raysubmit_1)"
        ] * MOST


# -- requests

FORM = "multipart/form-data; boundary=x-y"


def service_of(handlers: ProgramHandlers, access: Access | None = None) -> Service:
    others = SimpleNamespace(**{route.handler: lambda _: None for route in ROUTES})
    return Service([handlers, others], access or Access(), LIMIT if handlers.can_run else 0)


@pytest.fixture
def served(tmp_path: Path) -> Service:
    return service_of(ProgramHandlers(Uploads(str(tmp_path)), Running(Commands(SAID), lambda: 0.0, 0)))


def ask(service: Service, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Response:
    path, _, query = path.partition("?")
    return service.answer(Request(method, path, query, {"host": "localhost", "content-type": kind}, body))


def test_a_program_is_uploaded_listed_run_and_deleted(served: Service) -> None:
    uploaded = json.loads(ask(served, "POST", "/jars/upload", form("a.py", b"print(1)"), FORM).body)
    assert uploaded["status"] == "success"
    name = uploaded["filename"].rpartition("/")[2]
    (listed,) = json.loads(ask(served, "GET", "/v1/jars").body)["files"]
    assert (listed["id"], listed["name"], listed["entry"]) == (name, "a.py", [])
    # As Flink's dashboard asks, with what is empty in its form as null in the body and not in the query.
    body = b'{"entryClass":null,"parallelism":"2","programArgs":null,"savepointPath":null,"allowNonRestoredState":null}'
    ran = ask(served, "POST", f"/jars/{name}/run?parallelism=2&program-args=x", body)
    assert (ran.status, json.loads(ran.body)) == (200, {"jobid": JOB})
    assert ask(served, "DELETE", f"/jars/{name}").status == 200
    assert json.loads(ask(served, "GET", "/jars").body)["files"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status"),
    [
        ("POST", "/jars/upload", form("a.py", b""), "application/json", 415),
        ("POST", "/jars/upload", form("a.py", b""), "", 415),
        ("POST", "/jars/upload", b"", FORM, 400),
        ("POST", "/jars/upload", form("a.jar", b""), FORM, 400),
        ("POST", "/jars/upload", form("a.py", b"x" * LIMIT), FORM, 413),
        ("POST", "/jars/x/run", b"{}", FORM, 415),
        ("POST", "/jars/x/run", b"{}", "application/json", 404),
        ("POST", "/jars/..%2f..%2fx.py/run", b"{}", "application/json", 404),
        ("POST", "/jars/x/run", b'{"programArgsList": "x"}', "application/json", 400),
        ("GET", "/jars/x/plan", b"", "", 403),
        ("DELETE", "/jars/x", b"", "", 404),
        ("DELETE", "/jars/..%2f", b"", "", 404),
        ("GET", "/jars/upload", b"", "", 405),
    ],
)
def test_wrong_requests_are_told(served: Service, method: str, path: str, body: bytes, kind: str, status: int) -> None:
    answer = ask(served, method, path, body, kind)
    assert (answer.status, len(json.loads(answer.body)["errors"])) == (status, 1), answer.body


def test_the_query_is_read_where_the_body_says_nothing(tmp_path: Path) -> None:
    host, uploads = Commands(SAID), Uploads(str(tmp_path))
    served = service_of(ProgramHandlers(uploads, Running(host, lambda: 0.0, 0)))
    path = f"/jars/{uploads.add('a.py', b'').id}/run"
    ask(served, "POST", f"{path}?parallelism=2&programArg=a,b&programArg=c", b'{"parallelism": 3}')
    ask(served, "POST", f"{path}?program-args=d%20e&allowNonRestoredState=true")
    assert ask(served, "POST", f"{path}?allowNonRestoredState=perhaps").status == 400
    first, second = (arguments for arguments, _ in host.started)
    assert "parallelism.default=3" in first
    assert first[-3:] == ["a", "b", "c"]
    assert second[-2:] == ["d", "e"]
    assert "execution.state-recovery.ignore-unclaimed-state=true" in second


def test_where_programs_cannot_be_run_it_is_said_and_nothing_is_read() -> None:
    service = service_of(ProgramHandlers(None, None, "not here"))
    for method, path, kind in (
        ("POST", "/jars/upload", FORM),
        ("POST", "/jars/x/run", "application/json"),
        ("POST", "/jars/x/plan", "application/json"),
        ("DELETE", "/jars/x", ""),
    ):
        answer = ask(service, method, path, b"", kind)
        assert (answer.status, json.loads(answer.body)["errors"]) == (403, ["not here"])
    assert json.loads(ask(service, "GET", "/jars").body)["files"] == []
    assert service.largest_body(
        Request("POST", "/jars/upload", headers={"host": "localhost", "content-type": FORM})
    ) == (LARGEST_BODY)


def test_only_who_may_upload_is_read_for_long(tmp_path: Path) -> None:
    running = Running(Commands(SAID), lambda: 0.0, 0)
    service = service_of(ProgramHandlers(Uploads(str(tmp_path)), running), Access("t0ken"))

    def most(path: str, **headers: str) -> int:
        return service.largest_body(Request("POST", path, headers={"content-type": FORM, **headers}))

    shown = {"authorization": "Bearer t0ken"}
    assert most("/jars/upload", **shown) == LIMIT
    assert most("/jars/upload") == most("/jars/upload", authorization="Bearer x") == LARGEST_BODY
    assert most("/jars/upload", origin="http://elsewhere.example", **shown) == LARGEST_BODY
    assert most("/savepoint-disposal", **shown) == most("/nothing", **shown) == LARGEST_BODY


def test_servers_run_programs_only_where_that_is_turned_on_and_never_themselves() -> None:
    for options, host, says in (
        ({}, Commands(SAID), "where web.submit.enable is set"),
        ({"web.submit.enable": "true"}, None, "this one is of a single job"),
        ({"web.submit.enable": "true"}, Commands(SAID), ""),
    ):
        settings = Configuration({"rest.port": 0, **options})
        server = start_server(settings, SimpleNamespace(hosts=dict), lambda _: None, host)
        try:
            http = RestClient(server.url)
            assert http.get("/config").value["features"]["web-submit"] == (not says)
            answer = http.send("POST", "/jars/upload", form("a.py", b"x" * 200_000), {"Content-Type": FORM})
            assert (answer.status, says in answer.text) == (403 if says else 200, True)
        finally:
            server.close()
        kept = [] if says else [Path(answer.value["filename"])]
        assert [path.exists() for path in kept] == [False] * len(kept)
