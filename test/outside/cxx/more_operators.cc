// SPDX-License-Identifier: Apache-2.0
// The operators new that tcmalloc has beyond the standard, by the names that clang and libc++ call:
// with a hint, and with the allocated size.

#include "test/outside/cxx/check.hh"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>

enum class __hot_cold_t : std::uint8_t;
struct __sized_ptr_t {
    void *p;
    std::size_t n;
};

void *operator new(std::size_t, __hot_cold_t) __attribute__((weak));
void *operator new[](std::size_t, __hot_cold_t) __attribute__((weak));
void *operator new(std::size_t, const std::nothrow_t &, __hot_cold_t) noexcept
    __attribute__((weak));
void *operator new[](std::size_t, const std::nothrow_t &, __hot_cold_t) noexcept
    __attribute__((weak));
void *operator new(std::size_t, std::align_val_t, __hot_cold_t) __attribute__((weak));
void *operator new[](std::size_t, std::align_val_t, __hot_cold_t) __attribute__((weak));
void *operator new(std::size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept
    __attribute__((weak));
void *operator new[](std::size_t, std::align_val_t, const std::nothrow_t &, __hot_cold_t) noexcept
    __attribute__((weak));
extern "C" {
__sized_ptr_t __size_returning_new(std::size_t) __attribute__((weak));
__sized_ptr_t __size_returning_new_hot_cold(std::size_t, __hot_cold_t) __attribute__((weak));
__sized_ptr_t __size_returning_new_aligned(std::size_t, std::align_val_t) __attribute__((weak));
__sized_ptr_t __size_returning_new_aligned_hot_cold(std::size_t, std::align_val_t, __hot_cold_t)
    __attribute__((weak));
}

namespace
{

volatile std::size_t too_much = std::size_t(1) << 62;
constexpr __hot_cold_t cold{0}, hot{255};
constexpr std::align_val_t wide{256};
int handled;

void handler()
{
    handled++;
    std::set_new_handler(nullptr);
}

template <class F> bool throws(F f)
{
    handled = 0;
    std::set_new_handler(handler);
    try {
        f();
    } catch (const std::bad_alloc &) {
        return handled == 1;
    }
    return false;
}

void test_hints()
{
    for (std::size_t n = 0; n < 1000000; n = n * 3 + 1) {
        void *all[] =
            {operator new(n, cold), operator new(n, std::nothrow, hot),
                                    operator new[](n, cold), operator new[](n, std::nothrow, hot)};
        void *aligned[] = {operator new(n, wide, cold), operator new(n, wide, std::nothrow, hot),
                                                        operator new[](n, wide, cold),
                                                        operator new[](n, wide, std::nothrow, hot)};

        for (int i = 0; i < 4; i++) {
            std::memset(all[i], 1, n);
            std::memset(aligned[i], 1, n);
            CHECK(reinterpret_cast<std::uintptr_t>(aligned[i]) % 256 == 0);
        }
        operator delete(all[0], n);
        operator delete(all[1]);
        operator delete[](all[2], n);
        operator delete[](all[3]);
        operator delete(aligned[0], n, wide);
        operator delete(aligned[1], wide);
        operator delete[](aligned[2], n, wide);
        operator delete[](aligned[3], wide);
    }
    CHECK(throws([] { return operator new(too_much, cold); }));
    CHECK(throws([] { return operator new[](too_much, wide, cold); }));
    CHECK(!operator new(too_much, std::nothrow, cold));
}

// What a container does: it uses all of the block in whole elements, and frees those.
void test_sizes()
{
    for (std::size_t n = 1; n < 1000000; n = n * 3 / 2 + 1)
        for (std::size_t element : {1, 8, 24, 40}) {
            std::size_t size = n * element;
            __sized_ptr_t a = __size_returning_new(size),
                          b = __size_returning_new_hot_cold(size, cold);

            CHECK(a.p && a.n >= size && b.n >= size);
            std::memset(a.p, 1, a.n);
            operator delete(a.p, a.n / element * element);
            operator delete(b.p, size);
            a = __size_returning_new_aligned(size, wide);
            b = __size_returning_new_aligned_hot_cold(size, wide, hot);
            CHECK(a.p && a.n >= size && reinterpret_cast<std::uintptr_t>(a.p) % 256 == 0);
            std::memset(b.p, 1, b.n);
            operator delete(a.p, a.n, wide);
            operator delete(b.p, wide);
        }
    for (std::size_t width = 32; width <= 1 << 16; width *= 2)
        for (std::size_t size : {0, 1, 100, 5000, 100000}) {
            __sized_ptr_t a = __size_returning_new_aligned(size, std::align_val_t(width));

            CHECK(a.p && a.n >= size && reinterpret_cast<std::uintptr_t>(a.p) % width == 0);
            operator delete(a.p, a.n, std::align_val_t(width));
        }
    CHECK(throws([] { return __size_returning_new(too_much).p; }));
    CHECK(throws([] { return __size_returning_new_aligned(too_much, wide).p; }));
}

} // namespace

int main()
{
    void *(*with_hint)(std::size_t, __hot_cold_t) = operator new;

    CHECK(with_hint && __size_returning_new);
    if (failures)
        return 1;
    test_hints();
    test_sizes();
    return failures != 0;
}
