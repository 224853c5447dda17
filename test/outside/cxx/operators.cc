// SPDX-License-Identifier: Apache-2.0 The C++ operators as the standard describes them: every form
// allocates and frees; when memory runs out the new_handler is called until it helps, throws or is
// gone, and then bad_alloc is thrown; the nothrow forms return null also when the handler throws;
// exceptions derived from bad_alloc pass.

#include "test/outside/cxx/check.hh"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <sys/resource.h>
#include <vector>

namespace
{

// In memory, so that the compiler does not argue.
volatile std::size_t too_much = std::size_t(1) << 62;
constexpr std::align_val_t wide{256};

struct out_of_luck : std::bad_alloc {
    int number = 7;
};

struct alignas(512) wide_thing {
    char data[1000];
};

bool aligned(const void *p, std::size_t to)
{
    return p && reinterpret_cast<std::uintptr_t>(p) % to == 0;
}

void test_forms()
{
    for (std::size_t n = 0; n < 3000000; n = n * 2 + 1) {
        void *p = ::operator new(n), *q = ::operator new[](n);
        void *r = ::operator new(n, std::nothrow), *s = ::operator new[](n, std::nothrow);
        void *t = ::operator new(n, wide), *u = ::operator new[](n, wide);
        void *v = ::operator new(n, wide, std::nothrow),
             *w = ::operator new[](n, wide, std::nothrow);

        CHECK(aligned(p, 16) && aligned(q, 16) && aligned(r, 16) && aligned(s, 16));
        CHECK(aligned(t, 256) && aligned(u, 256) && aligned(v, 256) && aligned(w, 256));
        for (void *all : {p, q, r, s, t, u, v, w})
            std::memset(all, 1, n);
        ::operator delete(p);
        ::operator delete[](q);
        ::operator delete(r, std::nothrow);
        ::operator delete[](s, std::nothrow);
        ::operator delete(t, wide);
        ::operator delete[](u, wide);
        ::operator delete(v, wide, std::nothrow);
        ::operator delete[](w, wide, std::nothrow);
        ::operator delete(::operator new(n), n);
        ::operator delete[](::operator new[](n), n);
        ::operator delete(::operator new(n, wide), n, wide);
        ::operator delete[](::operator new[](n, wide), n, wide);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::size_t(100));
    ::operator delete(nullptr, std::size_t(100), wide);
    ::operator delete(nullptr, std::nothrow);
    // malloc and new may be mixed up: the same heap.
    std::free(::operator new(100));
    ::operator delete(std::malloc(100));
    auto thing = std::make_unique<wide_thing[]>(5);
    CHECK(aligned(thing.get(), 512));
    std::map<std::string, std::vector<int>> map;
    for (int i = 0; i < 20000; i++)
        map[std::to_string(i * 7919 % 5003)].push_back(i);
    std::size_t total = 0;
    for (const auto &entry : map)
        total += entry.second.size();
    CHECK(total == 20000);
}

// Calls one form; what it throws is told by the result.
enum outcome { NULL_POINTER, BAD_ALLOC, DERIVED, OTHER, POINTER };

template <typename F> outcome outcome_of(F form)
{
    try {
        void *p = form();
        return p ? POINTER : NULL_POINTER;
    } catch (const out_of_luck &e) {
        return e.number == 7 ? DERIVED : OTHER;
    } catch (const std::bad_alloc &) {
        return BAD_ALLOC;
    } catch (...) {
        return OTHER;
    }
}

template <typename T> void throwing(T want)
{
    CHECK(outcome_of([] { return ::operator new(too_much); }) == want);
    CHECK(outcome_of([] { return ::operator new[](too_much); }) == want);
    CHECK(outcome_of([] { return ::operator new(too_much, wide); }) == want);
    CHECK(outcome_of([] { return ::operator new[](too_much, wide); }) == want);
}

void nothrow()
{
    CHECK(outcome_of([] { return ::operator new(too_much, std::nothrow); }) == NULL_POINTER);
    CHECK(outcome_of([] { return ::operator new[](too_much, std::nothrow); }) == NULL_POINTER);
    CHECK(outcome_of([] { return ::operator new(too_much, wide, std::nothrow); }) == NULL_POINTER);
    CHECK(outcome_of([] { return ::operator new[](too_much, wide, std::nothrow); }) ==
          NULL_POINTER);
}

int calls;

void test_failure()
{
    throwing(BAD_ALLOC);
    nothrow();

    // Called again and again while it returns; here until it removes itself.
    calls = 0;
    std::set_new_handler([] {
        if (++calls == 5)
            std::set_new_handler(nullptr);
    });
    CHECK(outcome_of([] { return ::operator new(too_much); }) == BAD_ALLOC);
    CHECK(calls == 5);

    calls = 0;
    std::set_new_handler([] {
        if (++calls == 3)
            std::set_new_handler(nullptr);
    });
    CHECK(outcome_of([] { return ::operator new[](too_much, wide, std::nothrow); }) ==
          NULL_POINTER);
    CHECK(calls == 3);

    std::set_new_handler([] { throw out_of_luck(); });
    throwing(DERIVED);
    nothrow();
    std::set_new_handler([] { throw std::bad_alloc(); });
    throwing(BAD_ALLOC);
    nothrow();

    // It helps: the request is then served.
    static volatile std::size_t size;
    size = too_much;
    std::set_new_handler([] { throw out_of_luck(); });
    CHECK(outcome_of([] { return ::operator new(size); }) == DERIVED);
    std::set_new_handler(nullptr);
    CHECK(outcome_of([] {
              size = 100;
              void *p = ::operator new(size);
              void *volatile was = p; // the compiler minds that a deleted pointer is looked at
              ::operator delete(p);
              return was;
          }) == POINTER);
    CHECK(outcome_of([] {
              std::vector<char> v;
              v.reserve(too_much);
              return nullptr;
          }) == BAD_ALLOC);
}

// A handler that gives memory back, under a limit of the process.
std::vector<void *> reserve;

void test_helpful_handler()
{
    for (int i = 0; i < 40; i++) {
        void *p = std::malloc(16 << 20);
        if (p)
            reserve.push_back(p);
    }
    CHECK(reserve.size() == 40);
    std::set_new_handler([] {
        calls++;
        if (reserve.empty())
            throw out_of_luck();
        std::free(reserve.back());
        reserve.pop_back();
    });
    calls = 0;
    std::vector<void *> got;
    outcome last = OTHER;
    for (int i = 0; i < 200; i++) {
        last = outcome_of([&] {
            void *p = ::operator new(16 << 20);
            got.push_back(p);
            return p;
        });
        if (last != POINTER)
            break;
    }
    std::set_new_handler(nullptr);
    CHECK(last == DERIVED);
    CHECK(got.size() >= 40);
    CHECK(calls >= 41);
    for (void *p : got)
        ::operator delete(p);
}

} // namespace

int main()
{
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, "_Znwm");

    if (!dladdr(address, &info) || !std::strstr(info.dli_fname, "libsalloc.so")) {
        std::puts("operator new is not salloc's: preload libsalloc.so");
        return 1;
    }
    test_forms();
    test_failure();
    rlimit limit{1ul << 30, 1ul << 30};
    if (setrlimit(RLIMIT_AS, &limit) == 0)
        test_helpful_handler();
    if (failures)
        std::printf("%d checks failed\n", failures);
    return failures ? 1 : 0;
}
