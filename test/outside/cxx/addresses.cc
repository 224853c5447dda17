// SPDX-License-Identifier: Apache-2.0 An executable at a fixed address that takes the addresses of
// malloc, free and operators new and delete: everybody then sees the addresses of its own jumps to
// them, and not those of the library. Proves that they are not taken for functions of the
// program's: blocks of operator new are the library's own, which it knows to be of operator new.
// Many programs are built so (python3, the compilers of gcc). OWN_MALLOC: the same in a program
// that does have a malloc of its own, and no libstdc++: then blocks are of that malloc. Exits with
// 77 where addresses are others after all.

#include "include/salloc/profile.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

#ifdef OWN_MALLOC
static int calls; // for a block of the test's size; the loader allocates, too

extern "C" void *__libc_malloc(std::size_t);
extern "C" void __libc_free(void *);

extern "C" void *malloc(std::size_t n)
{
    calls += n == 5003;
    return __libc_malloc(n);
}

extern "C" void free(void *p)
{
    __libc_free(p);
}
#endif

namespace
{

constexpr std::size_t size = 5003;

__attribute__((noinline)) bool is_low(void (*function)())
{
    return reinterpret_cast<std::uintptr_t>(function) < std::uintptr_t(1) << 32;
}

template <typename F> bool taken(F function)
{
    return is_low(reinterpret_cast<void (*)()>(function));
}

#ifndef OWN_MALLOC
int look(const salloc_profile_sample *sample, void *arg)
{
    if (sample->requested_size == size)
        *static_cast<int *>(arg) = sample->kind;
    return 0;
}
#endif

} // namespace

int main()
{
    if (!taken(malloc) || !taken(free) || !taken(calloc) || !taken(realloc) ||
        !taken(static_cast<void *(*)(std::size_t)>(operator new)) ||
        !taken(static_cast<void (*)(void *)>(operator delete))) {
        std::printf("the addresses are those of the functions\n");
        return 77;
    }
#ifdef OWN_MALLOC
    ::operator delete(::operator new(size), size);
    std::printf("%d calls of malloc\n", calls);
    return calls != 1;
#else
    salloc_profile_token *token = salloc_start_allocation_profile();
    ::operator delete(::operator new(size), size);
    salloc_profile *profile = salloc_profile_token_stop(token);
    int kind = -1;

    if (!profile || salloc_profile_iterate(profile, look, &kind) != 0)
        return 2;
    salloc_profile_free(profile);
    std::printf("a block of operator new is of kind %d\n", kind);
    return kind != SALLOC_KIND_NEW;
#endif
}
