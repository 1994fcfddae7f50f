#!/usr/bin/env bash
# Installs what is missing: Debian packages from packages.txt (and further lists given as
# arguments) and the Python environment build/venv from requirements.lock. Quick when nothing is.
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

# An environment whose python has torch, numpy, pytest and safetensors is taken as it is. A system Python that
# has a usable torch lends it to the environment.
usable() {
  "$1" -c 'import numpy, torch, pytest, safetensors; assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 1)' \
    >/dev/null 2>&1
}

# One that has torch gets the small rest.
complete() {
  usable "$1" && return 0
  "$1" -c 'import torch' >/dev/null 2>&1 || return 1
  "$1" -m pip install -q --disable-pip-version-check $(grep -E '^(numpy|pytest|safetensors)==' requirements.lock)
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

install_packages packages.txt "$@"
if [ "${SHANTY_SETUP_PYTHON:-1}" = 1 ]; then make_environment; fi
