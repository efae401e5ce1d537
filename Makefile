# Every target first does the set-up that is missing; nothing is done twice. ARGS goes to the program. check and test take
# ISA=sse4.2, avx2 or avx512 as well: the instruction set that all libraries are told to use (tests/isa.py).
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo digits pages test test-gpu prove-gpu faults bench bench-gpu lint check
in_project := . ./env.sh &&
fast := not program and not slow and not torch and not browser and not gpu
pytest := $(if $(ISA),python -m tests.isa $(ISA) )python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal
lint := ruff check --quiet . && ruff format --check --quiet . && lint-imports --no-cache

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup:  ## install packages, the virtual environment (.venv) and Caffe (.caffe)
	@bash tools/setup.sh

demo: setup  ## discover latent domains in embedded data: two minutes, no download
	@$(in_project) python -m tools.demo $(ARGS)

digits: setup  ## Table 1 of the paper: MNIST and MNIST-M to USPS, with the paper's numbers; hours
	@$(in_project) snakemake tables/digits --cores all $(ARGS)

pages: setup  ## write the numbers of the kept records into docs/ and results/
	@$(in_project) python -m tools.pages $(ARGS)

# A module is compiled once, and not by each of the processes that the tests start, whatever the environment says.
check test: export PYTHONDONTWRITEBYTECODE :=
check test: export PYTHONPYCACHEPREFIX := $(CURDIR)/.build/pycache

check: setup  ## lint, then the tests that start no program and train nothing: a minute
	@$(in_project) $(lint) && $(pytest) -m "$(fast)" $(ARGS)

test:  ## lint, then the whole test suite
	@bash tools/setup.sh torch
	@$(in_project) $(lint) && $(pytest) $(ARGS)

# These three need a Caffe with CUDA (CAFFE_VARIANT=cuda make setup, or the image; see docs/gpu.md).
test-gpu: setup  ## the tests that need a GPU, on a GPU
	@$(in_project) REQUIRE_GPU=1 CAFFE_CUDNN_DETERMINISTIC=1 python -m pytest -m "gpu and not torch and not browser" $(ARGS)

prove-gpu: setup  ## on a GPU: tests, speeds, memory check and trainings, in about ten minutes
	@$(in_project) tests/prove_gpu.sh $(ARGS)

faults: setup  ## 200 commands whose files are missing or damaged, on full disks, killed: many minutes
	@$(in_project) python -m tests.faults $(ARGS)

bench: setup  ## measure layers and nets, and compare with BatchNorm and PyTorch (tools/setup.sh torch)
	@$(in_project) python -m tools.bench $(ARGS)

bench-gpu: setup  ## measure layers and nets on a GPU, and compare with copies, BatchNorm and PyTorch
	@$(in_project) python -m tools.bench --gpu 0 $(ARGS)

lint: setup  ## style, format, and the floors of the library
	@$(in_project) $(lint)
