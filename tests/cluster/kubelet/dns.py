"""The cluster's DNS: answers from Services and EndpointSlices, asked of the server each time."""

from __future__ import annotations

import socket
import socketserver
import struct

from ..api import Api, ApiError

A, AAAA, IN = 1, 28, 1
NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME = 0, 2, 3
TTL_S = 1
ZONE = ["svc", "cluster", "local"]


def lookup(api: Api, labels: list[str]) -> list[str] | None:
    """The addresses of a name in the cluster's zone; None when there is no such name."""
    if labels[-3:] != ZONE or len(labels) not in (5, 6):
        return None
    *host, service, namespace = labels[:-3]
    found = api.get("v1", "Service", service, namespace)
    if found is None:
        return None
    if found["spec"].get("clusterIP", "None") != "None":
        return [] if host else [found["spec"]["clusterIP"]]
    unready = found["spec"].get("publishNotReadyAddresses", False)
    slices = api.list("discovery.k8s.io/v1", "EndpointSlice", namespace,
                      labelSelector=f"kubernetes.io/service-name={service}")
    addresses = [
        address
        for part in slices
        for endpoint in part.get("endpoints") or []
        if (unready or endpoint.get("conditions", {}).get("ready", True))
        and (not host or endpoint.get("hostname") == host[0])
        for address in endpoint["addresses"]
    ]
    return addresses or None


def parse_question(packet: bytes) -> tuple[list[str], int, int]:
    """The labels, the type, and where the question ends."""
    labels, at = [], 12
    while packet[at]:
        size = packet[at]
        if size > 63:
            raise ValueError("a compressed question")
        labels.append(packet[at + 1:at + 1 + size].decode("ascii").lower())
        at += 1 + size
    kind, _ = struct.unpack("!HH", packet[at + 1:at + 5])
    return labels, kind, at + 5


def answer(api: Api, packet: bytes) -> bytes:
    labels, kind, end = parse_question(packet)
    try:
        addresses, code = lookup(api, labels), NO_ERROR
    except (ApiError, OSError):
        addresses, code = [], SERVER_FAILURE
    if addresses is None:
        addresses, code = [], NO_SUCH_NAME
    if kind != A:
        addresses = []
    flags = 0x8580 | code  # an authoritative answer, recursion available
    head = packet[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
    records = b"".join(
        struct.pack("!HHHIH", 0xC00C, A, IN, TTL_S, 4) + socket.inet_aton(address)
        for address in addresses
    )
    return head + packet[12:end] + records


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        packet, link = self.request
        try:
            link.sendto(answer(self.server.api, packet), self.client_address)
        except (ValueError, IndexError, struct.error):
            pass  # not a question


class Dns(socketserver.ThreadingUDPServer):
    daemon_threads = True

    def __init__(self, api: Api, address: str):
        self.api = api
        super().__init__((address, 53), Handler)
