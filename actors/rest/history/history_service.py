"""One request to a history server, answered from archives."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from actors.rest.access import Access
from actors.rest.answers.encoding import encoded
from actors.rest.asking.refusals import Refusal
from actors.rest.files import page_files
from actors.rest.handlers.clusters import REVISION, configuration_of
from actors.rest.history.archives import APPLICATIONS, JOBS, Archives
from actors.rest.service import LARGEST_BODY, Request, Response
from flinkray.rest.cluster import ClusterOverview, ErrorBody
from flinkray.rest.routes import plain_path

log = logging.getLogger(__name__)


class HistoryService:
    """Answers requests as `actors.rest.service.Service` does, as far as it is kept. Any thread."""

    def __init__(self, archives: Archives, access: Access, version: str, refresh_ms: int) -> None:
        self._archives = archives
        self._access = access
        self._version = version
        self._refresh_ms = refresh_ms

    def largest_body(self, _request: Request) -> int:
        return LARGEST_BODY

    def kept_answer(self, _request: Request) -> Response | None:
        return None

    def answer(self, request: Request) -> Response:
        """Never raises: what goes wrong is an answer, with `errors` in it."""
        try:
            if request.method not in ("GET", "HEAD"):
                raise Refusal(405, "a history server changes nothing")
            if (file := page_files().get(request.path)) is not None:
                self._access.check_page(request.headers)
                return Response(200, file.body, file.content_type)
            self._access.check(request.method, request.headers, is_write=False, has_body=False)
            return Response(200, self._body(plain_path(request.path)))
        except Refusal as refusal:
            return Response(refusal.status, encoded(ErrorBody(errors=[refusal.reason])))
        except Exception as error:
            log.exception("%s failed", request.path)
            text = f"this server failed: {type(error).__name__}; its log says more"
            return Response(500, encoded(ErrorBody(errors=[text])))

    def _body(self, path: str) -> bytes:
        match path:
            case "/config":
                return encoded(configuration_of(self._version, self._refresh_ms, is_history=True))
            case "/overview":
                return encoded(self._overview())
            case "/jobs/overview":
                return encoded({"jobs": self._archives.listed(JOBS)})
            case "/jobs":
                jobs = [{"id": job["jid"], "status": job["state"]} for job in self._archives.listed(JOBS)]
                return encoded({"jobs": jobs})
            case "/applications/overview":
                return encoded({"applications": self._archives.listed(APPLICATIONS)})
        found = self._archives.find(path)
        if found is None and path.startswith("/jobs/") and path.endswith("/metrics"):
            return b"[]"  # as of a job that runs and has none of the names: figures over time are not kept
        if found is None:
            raise Refusal(404, "that is not kept of jobs that have ended, or no archive has this job")
        return found.encode()

    def _overview(self) -> ClusterOverview:
        states: Counter[Any] = Counter(job["state"] for job in self._archives.listed(JOBS))
        return ClusterOverview(
            taskmanagers=0,
            slots_total=0,
            slots_available=0,
            jobs_running=0,
            jobs_finished=states["FINISHED"],
            jobs_cancelled=states["CANCELED"],
            jobs_failed=states["FAILED"],
            flink_version=self._version,
            flink_commit=REVISION,
        )
