"""The kernels of `counterrank.training.gpu` on the CPU: `sgd.cu`, compiled with a C++ compiler and `cuda_on_cpu.h`."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from counterrank.training.gpu import SOURCE, THREADS, Kernel, Limits

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

LIMITS = Limits(4, 227 * 1024)
KERNELS = tuple(
    Kernel(group, is_metric, is_spilled)
    for is_metric in (False, True)
    for group, is_spilled in ((8, False), (16, False), (32, False), (8, True))
)


def name_of(kernel: Kernel) -> str:
    """As in sgd.cu."""
    return f"{'metric' if kernel.is_metric else 'train'}_{kernel.group}{'_spilled' if kernel.is_spilled else ''}"


@cache
def library() -> ctypes.CDLL:
    """The compiled kernels; kept in the folder for temporary files by what they were made of."""
    kernel_type = "void (*)(const void *)"
    cases = "".join(
        f'    if (!strcmp(name, "{name}")) kernel = reinterpret_cast<{kernel_type}>({name});\n'
        for name in map(name_of, KERNELS)
    )
    main = (
        f'#include "{SOURCE}"\n#include <cstring>\n'
        'extern "C" int launch(const char *name, int blocks, int threads, size_t shared, const void *argument,\n'
        "                      unsigned schedule) {\n    void (*kernel)(const void *) = nullptr;\n"
        f"{cases}    if (kernel == nullptr) return 1;\n"
        "    cuda_on_cpu::launch(kernel, blocks, threads, shared, argument, schedule);\n    return 0;\n}\n"
    )
    parts = (main.encode(), SOURCE.read_bytes(), HEADER.read_bytes())
    digest = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    built = Path(tempfile.gettempdir(), f"counterrank-cuda-on-cpu-{os.getuid()}-{digest}.so")
    if not built.exists():
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder, "main.cpp"), Path(folder, "main.so")
            source.write_text(main)
            options = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC", "-w", f"-I{HEADER.parent}"]
            subprocess.run([str(COMPILER), *options, str(source), "-o", str(made)], check=True)
            shutil.copy(made, built.with_suffix(f".{os.getpid()}"))
            os.replace(built.with_suffix(f".{os.getpid()}"), built)
    return ctypes.CDLL(str(built))


class HostBuffer(NamedTuple):
    """Memory that begins at a multiple of 256 bytes."""

    array: Any

    @property
    def pointer(self) -> int:
        """Its address."""
        return int(self.array.ctypes.data)


class CpuBackend:
    """Runs kernels on the CPU; by `schedule`, of the threads that can go on the first (0), the last (1) or any does."""

    def __init__(self, limits: Limits = LIMITS, schedule: int = 0) -> None:
        self.limits = limits
        self.schedule = schedule
        self.launches: list[tuple[Kernel, int]] = []

    def put(self, array: Any) -> HostBuffer:
        """A copy."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer = self.empty(len(flat))
        buffer.array[:] = flat
        return buffer

    def empty(self, n_bytes: int) -> HostBuffer:
        """Memory full of NaN."""
        raw = np.full(n_bytes + 256, 0xFF, np.uint8)
        begin = -raw.ctypes.data % 256
        return HostBuffer(raw[begin : begin + n_bytes])

    def get(self, buffer: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
        """A copy."""
        return buffer.array.copy().view(dtype).reshape(shape)

    def launch(self, kernel: Kernel, blocks: int, shared_bytes: int, launch: Any) -> None:
        """Run the kernel."""
        assert shared_bytes <= self.limits.shared_bytes
        self.launches.append((kernel, blocks))
        arguments = (blocks, THREADS, ctypes.c_size_t(shared_bytes), ctypes.c_void_p(launch.pointer), self.schedule)
        assert library().launch(name_of(kernel).encode(), *arguments) == 0
