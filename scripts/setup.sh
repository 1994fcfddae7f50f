#!/usr/bin/env bash
# Installs what is missing: Debian packages from packages.txt (and further lists given as
# arguments), the sources of cmake/grammars.txt into build/grammars, and the Python environment
# build/venv from requirements.lock. Quick when nothing is.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else
    echo "setup: need root or sudo to run: $*" >&2
    return 1
  fi
}

missing_packages() {
  local package
  grep -hv '^#' "$@" | while read -r package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

install_packages() {
  local missing
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  echo "setup: installing $(echo "$missing" | tr '\n' ' ')"
  as_root apt-get update -qq
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    $missing >/dev/null
}

# An environment whose python has torch, numpy, pytest, safetensors and yaml is taken as it is. A system Python that
# has a usable torch lends it to the environment.
usable() {
  "$1" -c 'import numpy, torch, pytest, safetensors, yaml; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 1)' \
    >/dev/null 2>&1
}

# One that has torch gets the small rest.
complete() {
  usable "$1" && return 0
  "$1" -c 'import torch' >/dev/null 2>&1 || return 1
  "$1" -m pip install -q --disable-pip-version-check $(grep -E '^(numpy|pytest|PyYAML|safetensors)==' requirements.lock)
  usable "$1"
}

make_environment() {
  local stamp=build/venv/.complete
  [ -e "$stamp" ] && [ "$stamp" -nt requirements.lock ] && [ -x build/venv/bin/python ] && return 0
  mkdir -p build
  if [ -x build/venv/bin/python ]; then
    complete build/venv/bin/python && touch "$stamp" && return 0
    rm -rf build/venv
  fi
  if python3 -c 'import torch' >/dev/null 2>&1; then
    python3 -m venv --system-site-packages build/venv
    complete build/venv/bin/python && touch "$stamp" && return 0
    rm -rf build/venv
  fi
  echo "setup: making build/venv with torch (about 5 GB)"
  python3 -m venv build/venv
  build/venv/bin/pip install -q --disable-pip-version-check -r requirements.lock
  touch "$stamp"
}

# Source packages, each checked against its hash by pip, unpacked without their version. The
# archives stay, so that a second unpacking needs no network.
fetch_grammars() {
  local to=build/grammars stamp=build/grammars/.complete archive name
  [ -e "$stamp" ] && cmp -s "$stamp" cmake/grammars.txt && return 0
  echo "setup: fetching the grammars of cmake/grammars.txt"
  rm -f "$stamp"
  mkdir -p "$to/archives"
  grammar_archives_are_whole || download_grammars "$to"
  while read -r name _; do
    archive=$(ls "$to/archives" | grep -E "^${name%%==*}-${name##*==}\.tar\.gz$" ||
              ls "$to/archives" | grep -E "^$(tr - _ <<<"${name%%==*}")-${name##*==}\.tar\.gz$")
    rm -rf "$to/${name%%==*}"
    mkdir -p "$to/${name%%==*}"
    tar -xzf "$to/archives/$archive" -C "$to/${name%%==*}" --strip-components=1
  done < <(grep -v '^#' cmake/grammars.txt)
  cp cmake/grammars.txt "$stamp"
}

grammar_archives_are_whole() {
  local hash
  for hash in $(grep -o 'sha256:[0-9a-f]*' cmake/grammars.txt); do
    sha256sum build/grammars/archives/*.tar.gz 2>/dev/null | grep -q "^${hash#sha256:} " || return 1
  done
}

download_grammars() {
  local python=python3
  if ! python3 -m pip --version >/dev/null 2>&1; then
    python3 -m venv "$1/venv"
    python="$1/venv/bin/python"
  fi
  "$python" -m pip download -q --disable-pip-version-check --no-binary :all: --no-deps \
    --require-hashes -r cmake/grammars.txt -d "$1/archives"
  rm -rf "${1:?}/venv"
}

install_packages packages.txt "$@"
fetch_grammars
if [ "${SHANTY_SETUP_PYTHON:-1}" = 1 ]; then make_environment; fi
