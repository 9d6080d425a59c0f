"""Opens every view of Flink's dashboard over a running job of ours, and says what it misses.

python -m tests.flink_ui.drive --page build/flink-ui/web --pictures build/flink-ui/pictures [--target ray]
"""

from __future__ import annotations

import argparse
import mimetypes
import operator
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from actors.rest.access import COOKIE
from flinkray import JobCanceledError, JobClient
from flinkray.execution import JobStatus
from tests.flink_ui.job import NAME, start
from tests.support.rest import RestClient, token_here
from tests.support.waiting import eventually

# Flink answers with 404 as well: profilers are off by default, and a process need not print to a file.
_NOT_IN_FLINK = ("/profiler", "/stdout")

_PARALLELISM_COLUMN = 6


class Dashboard:
    """Flink's page in a tab. Its files come from a directory; whatever else it asks for goes to our server.

    `complaints` has what went wrong: errors of the console, and requests that were refused.
    """

    def __init__(self, browser: Any, url: str, files: Path, pictures: Path, report: TextIO) -> None:
        self.complaints: list[str] = []
        self._report = report
        self._url = url
        self._files = files
        self._pictures = pictures
        self._view = ""
        context = browser.new_context(viewport={"width": 1600, "height": 1000})
        if token_here():
            context.add_cookies([{"name": COOKIE, "value": token_here(), "url": url}])
        self.page = context.new_page()
        self.page.route("**/*", self._serve)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._complain(f"error {error}"))
        self.page.on("response", self._on_response)

    def open(self, view: str, *texts: str, picture: str = "") -> None:
        """Opens a view and waits until each text is seen; complains of those that are not."""
        self._view = view
        self.page.goto("about:blank")  # else only the fragment differs, and the page is not loaded again
        self.page.goto(f"{self._url}/#{view}", wait_until="networkidle")
        for text in texts:
            self.wait_for(text)
        self.page.wait_for_timeout(700)  # what moves in comes to rest, for the picture
        self.shoot(picture or view.strip("/").replace("/", "-"))

    def click(self, label: str, *texts: str) -> None:
        """Opens a tab within the view."""
        self.page.get_by_text(label, exact=True).filter(visible=True).last.click()
        for text in texts:
            self.wait_for(text)
        self.page.wait_for_timeout(700)
        self.shoot(f"{self._view.strip('/').split('/')[-1]}-{label.replace(' ', '-').lower()}")

    def wait_for(self, text: str) -> None:
        try:
            self.page.get_by_text(text).filter(visible=True).first.wait_for(timeout=20_000)
        except Exception:
            self._complain(f"does not show {text!r}")

    def shoot(self, name: str) -> None:
        self.page.screenshot(path=self._pictures / f"{name}.png")

    def _serve(self, route: Any) -> None:
        path = urlsplit(route.request.url).path
        file = self._files / (path.strip("/") or "index.html")
        if file.is_file():
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            route.fulfill(body=file.read_bytes(), content_type=kind)
        else:
            route.continue_()

    def _on_console(self, message: Any) -> None:
        # Which request failed is said by the response.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self._complain(f"console: {message.text}")

    def _on_response(self, response: Any) -> None:
        asked = urlsplit(response.url)
        if response.status >= 400 and not asked.path.endswith(_NOT_IN_FLINK):
            self._complain(f"{response.status} {response.request.method} {asked.path}?{asked.query}")

    def _complain(self, text: str) -> None:
        line = f"{self._view}: {text}"
        if line not in self.complaints:
            self.complaints.append(line)
            print(line, file=self._report, flush=True)


def chromium() -> str | None:
    """The browser of this machine; None: Playwright's own."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def look_at_everything(dashboard: Dashboard, client: JobClient, is_local: bool) -> None:
    """Every view that there is of a cluster with one job that runs."""
    http = RestClient(client.web_url)
    path = f"/jobs/{client.job_id}"
    source, window, *_ = [vertex["id"] for vertex in http.get(path).value["vertices"]]
    (manager, *_) = [each["id"] for each in http.get("/taskmanagers").value["taskmanagers"]]
    dashboard.open("/overview", NAME)
    dashboard.open("/job/running", NAME, "RUNNING")
    dashboard.open("/job/completed", "No Data")
    dashboard.open("/application/running", NAME)
    _look_at_application(dashboard, f"/application/running/{client.job_id}")
    _look_at_job(dashboard, f"/job/running/{client.job_id}")
    for vertex, name in ((source, "source"), (window, "window")):
        _look_at_vertex(dashboard, f"/job/running/{client.job_id}/overview/{vertex}", name)
    dashboard.open("/task-manager", "te-1")
    for tab, *texts in (
        ("metrics", "Flink Memory Model"),
        ("logs", *(["as asked"] if is_local else [])),
        ("stdout", "stdout"),
        ("log-list", "errors.txt" if is_local else ".err"),
        ("thread-dump", "MainThread"),
        ("profiler", "Profiling"),
    ):
        dashboard.open(f"/task-manager/{manager}/{tab}", *texts, picture=f"task-manager-{tab}")
    for tab, *texts in (
        ("metrics", "Heap"),
        ("config", "execution.checkpointing.interval"),
        ("logs", *(["as asked"] if is_local else [])),
        ("stdout", "stdout"),
        ("log", "errors.txt" if is_local else ".err"),
        ("thread-dump", "MainThread"),
        ("profiler", "Profiling"),
    ):
        dashboard.open(f"/job-manager/{tab}", *texts)


def _look_at_application(dashboard: Dashboard, view: str) -> None:
    dashboard.open(f"{view}/overview", NAME, picture="application")
    dashboard.open(f"{view}/exceptions", "No Root Exception", picture="application-exceptions")


def _look_at_job(dashboard: Dashboard, view: str) -> None:
    dashboard.open(f"{view}/overview", "average", "Backpressured (max): 0%", picture="job")
    dashboard.open(f"{view}/exceptions", "as asked", picture="job-exceptions")
    dashboard.click("Exception History", "UserFunctionError")
    dashboard.open(f"{view}/dataskew", "average", picture="job-dataskew")
    dashboard.open(f"{view}/timeline", "Vertex TimeLine", picture="job-timeline")
    dashboard.open(f"{view}/checkpoints", "Latest Savepoint", picture="job-checkpoints")
    dashboard.click("History", "Trigger Time")
    expand = "button.ant-table-row-expand-icon"
    dashboard.page.locator(expand).filter(visible=True).first.click()
    dashboard.wait_for("Checkpoint Detail")
    dashboard.page.locator(f"flink-job-checkpoints-detail {expand}").filter(visible=True).first.click()
    dashboard.wait_for("Start Delay")
    dashboard.shoot("job-checkpoints-subtasks")
    dashboard.click("Summary", "Percentiles")
    dashboard.page.get_by_text("Percentiles").click()
    dashboard.wait_for("99% percentile")
    dashboard.page.get_by_text("Configuration").filter(visible=True).last.click()
    dashboard.wait_for("HashMapStateBackend")
    dashboard.shoot("job-checkpoints-configuration")
    dashboard.open(f"{view}/configuration", "restart-strategy.type", picture="job-configuration")


def _look_at_vertex(dashboard: Dashboard, view: str, name: str) -> None:
    for tab, text in (
        ("detail", "Max Parallelism"),
        ("subtasks", "Aggregated Metrics"),
        ("taskmanagers", "Endpoint"),
        ("watermarks", "Datetime of Watermark Timestamp"),
        ("accumulators", "rows" if name == "source" else "No Data"),
        ("backpressure", "Back Pressure Status"),
        ("metrics", "Add Metric"),
        ("flamegraph", "Measurement"),
    ):
        dashboard.open(f"{view}/{tab}", text, picture=f"vertex-{name}-{tab}")
        if tab == "subtasks":
            dashboard.click("Aggregated Metrics", "Read Records")
        if tab == "metrics":
            dashboard.page.locator("nz-select").filter(visible=True).first.click()
            dashboard.page.keyboard.type("0.numRecordsInPerSecond")
            dashboard.page.keyboard.press("Enter")
            dashboard.page.wait_for_timeout(4_000)
            dashboard.shoot(f"vertex-{name}-metrics-chosen")


def rescale(dashboard: Dashboard, client: JobClient) -> None:
    """Gives a vertex one subtask more by the page's plus, and then one fewer by its minus."""
    dashboard.open(f"/job/running/{client.job_id}/overview", "average", picture="job-rescale")
    page, name, said = dashboard.page, "average", "Job will now try to rescale"
    row = page.locator("flink-job-overview-list tr").filter(has=page.get_by_text(name, exact=True))
    shown = row.locator("td").nth(_PARALLELISM_COLUMN)
    vertex, now = next((each.vertex_id, each.parallelism) for each in client.details().vertices if each.name == name)
    for icon, wanted in (("plus", now + 1), ("minus", now)):
        row.locator("button").filter(has=page.locator(f"[nztype={icon}]")).click()
        dashboard.wait_for(said)
        dashboard.shoot(f"job-rescale-{icon}")
        page.get_by_text(said).first.wait_for(state="hidden", timeout=20_000)  # what is seen next is of the next click
        eventually(lambda: client.details().parallelisms[vertex], partial(operator.eq, wanted), deadline_s=60)
        eventually(lambda: shown.inner_text().strip(), partial(operator.eq, str(wanted)), deadline_s=20)
        dashboard.shoot(f"job-rescale-{icon}-done")


def cancel(dashboard: Dashboard, client: JobClient) -> None:
    """Cancels the job by the page's button. What is left of it shows the numbers that `flinkray info` has."""
    dashboard.open(f"/job/running/{client.job_id}/overview", NAME, picture="job-cancel")
    dashboard.page.get_by_text("Cancel Job").click()
    dashboard.page.get_by_role("button", name="Yes").click()
    eventually(lambda: client.status() is JobStatus.CANCELED)
    dashboard.open("/job/completed", NAME, "CANCELED", picture="job-completed-one")
    ended = f"/job/completed/{client.job_id}"
    details, counts = client.details(), client.checkpoints().counts
    records = [sum(subtask.metrics.records_in for subtask in vertex.subtasks) for vertex in details.vertices]
    for tab, *texts in (
        ("overview", *(f"{count:,}" for count in records)),
        ("exceptions", "as asked"),
        ("timeline", "Vertex TimeLine"),
        ("checkpoints", f"Completed: {counts.completed}", f"Triggered: {counts.triggered}"),
        ("configuration", "restart-strategy.type"),
    ):
        dashboard.open(f"{ended}/{tab}", *texts, picture=f"ended-{tab}")


@contextmanager
def failed_once(target: str) -> Iterator[JobClient]:
    """A job that has checkpoints and a savepoint, has failed once and gone on."""
    with tempfile.TemporaryDirectory() as name:
        client = start(Path(name), target)
        try:
            eventually(lambda: client.checkpoints().counts.completed > 1, deadline_s=60)
            client.trigger_savepoint()
            (Path(name) / "fail").touch()
            eventually(lambda: client.checkpoints().counts.restored, deadline_s=60)
            yield client
        finally:
            client.cancel()
            with suppress(JobCanceledError):
                client.result(timeout=60)
            client.close()


@contextmanager
def prints_to(directory: Path) -> Iterator[TextIO]:
    """What this process prints goes to files meanwhile, as the dashboard shows those; gives the former output."""
    kept = os.dup(1), os.dup(2)
    for descriptor, name in ((1, "output.txt"), (2, "errors.txt")):
        file = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
        os.close(file)
    try:
        with os.fdopen(kept[0], "w", closefd=False) as report:
            yield report
    finally:
        for descriptor, former in enumerate(kept, 1):
            os.dup2(former, descriptor)
            os.close(former)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", type=Path, required=True, help="the directory with Flink's page")
    parser.add_argument("--pictures", type=Path, required=True, help="the directory that pictures of all views go to")
    parser.add_argument("--target", default="local", help="what the job runs on")
    options = parser.parse_args()
    options.pictures.mkdir(parents=True, exist_ok=True)
    with prints_to(options.pictures) as report, sync_playwright() as running, failed_once(options.target) as client:
        browser = running.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        dashboard = Dashboard(browser, client.web_url, options.page, options.pictures, report)
        look_at_everything(dashboard, client, options.target == "local")
        rescale(dashboard, client)
        cancel(dashboard, client)
        browser.close()
        print(f"{len(dashboard.complaints)} complaints", file=report)
    return 1 if dashboard.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
