"""A TCP proxy before a server, whose connections can be cut or fall silent."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

PIECE_BYTES = 1 << 16
LOOK_S = 0.05


class Door:
    """Listens on `port` of the loopback and passes all on to `target`, unless told otherwise."""

    def __init__(self, target: tuple[str, int], port: int = 0):
        self.target, self.lock, self.open = target, threading.Lock(), True
        self.silent = threading.Event()
        self.ended = threading.Event()
        self.links: set[socket.socket] = set()
        self.listener = self.listen(port)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @staticmethod
    def listen(port: int) -> socket.socket:
        return socket.create_server(("127.0.0.1", port), backlog=64)

    def cut(self) -> None:
        """Resets all connections and refuses new ones."""
        with self.lock:
            self.open = False
            self.listener.close()
            links, self.links = self.links, set()
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self.lock:
            self.listener, self.open = self.listen(self.port), True
        self.silent.clear()

    def close(self) -> None:
        self.ended.set()
        self.cut()
        self.thread.join()

    def serve(self) -> None:
        while not self.ended.is_set():
            try:
                self.listener.settimeout(LOOK_S)
                link, _ = self.listener.accept()
            except OSError:
                self.ended.wait(LOOK_S)
                continue
            threading.Thread(target=self.carry, args=(link,), daemon=True).start()

    def carry(self, link: socket.socket) -> None:
        try:
            other = socket.create_connection(self.target, timeout=5)
        except OSError:
            link.close()
            return
        with self.lock:
            if not self.open:
                link.close()
                other.close()
                return
            self.links |= {link, other}
        with link, other, contextlib.suppress(OSError), selectors.DefaultSelector() as ready:
            ready.register(link, selectors.EVENT_READ, other)
            ready.register(other, selectors.EVENT_READ, link)
            while True:
                if self.silent.is_set():
                    if self.ended.wait(LOOK_S):
                        break
                    continue
                for key, _ in ready.select(LOOK_S):
                    piece = key.fileobj.recv(PIECE_BYTES)
                    if not piece:
                        return
                    key.data.settimeout(5)
                    key.data.sendall(piece)
        with self.lock:
            self.links -= {link, other}
