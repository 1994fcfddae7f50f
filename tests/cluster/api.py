"""A small client of the Kubernetes API: plain HTTPS and JSON, nothing beyond Python's library."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
import urllib.parse
from pathlib import Path

REQUEST_LIMIT_S = 60  # a loaded machine: the server itself is given up on by its own limits
POLL_S = 0.05

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ApiError(Exception):
    """The server's refusal: `code`, `reason` and its words."""

    def __init__(self, what: str, code: int, body: dict):
        self.code = code
        self.reason = body.get("reason", "")
        self.message = body.get("message", "")
        super().__init__(f"{what}: {code} {self.reason}: {self.message}")


class Gone(Exception):
    """A watch cannot go on from where it was; list again."""


class Api:
    def __init__(self, host: str, port: int, ca: Path, *, cert: Path | None = None,
                 key: Path | None = None, token: str = ""):
        self.host, self.port = host, port
        self.tls = ssl.create_default_context(cafile=str(ca))
        if cert:
            self.tls.load_cert_chain(cert, key)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.kinds: dict[str, dict[str, tuple[str, bool]]] = {}
        self.kept = threading.local()

    def link(self, limit_s: float | None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=limit_s)

    def send(self, link: http.client.HTTPSConnection, method: str, path: str, body=None, *,
             kind: str = "application/json", accept: str = "application/json", **query):
        """The answer, not yet read; of a refusal nothing is left to read."""
        query = {name: value for name, value in query.items() if value is not None}
        target = path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        link.request(method, target, data,
                     {"Content-Type": kind, "Accept": accept, **self.headers})
        answer = link.getresponse()
        if answer.status >= 400:
            text = answer.read()
            try:
                reason = json.loads(text)
            except ValueError:
                reason = {"message": text.decode(errors="replace")}
            raise ApiError(f"{method} {target}", answer.status, reason)
        return answer

    def open(self, method: str, path: str, body=None, *,
             limit_s: float | None = REQUEST_LIMIT_S, **options):
        """Sends one request; the answer, not yet read, and its connection."""
        link = self.link(limit_s)
        try:
            return self.send(link, method, path, body, **options), contextlib.closing(link)
        except BaseException:
            link.close()
            raise

    def ask(self, path: str, **options) -> bytes:
        """A GET on a connection that this thread keeps: most requests poll, and a handshake costs
        more than they do."""
        kept = getattr(self.kept, "link", None)
        link = self.kept.link = kept or self.link(REQUEST_LIMIT_S)
        try:
            return self.send(link, "GET", path, **options).read()
        except ApiError:
            raise
        except BaseException as error:
            link.close()
            self.kept.link = None
            if kept and isinstance(error, (ConnectionError, ssl.SSLError)):  # closed meanwhile
                return self.ask(path, **options)
            raise

    def request(self, method: str, path: str, body=None, **options):
        if method == "GET":
            return json.loads(self.ask(path, **options) or b"{}")
        answer, link = self.open(method, path, body, **options)
        with link:
            return json.loads(answer.read() or b"{}")

    def text(self, path: str, **options) -> str:
        answer, link = self.open("GET", path, accept="*/*", **options)
        with link:
            return answer.read().decode(errors="replace")

    # Objects

    def path(self, api_version: str, kind: str, namespace: str = "", name: str = "",
             sub: str = "") -> str:
        plural, namespaced = self.plural(api_version, kind)
        root = "/api/" if "/" not in api_version else "/apis/"
        parts = [root + api_version]
        if namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/".join(parts + [plural] + [part for part in (name, sub) if part])

    def plural(self, api_version: str, kind: str) -> tuple[str, bool]:
        if kind not in self.kinds.get(api_version, {}):
            root = "/api/" if "/" not in api_version else "/apis/"
            found = self.request("GET", root + api_version)["resources"]
            self.kinds[api_version] = {
                entry["kind"]: (entry["name"], entry["namespaced"])
                for entry in found if "/" not in entry["name"]
            }
        return self.kinds[api_version][kind]

    def serves(self, api_version: str, kind: str) -> bool:
        try:
            self.plural(api_version, kind)
            return True
        except (ApiError, KeyError):
            return False

    def path_of(self, thing: dict, namespace: str = "default", named: bool = True) -> str:
        meta = thing["metadata"]
        return self.path(thing["apiVersion"], thing["kind"], meta.get("namespace", namespace),
                         meta["name"] if named else "")

    def create(self, thing: dict, namespace: str = "default", **query) -> dict:
        return self.request("POST", self.path_of(thing, namespace, named=False), thing, **query)

    def apply(self, thing: dict, namespace: str = "default", **query) -> dict:
        query = {"fieldManager": "tests", "force": "true", **query}
        return self.request("PATCH", self.path_of(thing, namespace), thing, kind=APPLY, **query)

    def get(self, api_version: str, kind: str, name: str,
            namespace: str = "default") -> dict | None:
        try:
            return self.request("GET", self.path(api_version, kind, namespace, name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, api_version: str, kind: str, namespace: str = "default", **query) -> list[dict]:
        return self.request("GET", self.path(api_version, kind, namespace), **query)["items"]

    def delete(self, api_version: str, kind: str, name: str, namespace: str = "default",
               **options) -> None:
        """Deletes; that it is not there is fine."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        try:
            self.request("DELETE", self.path(api_version, kind, namespace, name), body)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def watch(self, path: str, version: str, limit_s: float = 300, **query):
        """Yields (type, object) from `version` on until the server ends the watch."""
        answer, link = self.open("GET", path, limit_s=limit_s + REQUEST_LIMIT_S, watch="true",
                                 resourceVersion=version, timeoutSeconds=int(limit_s),
                                 allowWatchBookmarks="true", **query)
        with link:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Gone(event["object"].get("message", ""))
                yield event["type"], event["object"]

    def wait(self, condition, what: str, limit_s: float = 180):
        """Polls until `condition()` gives something true, and returns it."""
        deadline = time.monotonic() + limit_s
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: did not happen within {limit_s} s")
            time.sleep(POLL_S)


def condition_of(thing: dict | None, kind: str) -> str:
    """The status of a condition, "" when the object has none of that kind."""
    for condition in ((thing or {}).get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind:  # those of a Volcano Job have none
            return condition["status"]
    return ""
