/* glibc's header of this name, for nvcc, without the functions of C23. Since glibc 2.41 they are declared noexcept, sinpi,
 * cospi and (2.42) rsqrt among them, which CUDA's own headers declare without, up to 12.8: no file would compile. */
#undef __GLIBC_USE_IEC_60559_FUNCS_EXT_C23
#define __GLIBC_USE_IEC_60559_FUNCS_EXT_C23 0
#include_next <bits/mathcalls.h>
