// What a compiled kernel source shows of itself, to the runtime and (by ctypes) to emulator.py.
#pragma once

namespace cuda_on_cpu {

struct Kernel {
  const char* name;
  const char* parameters;           // "const float32*,int64": the types the compiler saw
  void (*run)(void** arguments);    // one thread's work; every argument is passed by its address
  unsigned most_threads;            // __launch_bounds__, or 0
};

struct Module {
  const Kernel* kernels;            // the last one has no name
  char* image;                      // what the loader mapped begins here,
  char* shared;                     // here begin the __shared__ variables of all its kernels,
  char* end;                        // and here both end
};

}  // namespace cuda_on_cpu
