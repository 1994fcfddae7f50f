#!/usr/bin/env bash
# Unpacks Slurm's Debian packages into build/slurm, for tests/test_slurm.py: nothing is installed and
# no daemon starts. Quick when it is there; never fails, as the tests say what they miss.
set -uo pipefail
cd "$(dirname "$0")/.."
PACKAGES=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libhwloc15 liblua5.1-0)
if [ -e build/slurm/complete ] || ! command -v apt-get >/dev/null; then exit 0; fi

download() { (cd build/slurm/packages && apt-get download -qq "${PACKAGES[@]}" >/dev/null 2>&1); }
unpack() {
  local package
  for package in build/slurm/packages/*.deb; do dpkg-deb -x "$package" build/slurm || return; done
}

echo "slurm: unpacking ${PACKAGES[*]}"
rm -rf build/slurm
mkdir -p build/slurm/packages
if download || { [ "$(id -u)" = 0 ] && apt-get update -qq && download; }; then
  unpack && touch build/slurm/complete
fi
rm -rf build/slurm/packages
exit 0
