#!/usr/bin/env bash
# Builds etcd, the parts of Kubernetes and the operators that tests/cluster runs, into a cache outside
# the tree. Quick when nothing is missing; never fails (see tests/cluster/README.md). Arguments: names
# of modules in tests/cluster/go; all of them when there is none.
set -uo pipefail
cd "$(dirname "$0")/.."
if [ "${SHANTY_CLUSTER_TESTS:-on}" = off ]; then exit 0; fi
exec python3 tests/cluster/build.py "$@"
