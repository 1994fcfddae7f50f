"""The kubelet's HTTPS port: containers' logs, also followed."""

from __future__ import annotations

import http.server
import ssl
import time
import urllib.parse
from pathlib import Path

POLL_S = 0.05
FOLLOW_LIMIT_S = 600
CHUNK_BYTES = 1 << 16


def last_lines(data: bytes, count: int) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[-count:] if count else [])


class Entries:
    """What launcher.py keeps of a container's output as the API gives it out."""

    def __init__(self, stamps: bool, since: bytes = b""):
        self.stamps, self.since = stamps, since
        self.rest, self.goes_on = b"", False

    def text(self, data: bytes) -> bytes:
        *entries, self.rest = (self.rest + data).split(b"\n")
        return b"".join(map(self.one, entries))

    def one(self, entry: bytes) -> bytes:
        stamp, _, tag, text = entry.split(b" ", 3)
        begins, self.goes_on = not self.goes_on, tag == b"P"
        if stamp < self.since:
            return b""
        return (stamp + b" " if self.stamps and begins else b"") + text + (
            b"" if self.goes_on else b"\n")


def since(query: dict) -> bytes:
    """The moment before which nothing is wanted, as entries are stamped."""
    if "sinceSeconds" in query:
        moment = time.gmtime(time.time() - int(query["sinceSeconds"]))
        return time.strftime("%Y-%m-%dT%H:%M:%S", moment).encode()
    return query.get("sinceTime", "").encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        path = [urllib.parse.unquote(part) for part in parts.path.strip("/").split("/")]
        query = {key: values[-1] for key, values in urllib.parse.parse_qs(parts.query).items()}
        if len(path) != 4 or path[0] != "containerLogs":
            self.send_error(404)
            return
        pod = self.server.kubelet.find(path[1], path[2])
        container = pod.container(path[3]) if pod else None
        log = container.log(query.get("previous") == "true") if container else None
        if log is None or not log.exists():
            self.send_error(404, f"no logs of {path[2]}/{path[3]}")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.send_log(log, query, container)
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send_log(self, log: Path, query: dict, container) -> None:
        entries = Entries(query.get("timestamps") == "true", since(query))
        with open(log, "rb") as file:
            data = entries.text(file.read())
            if "tailLines" in query:
                data = last_lines(data, int(query["tailLines"]))
            self.send_chunk(data[: int(query.get("limitBytes", len(data)))])
            deadline = time.monotonic() + FOLLOW_LIMIT_S
            while query.get("follow") == "true" and time.monotonic() < deadline:
                running = container.running and container.log() == log
                data = file.read(CHUNK_BYTES)
                self.send_chunk(entries.text(data))
                if not data and not running:
                    return
                if not data:
                    time.sleep(POLL_S)

    def send_chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()


class LogServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kubelet, address: str, port: int, cert: str, key: str):
        self.kubelet = kubelet
        super().__init__((address, port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.socket = context.wrap_socket(self.socket, server_side=True,
                                          do_handshake_on_connect=False)
