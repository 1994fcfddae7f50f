# `make` builds build/shanty; everything else builds on that. See README.md.
SHELL := /bin/bash
PYTHON := build/venv/bin/python
JOBS ?= $(shell nproc)

.PHONY: all setup packages demo test unit bench bench-ckpt bench-doctor bench-peers fuzz soak asan tsan format lint clean

all: packages
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS) --target shanty

packages:
	@SHANTY_SETUP_PYTHON=0 scripts/setup.sh

setup:
	@scripts/setup.sh

demo: setup all
	@$(PYTHON) examples/demo.py

test: packages
	@scripts/test.sh

bench: setup all
	@$(PYTHON) bench/bench.py

# Checkpoints beside their peers; needs fio for the ceilings of the disk.
bench-ckpt: setup all
	@$(PYTHON) bench/ckpt.py

# How fast the doctor reads logs, beside grep and ripgrep; Flight Recorder dumps beside PyTorch's analyser.
bench-doctor: setup all
	@SHANTY_SETUP_PYTHON=0 scripts/setup.sh packages-bench.txt || true
	@$(PYTHON) bench/doctor.py
	@$(PYTHON) bench/doctor_flight.py --large

# Peers that are not in build/venv; see bench/peers.txt.
bench-peers: setup
	@$(PYTHON) -m pip install -q --no-deps --upgrade --target build/bench-peers -r bench/peers.txt

fuzz:
	@SHANTY_SETUP_PYTHON=0 scripts/setup.sh packages-fuzz.txt
	@scripts/fuzz.sh

# A million random schedules of the gang; a failing seed is printed and replays with --seed.
soak: packages
	@cmake --preset release >/dev/null
	@cmake --build build -j $(JOBS) --target gang_soak
	@build/tests/gang_soak

# Unit tests under the sanitizers; `asan` shares its build with `fuzz`.
asan: PACKAGES = packages-fuzz.txt
asan tsan:
	@SHANTY_SETUP_PYTHON=0 scripts/setup.sh $(PACKAGES)
	@cmake --preset $@ >/dev/null
	@cmake --build build/$@ -j $(JOBS)
	@scripts/unit.sh build/$@

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format-19 -i

clean:
	rm -rf build/CMakeFiles build/tests build/shanty build/dev build/asan build/tsan
