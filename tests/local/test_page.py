"""The page in a browser, over a running job. Needs Chromium and Playwright (`pip install playwright`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.local.test_rest import RunningJob, end, start
from tests.support.waiting import eventually

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[RunningJob]:
    """A job that has failed once and gone on."""
    running = start(tmp_path)
    try:
        eventually(lambda: running.http.get(f"{running.path}/checkpoints").value["counts"]["completed"])
        (tmp_path / "fail").touch()
        eventually(lambda: running.http.get(f"{running.path}/checkpoints").value["counts"]["restored"])
        yield running
    finally:
        end(running)


@pytest.mark.parametrize("width", [390, 1440])
def test_every_view_shows_the_job_and_none_complains(browser: Any, job: RunningJob, width: int) -> None:
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    vertex = job.vertices()[0]
    views = {
        "": "rest",
        f"{job.path}/graph": "Source: numbers",
        f"{job.path}/graph/{vertex}": "Back-pressured",
        f"{job.path}/graph/{vertex}/charts": "Waiting buffers",
        f"{job.path}/graph/{vertex}/metrics": "numRecordsInPerSecond",
        f"{job.path}/graph/{vertex}/flame": "speedscope",
        f"{job.path}/graph/{vertex}/operators": "rows",
        f"{job.path}/graph/{vertex}/failures": "as asked",
        f"{job.path}/checkpoints": "History",
        f"{job.path}/exceptions": "as asked",
        f"{job.path}/timeline": "Source: numbers -> Map",
        f"{job.path}/configuration": "restart-strategy.type",
        "/taskexecutors": "te-1",
        "/masters": "taskSlotsTotal",
        "/masters/threads": "MainThread",
    }
    for view, text in views.items():
        page.goto(f"{job.client.web_url}/#{view}")
        page.get_by_text(text).filter(visible=True).first.wait_for(timeout=10_000)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is wider than the window"
    assert complaints == []
    page.close()


def test_buttons_take_a_savepoint_and_cancel(browser: Any, job: RunningJob, tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(f"{job.client.web_url}/#{job.path}/graph")
    page.get_by_role("button", name="Savepoint", exact=True).click()
    page.get_by_label("Directory").fill(str(tmp_path / "mine"))
    page.get_by_role("button", name="Take it").click()
    page.get_by_text("The savepoint is at").wait_for(timeout=20_000)
    assert list((tmp_path / "mine").iterdir())
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the job").click()
    page.get_by_text("CANCELED").first.wait_for(timeout=20_000)
    assert job.http.get(f"{job.path}/status").value == {"status": "CANCELED"}
    page.close()


def test_a_button_gives_the_job_another_parallelism(browser: Any, job: RunningJob) -> None:
    page = browser.new_page()
    page.goto(f"{job.client.web_url}/#{job.path}/graph")
    page.get_by_role("button", name="Rescale", exact=True).click()
    page.get_by_role("spinbutton", name="Parallelism").fill("3")
    page.get_by_role("button", name="Rescale it").click()
    page.get_by_text("The job runs with a parallelism of 3.").wait_for(timeout=20_000)
    assert set(job.client.details().parallelisms.values()) == {3}
    page.get_by_role("button", name="Close the message").click()
    page.get_by_role("button", name="Rescale", exact=True).click()
    page.get_by_role("spinbutton", name="Parallelism").fill("129")
    page.get_by_role("button", name="Rescale it").click()
    page.get_by_text("which is its max parallelism").wait_for(timeout=20_000)
    page.close()


def test_the_page_goes_on_by_itself_when_the_server_is_back(browser: Any, job: RunningJob) -> None:
    page = browser.new_page()
    page.goto(f"{job.client.web_url}/#{job.path}/graph")
    page.get_by_text("Source: numbers").first.wait_for(timeout=10_000)
    page.route("**/jobs/**", lambda route: route.abort())
    page.get_by_text("The server does not answer").wait_for(timeout=10_000)
    assert page.get_by_text("Source: numbers").first.is_visible(), "what was known is shown"
    page.unroute("**/jobs/**")
    page.get_by_text("The server does not answer").wait_for(state="hidden", timeout=10_000)
    page.close()


def test_the_graph_of_a_job_whose_master_is_being_started_is_awaited(browser: Any, job: RunningJob) -> None:
    complaints: list[str] = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))

    def without_master(route: Any) -> None:
        response = route.fetch()
        answer = response.json()
        route.fulfill(response=response, json={**answer, "vertices": [], "plan": {**answer["plan"], "nodes": []}})

    page.route(f"**{job.path}", without_master)
    page.goto(f"{job.client.web_url}/#{job.path}/graph")
    page.get_by_text("Its JobMaster is being started").wait_for(timeout=20_000)
    page.unroute(f"**{job.path}")
    page.get_by_text("Source: numbers").first.wait_for(timeout=20_000)
    assert complaints == []
    page.close()
