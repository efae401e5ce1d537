"""Run a command as on a processor with another instruction set: python -m tests.isa avx2 COMMAND…

``make test ISA=avx2`` and ``make check ISA=avx2`` start pytest by it. Each library in use has a variable of its own,
read as it is loaded; ``test_isa.py`` asks them all whether they obeyed. These have none, and take what the processor
has: ONNX Runtime (MLAS) everywhere, PyTorch's MKL on processors that are not Intel's. libjpeg-turbo gives the same bits
with every set.
"""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Isa:
    """An instruction set: what it needs, the variables that ask for it, and those that leave out what goes beyond."""

    flags: str  # of /proc/cpuinfo
    asked: dict[str, str]
    left_out: dict[str, str]  # by the sets below it, on a processor that has it


IS_X86 = platform.machine() == "x86_64"

_SEPARATORS = {"GLIBC_TUNABLES": ",-", "NPY_DISABLE_CPU_FEATURES": " ", "OPENCV_CPU_DISABLE": ","}

ISAS = {
    "sse4.2": Isa(
        "sse4_2 popcnt ssse3",
        {
            "OPENBLAS_CORETYPE": "Nehalem",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "ATEN_CPU_CAPABILITY": "default",
            "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
            "NUMBA_CPU_NAME": "x86-64-v2",
        },
        {},
    ),
    "avx2": Isa(
        "avx avx2 fma f16c bmi1 bmi2 abm movbe",
        {
            "OPENBLAS_CORETYPE": "Haswell",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "ATEN_CPU_CAPABILITY": "avx2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "NUMBA_CPU_NAME": "x86-64-v3",
        },
        {
            # The C library's, and with it Caffe's own loops (docker/patches/14-1-threads.patch).
            "GLIBC_TUNABLES": "AVX AVX2 FMA FMA4 BMI1 BMI2 LZCNT MOVBE",
            "NPY_DISABLE_CPU_FEATURES": "X86_V3",
            "OPENCV_CPU_DISABLE": "AVX FP16 AVX2 FMA3",
        },
    ),
    "avx512": Isa(
        "avx512f avx512bw avx512cd avx512dq avx512vl",
        {
            "OPENBLAS_CORETYPE": "SkylakeX",
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
            "ATEN_CPU_CAPABILITY": "avx512",
            "MKL_ENABLE_INSTRUCTIONS": "AVX512",
            "NUMBA_CPU_NAME": "x86-64-v4",
        },
        {
            "GLIBC_TUNABLES": "AVX512F AVX512BW AVX512CD AVX512DQ AVX512VL",
            "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
            "OPENCV_CPU_DISABLE": "AVX512-SKX",
        },
    ),
}


def flags() -> set[str]:
    """What the processor has, as /proc/cpuinfo names it; nothing if it is no x86."""
    if not IS_X86:  # an emulator may show the cpuinfo of its host
        return set()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line.split(":")[1] for line in lines if line.startswith("flags")), "").split())


def variables(name: str) -> dict[str, str]:
    """What the environment of a process says that is to use the instruction set ``name`` and nothing beyond it.

    Raises ValueError if there is no such set, or if the processor lacks it.
    """
    if name not in ISAS:
        raise ValueError(f"ISA={name}: expected one of {', '.join(ISAS)}")
    has = flags()
    known = [each for each, isa in ISAS.items() if has.issuperset(isa.flags.split())]
    if name not in known:
        lacks = sorted(set(ISAS[name].flags.split()) - has)
        raise ValueError(
            f"ISA={name}: this processor lacks {', '.join(lacks)}; it has {', '.join(known) or 'no such set'}"
        )
    left_out: dict[str, list[str]] = {}
    for each in known[known.index(name) + 1 :]:
        for variable, names in ISAS[each].left_out.items():
            left_out.setdefault(variable, []).extend(names.split())
    lists = {variable: _SEPARATORS[variable].join(names) for variable, names in left_out.items()}
    if "GLIBC_TUNABLES" in lists:
        lists["GLIBC_TUNABLES"] = f"glibc.cpu.hwcaps=-{lists['GLIBC_TUNABLES']}"
    # Without features of its own numba adds the processor's to the name's.
    return {"ISA": name, "NUMBA_CPU_FEATURES": "", **ISAS[name].asked, **lists}


def environment(name: str) -> dict[str, str]:
    """This process's environment, with the instruction set ``name`` in place of one it was started for."""
    said = {key for isa in ISAS.values() for key in (*isa.asked, *isa.left_out)} if "ISA" in os.environ else ()
    return {key: value for key, value in os.environ.items() if key not in said} | variables(name)


def main() -> None:
    """Become the command, after the layers' kernels were compiled for the instruction set."""
    name, *command = sys.argv[1:]
    try:
        chosen = environment(name)
    except ValueError as error:
        sys.exit(str(error))
    load = "from caffe_layers import _kernel_cache; _kernel_cache.load_all()"
    subprocess.run([sys.executable, "-c", load], env=chosen, check=True)
    os.execvpe(command[0], command, chosen)  # noqa: S606


if __name__ == "__main__":
    main()
