# Every target first does the set-up that is missing; nothing is done twice. ARGS goes to the program.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo digits test test-gpu bench bench-gpu lint
in_project := . ./env.sh &&

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup:  ## install packages, the virtual environment (.venv) and Caffe (.caffe)
	@tools/setup.sh

demo: setup  ## discover latent domains in embedded data: a few minutes, no download
	@$(in_project) python -m tools.demo $(ARGS)

digits: setup  ## MNIST and MNIST-M to USPS, beside the paper's numbers
	@$(in_project) python -m tools.digits $(ARGS)

test:  ## ruff, then the whole test suite
	@tools/setup.sh torch
	@$(in_project) ruff check . && python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal $(ARGS)

# On a GPU the environment is the user's: a Caffe built with CUDA, and CuPy (see docs/gpu.md). Nothing is installed.
test-gpu:  ## the layers' tests on a GPU, in the environment that is active
	@REQUIRE_GPU=1 python -m pytest -m gpu $(ARGS) tests/caffe_layers

bench: setup  ## how fast the layers are, beside Caffe's BatchNorm and plain memory traffic
	@$(in_project) python -m tools.bench $(ARGS)

bench-gpu:  ## how fast the layers are on a GPU, beside a copy of the same bytes and Caffe's BatchNorm
	@python -m tools.bench.gpu $(ARGS)

lint: setup  ## ruff alone
	@$(in_project) ruff check .
