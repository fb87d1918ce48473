// Loops whose arrays of vectors must become registers.
#pragma once

/// Before a loop of constant length: unroll it completely.
#if defined(__clang__)
#define FT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FT_UNROLL _Pragma("GCC unroll 32")
#endif
