"""A stand-in for the Hugging Face Hub on this machine: repositories in memory, and the requests that were made."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

TOKEN = "hf_stand_in"


@dataclass
class StandIn:
    """What the stand-in holds: for each repository its commits in order, each `{name: content}`."""

    repositories: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    address: str = ""

    def commit(self, repository: str, files: dict[str, bytes]) -> str:
        """Add a commit that holds exactly these files."""
        commits = self.repositories.setdefault(repository, {})
        sha = hashlib.sha1(f"{repository}{len(commits)}".encode()).hexdigest()
        commits[sha] = files
        return sha

    def newest(self, repository: str) -> dict[str, bytes]:
        return list(self.repositories[repository].values())[-1]

    @property
    def downloads(self) -> list[str]:
        return [line for line in self.requests if "/resolve/" in line]


def _handler(hub: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            hub.requests.append(f"{self.command} {self.path}")

        def _send(self, code: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _json(self, value: object, code: int = 200) -> None:
            self._send(code, json.dumps(value).encode(), Content_Type="application/json")

        def _missing(self, what: str) -> None:
            self._send(404, b"{}", X_Error_Code=what, X_Error_Message="not found")

        def _commit_of(self, repository: str, revision: str) -> str | None:
            commits = hub.repositories.get(repository)
            if commits is None:
                self._missing("RepoNotFound")
            elif revision == "main" and commits:
                return list(commits)[-1]
            elif revision in commits:
                return revision
            else:
                self._missing("RevisionNotFound")
            return None

        def do_GET(self) -> None:
            parts = unquote(self.path).partition("?")[0].strip("/").split("/")
            if parts[:2] == ["api", "models"]:
                repository = "/".join(parts[2:4])
                sha = self._commit_of(repository, parts[5] if len(parts) > 5 else "main")
                if sha is not None:
                    files = hub.repositories[repository][sha]
                    siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
                    self._json({"id": repository, "modelId": repository, "sha": sha, "siblings": siblings, "tags": []})
            elif len(parts) > 4 and parts[2] == "resolve":
                repository, name = "/".join(parts[:2]), "/".join(parts[4:])
                sha = self._commit_of(repository, parts[3])
                if sha is None:
                    return
                content = hub.repositories[repository][sha].get(name)
                if content is None:
                    self._missing("EntryNotFound")
                else:
                    self._send(200, content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit=sha)
            else:
                self._missing("RepoNotFound")

        do_HEAD = do_GET

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length")
            body = self.rfile.read(int(length)) if length else self._chunks()
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._json({"error": "Unauthorized"}, 401)
                return
            parts = unquote(self.path).partition("?")[0].strip("/").split("/")
            if parts == ["api", "repos", "create"]:
                asked = json.loads(body)
                owner = asked.get("organization") or "me"
                repository = f"{owner}/{asked['name']}"
                if repository in hub.repositories:
                    self._json({"error": "already there", "url": f"{hub.address}/{repository}"}, 409)
                    return
                hub.private[repository] = asked.get("private") or asked.get("visibility") == "private"
                hub.commit(repository, {".gitattributes": b""})
                self._json({"url": f"{hub.address}/{repository}"})
            elif parts == ["api", "validate-yaml"]:
                self._json({"errors": [], "warnings": []})
            elif len(parts) > 4 and parts[4] == "preupload":
                files = [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for file in json.loads(body)["files"]
                ]
                self._json({"files": files})
            elif len(parts) > 4 and parts[4] == "commit":
                repository = "/".join(parts[2:4])
                files = dict(hub.newest(repository))
                for line in body.splitlines():
                    change = json.loads(line)
                    if change["key"] == "file":
                        files[change["value"]["path"]] = base64.b64decode(change["value"]["content"])
                    elif change["key"] == "deletedFile":
                        del files[change["value"]["path"]]
                sha = hub.commit(repository, files)
                url = f"{hub.address}/{repository}/commit/{sha}"
                self._json({"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})
            else:
                self._missing("RepoNotFound")

        def _chunks(self) -> bytes:
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found

    return Handler


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """A stand-in that answers on 127.0.0.1 as long as the block runs."""
    hub = StandIn()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
