"""Certificates of one cluster, made with openssl."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

DAYS = "365"


def openssl(*args: str) -> None:
    done = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(args)}: {done.stderr.strip()}")


class Authority:
    """A CA in a directory, and the leaves that it signed: NAME.crt and NAME.key.

    An RSA key in PKCS#1 and alternative names on the CA itself are what the operators' certificate
    rotators insist on before they leave certificates alone.
    """

    def __init__(self, directory: Path, rsa: bool = False, names: str = ""):
        self.directory = directory
        directory.mkdir(parents=True)
        if rsa:
            openssl("genrsa", "-traditional", "-out", str(self.key("ca")), "2048")
        else:
            self.make_key("ca")
        extensions = ["basicConstraints=critical,CA:TRUE",
                      "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"]
        if names:
            extensions.append(f"subjectAltName={names}")
        openssl("req", "-x509", "-new", "-key", str(self.key("ca")), "-sha256", "-days", DAYS,
                "-subj", f"/CN={directory.name}-ca", "-out", str(self.crt("ca")),
                *(part for text in extensions for part in ("-addext", text)))

    def crt(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def text(self, path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    def make_key(self, name: str) -> None:
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(self.key(name)))

    def leaf(self, name: str, subject: str, usage: str, names: str = "") -> None:
        self.make_key(name)
        request, extensions = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        openssl("req", "-new", "-key", str(self.key(name)), "-subj", subject, "-out", str(request))
        extensions.write_text(
            f"basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage={usage}\n"
            + (f"subjectAltName={names}\n" if names else "")
        )
        openssl("x509", "-req", "-in", str(request), "-CA", str(self.crt("ca")), "-CAkey",
                str(self.key("ca")), "-CAcreateserial", "-days", DAYS, "-sha256", "-extfile",
                str(extensions), "-out", str(self.crt(name)))

    def pair(self, name: str) -> None:
        """A bare RSA pair, NAME.key and NAME.pub: for tokens of service accounts."""
        openssl("genrsa", "-out", str(self.key(name)), "2048")
        openssl("rsa", "-in", str(self.key(name)), "-pubout", "-out",
                str(self.directory / f"{name}.pub"))

    def kubeconfig(self, server: str, user: dict, namespace: str = "default") -> str:
        """A kubeconfig as YAML (written as JSON, which is YAML too)."""
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": server, "certificate-authority-data": self.text(self.crt("ca"))}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {
                "cluster": "test", "user": "test", "namespace": namespace}}],
        }, indent=1)

    def client(self, name: str) -> dict:
        """The user of a kubeconfig that shows the leaf `name`."""
        return {"client-certificate-data": self.text(self.crt(name)),
                "client-key-data": self.text(self.key(name))}
