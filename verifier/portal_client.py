"""Speaks with a portal's API: with a token, repeats that do their work once, and errors told in the portal's words."""

from __future__ import annotations

import hashlib
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from verifier.bundle import BundleError, check_bytes, read_file

ANSWER_BYTES = 32 * 1024 * 1024
TIMEOUT_SECONDS = 60
# What is waited out. A longer wait, such as for a quota, is for the caller to decide.
LONGEST_PAUSE_SECONDS = 60
PAUSES_SECONDS = (1, 2, 4, 8, 16)
# A run is asked after ever more seldom.
FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 1.0, 10.0
ENDED = frozenset({"finished", "cancelled", "crashed"})
_IDENTIFIER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Body = dict[str, Any]


class PortalError(Exception):
    """What the portal refused. `status` is None when it could not be reached."""

    def __init__(self, message: str, status: int | None = None, problem: Body | None = None) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem or {}


@dataclass(frozen=True)
class Answer:
    """One answer of the API. `body` is None for one without content, as when nothing has changed."""

    status: int
    body: Any
    headers: Message[str, str] = field(default_factory=Message)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the address that was given and to no other."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def find_identifier(text: str) -> str:
    """Return the identifier in `text`, which may be the address of a page. Raises ValueError."""
    found = _IDENTIFIER.findall(text)
    if not found:
        raise ValueError(f"{text!r} holds no identifier of a run or a campaign")
    return found[-1].lower()


class Portal:
    """A portal at an address. Raises PortalError from every method that asks it."""

    def __init__(self, address: str, token: str) -> None:
        parts = urllib.parse.urlsplit(address if "://" in address else f"https://{address}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address!r} is no address of a portal; it begins with https:// or http://")
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect)

    def get(self, path: str, etag: str = "") -> Answer:
        """Read `path` below the API's root; with an `etag`, a status of 304 when nothing has changed."""
        return self._ask("GET", path, headers={"If-None-Match": etag} if etag else {})

    def post(self, path: str, body: Body | None = None, key: str = "") -> Any:  # noqa: ANN401  whatever JSON holds
        """Send `body`, once even when it has to be sent again, and return what was answered."""
        return self._ask("POST", path, body or {}, {"Idempotency-Key": key or uuid.uuid4().hex}).body

    def patch(self, path: str, body: Body) -> Any:  # noqa: ANN401  whatever JSON holds
        """Change what is at `path`, and return what was answered."""
        return self._ask("PATCH", path, body).body

    def delete(self, path: str) -> None:
        """Delete what is at `path`; that it is gone already is no error."""
        try:
            self._ask("DELETE", path)
        except PortalError as error:
            if error.status != 404:  # noqa: PLR2004  as HTTP has it
                raise

    def list_all(self, path: str) -> Iterator[Body]:
        """Yield every row of a list, page by page."""
        query = ""
        while True:
            page = self.get(f"{path}{query}").body
            yield from page["results"]
            if not page["next"]:
                return
            query = f"?{urllib.parse.urlsplit(page['next']).query}"

    def _ask(
        self, method: str, path: str, body: Body | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request, and again where that may help. An answer that tells of an error is raised."""
        for pause in (*PAUSES_SECONDS, None):
            try:
                return self._send(method, path, body, headers or {})
            except PortalError as error:
                wait = read_pause(error)
                if pause is None or wait is None:
                    raise
                time.sleep(max(pause, wait))
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, body: Body | None, headers: Mapping[str, str]) -> Answer:
        url = f"{self.address}/api/v1{path}"
        data = None if body is None else json.dumps(body).encode()
        usual = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        content = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(url, data, {**usual, **content, **headers}, method=method)  # noqa: S310  checked above
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                return read_answer(response)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304:  # noqa: PLR2004  as HTTP has it
                    return Answer(304, None, error.headers)
                raise explain(error, self.address) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise PortalError(f"{self.address} cannot be reached: {reason}") from None


def read_answer(response: HTTPResponse) -> Answer:
    """Return the answer with its JSON. Raises PortalError when it is none."""
    content = response.read(ANSWER_BYTES + 1)
    if not content:
        return Answer(response.status, None, response.headers)
    try:
        return Answer(response.status, json.loads(content), response.headers)
    except ValueError:
        raise PortalError("what answered there is no portal: it sent no JSON", response.status) from None


def explain(error: urllib.error.HTTPError, address: str) -> PortalError:
    """Return what the portal refused, in its own words where it gave some."""
    if 300 <= error.code < 400:  # noqa: PLR2004  as HTTP has it
        target = error.headers.get("Location", "another address")
        return PortalError(f"{address} leads to {target}. Give that address.", error.code)
    seconds = error.headers.get("Retry-After", "")
    pause = {"retry_after": int(seconds)} if seconds.isdecimal() else {}
    try:
        problem = json.loads(error.read(ANSWER_BYTES))
        return PortalError(str(problem["detail"]), error.code, problem | pause)
    except (ValueError, KeyError, TypeError, OSError):
        return PortalError(f"{address} answered {error.code} {error.reason}", error.code, pause)


def read_pause(error: PortalError) -> float | None:
    """Return after how many seconds it may be better, at the least; None when trying again helps not."""
    seconds = error.problem.get("retry_after")
    if error.status == 429:  # noqa: PLR2004  as HTTP has it
        return seconds if seconds is not None and seconds <= LONGEST_PAUSE_SECONDS else None
    return 0.0 if error.status is None or error.status >= 500 else None  # noqa: PLR2004  as HTTP has it


def watch(portal: Portal, path: str, timeout_seconds: float | None) -> Iterator[Body]:
    """Yield what is at `path` now and whenever it has changed, until the time is over; then raise TimeoutError."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    pause, etag = FIRST_POLL_SECONDS, ""
    while True:
        answer = portal.get(path, etag)
        if answer.body is not None:
            etag = answer.headers.get("ETag", "")
            pause = FIRST_POLL_SECONDS
            yield answer.body
        if deadline is not None and time.monotonic() + pause > deadline:
            raise TimeoutError
        time.sleep(pause)
        pause = min(pause * 1.5, LAST_POLL_SECONDS)


@dataclass(frozen=True)
class LocalFile:
    """A file of a folder, under the name that it has in a campaign."""

    name: str
    text: str
    sha256: str


def read_solution(path: Path) -> str:
    """Return the text of the solution at `path`. Raises BundleError as the verifier does."""
    return check_bytes(read_file(path))


def read_folder(folder: Path) -> tuple[list[LocalFile], list[str]]:
    """Return the Python files of `folder` and below, and why others cannot be sent. Hidden ones are left out."""
    root = folder.resolve()
    files, refusals = [], []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if any(part.startswith(".") or part == "__pycache__" for part in parts):
            continue
        name = "/".join((root.name, *parts))
        try:
            text = read_solution(path)
        except BundleError as error:
            refusals.append(f"{name}: {error.message}")
        else:
            files.append(LocalFile(name, text, hashlib.sha256(text.encode()).hexdigest()))
    return files, refusals


def find_draft(portal: Portal, chosen: Body) -> Body | None:
    """Return the draft of one's own with the title, the system and the environment that were `chosen`."""
    who = portal.get("/me/").body["username"]
    wanted = {name: chosen[name] for name in ("title", "system", "environment")} | {"state": "draft", "created_by": who}
    rows = portal.list_all("/campaigns/")
    return next((row for row in rows if all(row[name] == value for name, value in wanted.items())), None)


def fill_draft(portal: Portal, draft: Body, files: list[LocalFile]) -> Iterator[str]:
    """Make a draft hold exactly `files`: send what is missing or changed, and yield the name of each."""
    path = f"/campaigns/{draft['id']}/files/"
    present = {row["name"]: row for row in portal.get(path).body["files"]}
    for name in present.keys() - {file.name for file in files}:
        portal.delete(f"{path}{present[name]['number']}/")
    for file in files:
        if file.name not in present or present[file.name]["sha256"] != file.sha256:
            portal.post(path, {"name": file.name, "source": file.text})
            yield file.name


def confirm_draft(portal: Portal, draft: Body, digest: str, *, allow_duplicates: bool) -> Body:
    """Submit the draft as it was looked at. The key follows from the draft, so that even a new process submits once."""
    body = {"digest": digest, "allow_duplicates": allow_duplicates}
    key = hashlib.sha256(json.dumps([draft["id"], body]).encode()).hexdigest()
    answer: Body = portal.post(f"/campaigns/{draft['id']}/confirm/", body, key)
    return answer
