// SPDX-License-Identifier: Apache-2.0 A program that defines malloc, as browsers and programs with
// an allocator linked into the executable do: the loader gives it to all libraries, and what this
// program has not defined (operators, reallocarray) must get its blocks from there and return them
// there. ON_LIBC: its malloc calls __libc_malloc, which must not call it back. The same must hold
// without the library, where the test runs too.

#include "test/outside/cxx/check.hh"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <string>
#include <vector>

namespace
{

long live;
volatile std::size_t too_many = SIZE_MAX / 2; // in memory, so that the compiler does not argue

struct header {
    std::size_t size;
    std::size_t mark;
};

constexpr std::size_t mark = 0x6f776e6d616c6c6f;

} // namespace

#ifdef ON_LIBC
extern "C" void *__libc_malloc(std::size_t);
extern "C" void __libc_free(void *);
#define RAW_MALLOC __libc_malloc
#define RAW_FREE   __libc_free
#else
// Never reused: the program is short.
static char arena[64 << 20] __attribute__((aligned(16)));
static std::size_t used;

static void *RAW_MALLOC(std::size_t size)
{
    std::size_t at = __atomic_fetch_add(&used, (size + 15) & ~std::size_t(15), __ATOMIC_RELAXED);

    return at + size <= sizeof arena ? arena + at : nullptr;
}

static void RAW_FREE(void *)
{
}
#endif

extern "C" void *malloc(std::size_t size)
{
    header *h = size < sizeof(header) + (1ul << 30)
                    ? static_cast<header *>(RAW_MALLOC(sizeof(header) + size))
                    : nullptr;

    if (!h) {
        errno = ENOMEM;
        return nullptr;
    }
    h->size = size;
    h->mark = mark;
    __atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
    return h + 1;
}

extern "C" void free(void *p)
{
    void *volatile block = p; // the compiler believes that nothing lies before a block
    header *h = static_cast<header *>(block) - 1;

    if (!p)
        return;
    if (h->mark != mark) {
        static const char text[] = "a block that this malloc has not made\n";

        fwrite(text, 1, sizeof text - 1, stderr);
        _Exit(2);
    }
    h->mark = 0;
    __atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
    RAW_FREE(h);
}

extern "C" void *calloc(std::size_t count, std::size_t size)
{
    void *p = size && count > SIZE_MAX / size ? nullptr : malloc(count * size);

    return p ? std::memset(p, 0, count * size) : nullptr;
}

extern "C" void *realloc(void *p, std::size_t size)
{
    void *q = malloc(size);
    std::size_t old = p ? static_cast<header *>(p)[-1].size : 0;

    if (q && p) {
        std::memcpy(q, p, old < size ? old : size);
        free(p);
    }
    return q;
}

namespace
{

template <typename Make, typename End> void test_one(const char *what, Make make, End end)
{
    long before = live;
    void *p = make();

    if (live != before + 1) {
        std::printf("%s: not of the program's malloc\n", what);
        failures++;
    }
    std::memset(p, 1, 8);
    end(p);
    if (live != before) {
        std::printf("%s: not freed by the program's free\n", what);
        failures++;
    }
}

void test_operators(std::size_t n)
{
    test_one(
        "new", [=] { return ::operator new(n); }, [](void *p) { ::operator delete(p); });
    test_one(
        "sized delete", [=] { return ::operator new(n); },
        [=](void *p) { ::operator delete(p, n); });
    test_one(
        "new[]", [=] { return ::operator new[](n); }, [](void *p) { ::operator delete[](p); });
    test_one(
        "sized delete[]", [=] { return ::operator new[](n); },
        [=](void *p) { ::operator delete[](p, n); });
    test_one(
        "nothrow", [=] { return ::operator new(n, std::nothrow); },
        [](void *p) { ::operator delete(p, std::nothrow); });
    test_one(
        "nothrow[]", [=] { return ::operator new[](n, std::nothrow); },
        [](void *p) { ::operator delete[](p, std::nothrow); });
}

void test_libc()
{
    test_one(
        "strdup", [] { return strdup("twelve bytes"); }, [](void *p) { free(p); });
    test_one(
        "reallocarray", [] { return reallocarray(nullptr, 3, 100); }, [](void *p) { free(p); });
    test_one(
        "reallocarray of a block", [] { return reallocarray(malloc(10), 3, 100); },
        [](void *p) { free(p); });
    errno = 0;
    CHECK(reallocarray(nullptr, too_many, 3) == nullptr && errno == ENOMEM);
}

void test_containers()
{
    long before = live;

    {
        std::vector<std::string> v;

        for (int i = 0; i < 2000; i++)
            v.push_back(std::string(static_cast<std::size_t>(i), 'x') + std::to_string(i));
        CHECK(live > before + 1000);
    }
    CHECK(live == before);
}

// The handler is called, and then bad_alloc is thrown, also where the memory is the program's.
void test_exhausted()
{
    bool caught = false;

    try {
        ::operator delete(::operator new(std::size_t(1) << 40));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught);
    CHECK(::operator new(std::size_t(1) << 40, std::nothrow) == nullptr);
}

// A report of the library's is the program's to free.
void test_report()
{
    auto get = reinterpret_cast<char *(*)()>(dlsym(RTLD_DEFAULT, "salloc_get_stats"));

    if (get)
        test_one("salloc_get_stats", get, [](void *p) { free(p); });
}

} // namespace

int main()
{
    for (std::size_t n = 8; n < 5000000; n = n * 2 + 1)
        test_operators(n);
    test_libc();
    test_containers();
    test_exhausted();
    test_report();
    return failures != 0;
}
