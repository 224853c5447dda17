/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that allocate and free for private.cc, one of each kind. The program has a copy, and so
 * has each of its plugins. */
#include "test/outside/mismatch/sides.hh"

#include <cstdlib>
#include <new>

namespace
{

/* The call before it is no jump: the callee's caller is this object. */
#define NO_TAIL_CALL() __asm__ volatile("" : : : "memory")

constexpr auto alignment = std::align_val_t(64);

void *by_malloc(std::size_t size)
{
    void *p = std::malloc(size);

    NO_TAIL_CALL();
    return p;
}

void *by_new(std::size_t size)
{
    void *p = ::operator new(size);

    NO_TAIL_CALL();
    return p;
}

void *by_array(std::size_t size)
{
    void *p = ::operator new[](size);

    NO_TAIL_CALL();
    return p;
}

void *by_aligned(std::size_t size)
{
    void *p = ::operator new(size, alignment);

    NO_TAIL_CALL();
    return p;
}

void by_free(void *p, std::size_t)
{
    std::free(p);
    NO_TAIL_CALL();
}

void by_delete(void *p, std::size_t)
{
    ::operator delete(p);
    NO_TAIL_CALL();
}

void by_delete_array(void *p, std::size_t)
{
    ::operator delete[](p);
    NO_TAIL_CALL();
}

void by_delete_aligned(void *p, std::size_t)
{
    ::operator delete(p, alignment);
    NO_TAIL_CALL();
}

void by_sized_delete(void *p, std::size_t size)
{
    ::operator delete(p, size);
    NO_TAIL_CALL();
}

void by_sized_delete_array(void *p, std::size_t size)
{
    ::operator delete[](p, size);
    NO_TAIL_CALL();
}

void by_sized_delete_aligned(void *p, std::size_t size)
{
    ::operator delete(p, size, alignment);
    NO_TAIL_CALL();
}

} // namespace

extern "C" __attribute__((visibility("default"))) const struct side side = {
    {by_malloc, by_new, by_array, by_aligned},
    {by_free, by_delete, by_delete_array, by_delete_aligned, by_sized_delete, by_sized_delete_array,
     by_sized_delete_aligned},
};
