"""Opens every view of the page over a running job, looks at each with axe-core, and takes pictures.

python -m tests.page.drive --axe build/page/axe.js --pictures build/page/pictures [--target ray]

Each view is seen light, dark and on a phone, and with a thousand subtasks, made of the answers about a few. On Ray the
job's masters are killed while the page is open, which has to go on by itself.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct
from playwright.sync_api import sync_playwright

from actors.rest.access import COOKIE
from flinkray import JobClient
from tests.flink_ui.drive import chromium, failed_once, prints_to
from tests.flink_ui.job import NAME
from tests.support.recovery import pids_of
from tests.support.rest import RestClient, token_here
from tests.support.waiting import eventually

_SERIOUS = ("serious", "critical")
_COPIES = 250
_OF_SUBTASKS = re.compile(r"/vertices/[0-9a-f]{32}(/(backpressure|watermarks|history|subtasktimes))?$")
_SIZES = {"wide": (1440, 900), "phone": (390, 844)}
_WAYS = (("light", "wide"), ("dark", "wide"), ("light", "phone"))
_WITH_MANY = ("graph", "vertex-subtasks", "vertex-charts", "timeline", "checkpoint")
_WAIT_MS = 60_000


class View(Struct, frozen=True):
    """A view, and what is seen there."""

    name: str
    place: str
    text: str


def views_of(client: JobClient) -> Iterator[View]:
    http = RestClient(client.web_url)
    job = f"/jobs/{client.job_id}"
    vertex = http.get(job).value["vertices"][0]["id"]
    savepoint = http.get(f"{job}/checkpoints").value["latest"]["savepoint"]["id"]  # unlike others, it stays known
    manager = http.get("/taskmanagers").value["taskmanagers"][0]["id"]
    yield View("jobs", "/", NAME)
    yield View("graph", f"{job}/graph", "average")
    for tab, text in (
        ("subtasks", "Back-pressured"),
        ("charts", "Waiting buffers"),
        ("metrics", "numRecordsInPerSecond"),
        ("flame", "speedscope"),
        ("operators", "check"),
        ("failures", "as asked"),
    ):
        yield View(f"vertex-{tab}", f"{job}/graph/{vertex}/{tab}", text)
    yield View("checkpoints", f"{job}/checkpoints", "History")
    yield View("checkpoint", f"{job}/checkpoints/{savepoint}/{vertex}", "Alignment")
    yield View("exceptions", f"{job}/exceptions", "as asked")
    yield View("timeline", f"{job}/timeline", "check")
    yield View("configuration", f"{job}/configuration", "restart-strategy.type")
    yield View("logs", f"{job}/logs", "as asked")
    yield View("taskexecutors", "/taskexecutors", "te-1")
    for tab, text in (("overview", "Slots in use"), ("logs", "File"), ("threads", "MainThread")):
        yield View(f"taskexecutor-{tab}", f"/taskexecutors/{manager}/{tab}", text)
    for tab, text in (("overview", "Options"), ("logs", "File"), ("threads", "MainThread")):
        yield View(f"masters-{tab}", f"/masters/{tab}", text)


class Visitor:
    """Somebody who looks at the page in one way.

    `complaints` has errors of the console, serious findings of axe, and what is not shown.
    """

    def __init__(
        self, browser: Any, url: str, options: argparse.Namespace, report: TextIO, colours: str, size: str
    ) -> None:
        self.complaints: list[str] = []
        self._url, self._pictures, self._report = url, options.pictures, report
        self._axe = options.axe.read_text()
        self._name = f"{colours}-{size}"
        width, height = _SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=colours)
        if token_here():
            context.add_cookies([{"name": COOKIE, "value": token_here(), "url": url}])
        self.page = context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complain("", f"error {error}"))

    def open(self, view: View) -> None:
        self.page.goto("about:blank")
        self.page.goto(f"{self._url}/#{view.place}")
        self.wait_for(view.name, view.text)
        self.wait_for(view.name, "Loading", state="hidden")
        self.look(view.name)

    def look(self, name: str) -> None:
        """Takes a picture of what is shown, and has axe look at it."""
        self.page.wait_for_timeout(300)
        self.page.screenshot(path=self._pictures / f"{name}-{self._name}.png")
        if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            self.complain(name, "is wider than the window")
        self.page.evaluate(self._axe)
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        for violation in found["violations"]:
            where = "; ".join(" ".join(map(str, node["target"])) for node in violation["nodes"][:3])
            text = f"{violation['impact']}: {violation['id']}: {violation['help']} ({len(violation['nodes'])}: {where})"
            if violation["impact"] in _SERIOUS:
                self.complain(name, text)
            else:
                print(f"{name} {self._name}: {text}", file=self._report, flush=True)

    def wait_for(self, name: str, text: str, timeout_ms: int = _WAIT_MS, **state: str) -> None:
        try:
            self.page.get_by_text(text).filter(visible=True).first.wait_for(timeout=timeout_ms, **state)
        except Exception:
            self.complain(name, f"goes on showing {text!r}" if state else f"does not show {text!r}")

    def complain(self, name: str, text: str) -> None:
        line = f"{name} {self._name}: {text}"
        if line not in self.complaints:
            self.complaints.append(line)
            print(f"COMPLAINT {line}", file=self._report, flush=True)

    def _on_console(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complain("", f"console: {message.text}")


def many_subtasks(route: Any) -> None:
    """The answer about a vertex, as if it had a thousand subtasks."""
    response = route.fetch()
    answer = response.json()
    if isinstance(answer, list):
        answer = [
            {**each, "id": f"{int(each['id'].partition('.')[0]) + len(answer) * copy}.currentInputWatermark"}
            for copy in range(_COPIES * 2)
            for each in answer
        ]
    else:
        subtasks = answer["subtasks"]
        answer["subtasks"] = [
            {**each, "subtask": len(subtasks) * copy + index} if isinstance(each, dict) else each
            for copy in range(_COPIES * 4 // max(1, len(subtasks)))
            for index, each in enumerate(subtasks)
        ]
    route.fulfill(response=response, json=answer)


def kill_masters(visitor: Visitor, client: JobClient) -> None:
    """The page is open meanwhile, and nobody loads it again: it goes on by itself."""
    page = visitor.page
    page.goto(f"{client.web_url}/#/jobs/{client.job_id}/graph")
    visitor.wait_for("masters", "RUNNING")
    page.evaluate("window.isSame = true")
    for name in ("JobMaster", "Dispatcher"):
        (victim,) = pids_of(client, name)
        os.kill(victim, signal.SIGKILL)
        visitor.look(f"killed-{name}")
        eventually(partial(pids_of, client, name), partial(_is_replaced, victim), deadline_s=60)
        for trouble in ("Asking again", "does not answer"):
            visitor.wait_for(f"back-{name}", trouble, state="hidden")
        visitor.wait_for(f"back-{name}", "RUNNING")
        visitor.look(f"back-{name}")
    if not page.evaluate("window.isSame === true"):
        visitor.complain("masters", "was loaded again")


def _is_replaced(victim: int, pids: set[int]) -> bool:
    return bool(pids) and victim not in pids


def look_at_everything(options: argparse.Namespace, report: TextIO, client: JobClient) -> list[str]:
    complaints: list[str] = []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        views = list(views_of(client))
        visitors = [Visitor(browser, client.web_url, options, report, colours, size) for colours, size in _WAYS]
        for visitor in visitors:
            for view in views:
                visitor.open(view)
            visitor.page.route(_OF_SUBTASKS, many_subtasks)
            for view in views:
                if view.name in _WITH_MANY:
                    visitor.open(View(f"many-{view.name}", view.place, view.text))
            visitor.page.unroute(_OF_SUBTASKS)
        if options.target != "local":
            kill_masters(visitors[0], client)
        for visitor in visitors:
            complaints += visitor.complaints
        browser.close()
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--axe", type=Path, required=True, help="axe-core's axe.min.js")
    parser.add_argument("--pictures", type=Path, required=True, help="the directory that pictures of all views go to")
    parser.add_argument("--target", default="local", help="what the job runs on")
    options = parser.parse_args()
    options.pictures.mkdir(parents=True, exist_ok=True)
    with prints_to(options.pictures) as report, failed_once(options.target) as client:
        complaints = look_at_everything(options, report, client)
        print(f"{len(complaints)} complaints", file=report)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
