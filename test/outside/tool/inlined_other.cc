// SPDX-License-Identifier: Apache-2.0
// A part of inlined.cc, which is inlined there where programs are optimised when they are linked.
#include "test/outside/tool/inlined.h"

#include <cstdlib>
#include <cstring>

inline void *zeroed(size_t bytes)
{
    return std::memset(std::malloc(bytes), 0, bytes);
}

template <unsigned depth> inline char *nested(size_t bytes)
{
    return nested<depth - 1>(bytes + depth);
}

template <> inline char *nested<0>(size_t bytes)
{
    return static_cast<char *>(zeroed(bytes));
}

char *other_file(size_t bytes)
{
    return bytes % 2 ? nested<4>(bytes) : static_cast<char *>(std::calloc(bytes, 10));
}
