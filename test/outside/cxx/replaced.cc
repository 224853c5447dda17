// SPDX-License-Identifier: Apache-2.0 A program with operators of its own: the two that every other
// goes back to, and the two aligned ones. Their blocks begin behind a header, so that a block which
// is freed by anything else, or was not made by them, is noticed. Proves that all forms of new and
// delete end in them, as the standard says ([new.delete.single], [new.delete.array]), and that a
// nothrow form returns null when they throw. The same must hold without the library, where the test
// runs too.

#include "test/outside/cxx/check.hh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace
{

long live, aligned_live; // blocks of the operators below
bool fail_next;

constexpr long mark = 0x6d61726b;
constexpr std::align_val_t wide{64};

void *begin(void *raw, std::size_t header, long &count)
{
    if (!raw || fail_next) {
        std::free(raw);
        fail_next = false;
        throw std::bad_alloc();
    }
    *static_cast<long *>(raw) = mark;
    count++;
    return static_cast<char *>(raw) + header;
}

void end(void *p, std::size_t header, long &count)
{
    if (!p)
        return;
    p = static_cast<char *>(p) - header;
    if (*static_cast<long *>(p) != mark) {
        std::printf("a block that these operators have not made\n");
        std::abort();
    }
    *static_cast<long *>(p) = 0;
    count--;
    std::free(p);
}

} // namespace

// Not inlined, or compilers would warn of what they then see.
__attribute__((noinline)) void *operator new(std::size_t size)
{
    return begin(std::malloc(size + 16), 16, live);
}

void operator delete(void *p) noexcept
{
    end(p, 16, live);
}

__attribute__((noinline)) void *operator new(std::size_t size, std::align_val_t)
{
    return begin(std::aligned_alloc(64, size + 128 - size % 64), 64, aligned_live);
}

void operator delete(void *p, std::align_val_t) noexcept
{
    end(p, 64, aligned_live);
}

namespace
{

void test_plain(std::size_t n)
{
    void *p = ::operator new(n), *q = ::operator new[](n);
    void *r = ::operator new(n, std::nothrow), *s = ::operator new[](n, std::nothrow);

    CHECK(live == 4);
    std::memset(q, 1, n);
    std::memset(s, 1, n);
    ::operator delete(p, n);
    ::operator delete[](q, n);
    ::operator delete(r, std::nothrow);
    ::operator delete[](s, std::nothrow);
    CHECK(live == 0);
    p = ::operator new[](n);
    ::operator delete[](p);
    ::operator delete[](nullptr);
    ::operator delete[](nullptr, n);
    CHECK(live == 0);
}

void test_aligned(std::size_t n)
{
    void *p = ::operator new(n, wide), *q = ::operator new[](n, wide);
    void *r = ::operator new(n, wide, std::nothrow), *s = ::operator new[](n, wide, std::nothrow);

    CHECK(aligned_live == 4);
    ::operator delete(p, n, wide);
    ::operator delete[](q, n, wide);
    ::operator delete(r, wide, std::nothrow);
    ::operator delete[](s, wide, std::nothrow);
    CHECK(aligned_live == 0);
    p = ::operator new[](n, wide);
    ::operator delete[](p, wide);
    CHECK(aligned_live == 0);
}

// The library's own containers and strings are compiled into libstdc++ in part.
void test_containers()
{
    std::vector<std::string> v;

    for (int i = 0; i < 2000; i++)
        v.push_back(std::string(static_cast<std::size_t>(i), 'x') + std::to_string(i));
    CHECK(live > 1000);
    v.clear();
    v.shrink_to_fit();
    CHECK(live == 0);
}

void test_nothrow()
{
    void *p;

    fail_next = true;
    p = ::operator new(10, std::nothrow);
    CHECK(p == nullptr && !fail_next);
    fail_next = true;
    p = ::operator new[](10, wide, std::nothrow);
    CHECK(p == nullptr && !fail_next);
}

} // namespace

int main(int argc, char **)
{
    for (std::size_t n = 1; n < 5000000; n = n * 2 + 1) {
        test_plain(n);
        test_aligned(n);
    }
    test_containers();
    if (argc == 1) // a static program has no operators of libstdc++'s, which alone could catch
        test_nothrow();
    return failures != 0;
}
