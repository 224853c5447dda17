/* SPDX-License-Identifier: Apache-2.0 */
/* What programs in C++ lose, and what they keep by containers, smart pointers, bases, closures and
 * exceptions; see leaker.h. The operators new of this program count what is lost. */
#include "test/outside/tool/leaker.h"

#include <any>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <malloc.h>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

size_t lost_blocks, lost_bytes;
static thread_local bool losing;

static void *count(void *p)
{
    if (!p)
        throw std::bad_alloc();
    if (losing) {
        lost_blocks++;
        lost_bytes += malloc_usable_size(p);
    }
    return p;
}

static void uncount(void *p)
{
    if (losing && p) {
        lost_blocks--;
        lost_bytes -= malloc_usable_size(p);
    }
    free(p);
}

void *operator new(size_t bytes)
{
    return count(malloc(bytes));
}

void *operator new(size_t bytes, std::align_val_t align)
{
    return count(aligned_alloc(static_cast<size_t>(align), bytes));
}

void operator delete(void *p) noexcept
{
    uncount(p);
}

void operator delete(void *p, size_t) noexcept
{
    uncount(p);
}

void operator delete(void *p, std::align_val_t) noexcept
{
    uncount(p);
}

void operator delete(void *p, size_t, std::align_val_t) noexcept
{
    uncount(p);
}

extern "C" {
__attribute__((noinline, noclone)) void lost_block(void (*make)())
{
    losing = true;
    make();
    losing = false;
}

__attribute__((noinline, noclone)) void kept_block(void (*make)())
{
    make();
    __asm__ volatile("" ::: "memory");
}
}

namespace
{

/* The compiler must not see that nobody looks at it. */
template <class T> T *made(T *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

const char *const long_text = "longer than what a string holds without a block of its own";

struct first_base {
    virtual ~first_base() = default;
    long first[5] = {};
};

struct second_base {
    virtual ~second_base() = default;
    long second[5] = {};
};

struct derived : first_base, second_base {
    std::string text = long_text;
};

struct shared_base : virtual first_base {
    long shared[3] = {};
};

struct virtual_derived : shared_base, second_base {
    std::vector<int> numbers = std::vector<int>(50);
};

struct with_destructor {
    std::string text = long_text;
};

struct partner {
    std::shared_ptr<partner> other;
    std::string text = long_text;
};

struct tree_node {
    std::unique_ptr<tree_node> left, right;
    int number = 0;
};

struct alignas(128) aligned_thing {
    char bytes[200] = {};
    std::string text = long_text;
};

std::unique_ptr<tree_node> make_tree(int depth)
{
    auto n = std::make_unique<tree_node>();

    if (depth > 0) {
        n->left = make_tree(depth - 1);
        n->right = make_tree(depth - 1);
    }
    return n;
}

std::shared_ptr<partner> make_cycle()
{
    auto a = std::make_shared<partner>(), b = std::make_shared<partner>();

    a->other = b;
    b->other = a;
    return a;
}

std::map<int, std::string> make_map()
{
    std::map<int, std::string> map;

    for (int i = 0; i < NODES; i++)
        map[i] = long_text;
    return map;
}

/* --- lost --- */

void lose_list()
{
    made(new std::list<int>(NODES, 1));
}

void lose_map()
{
    made(new std::map<int, std::string>(make_map()));
}

void lose_unordered()
{
    auto *map = made(new std::unordered_map<std::string, std::vector<int>>);

    for (int i = 0; i < NODES; i++)
        (*map)[long_text + std::to_string(i)].resize(static_cast<size_t>(i) + 1);
}

void lose_vectors()
{
    made(new std::vector<std::vector<std::string>>(
        10, std::vector<std::string>(10, std::string(long_text))));
}

void lose_strings()
{
    for (int i = 0; i < NODES; i++)
        made(new std::string(static_cast<size_t>(i) + 20, 'x'));
}

void lose_cycle()
{
    for (int i = 0; i < NODES; i++)
        make_cycle();
}

void lose_released()
{
    for (int i = 0; i < NODES; i++)
        made(std::make_unique<derived>().release());
}

void lose_by_base()
{
    for (int i = 0; i < NODES; i++)
        made(static_cast<second_base *>(new derived));
}

void lose_virtual()
{
    for (int i = 0; i < NODES; i++)
        made(static_cast<first_base *>(new virtual_derived));
}

void lose_array()
{
    made(new with_destructor[20]);
}

void lose_function()
{
    std::string text = long_text;
    std::vector<int> numbers(100);

    made(new std::function<size_t()>([text, numbers] { return text.size() + numbers.size(); }));
}

void lose_deque()
{
    made(new std::deque<std::string>(NODES * 3, std::string(long_text)));
}

void lose_tree()
{
    made(make_tree(7).release());
}

void lose_any()
{
    made(new std::vector<std::any>(NODES, std::any(std::string(long_text))));
}

void lose_aligned()
{
    for (int i = 0; i < NODES; i++)
        made(new aligned_thing);
}

/* Built in place, and written over without its destructor. */
void lose_in_place()
{
    alignas(std::set<std::string>) char room[sizeof(std::set<std::string>)];
    auto *set = new (room) std::set<std::string>;

    for (int i = 0; i < NODES; i++)
        set->insert(long_text + std::to_string(i));
    memset(room, 0, sizeof(room));
    made(room);
}

void lose_by_exception()
{
    for (int i = 0; i < NODES; i++) {
        auto *raw = made(new derived);

        try {
            if (raw)
                throw 1;
            delete raw;
        } catch (int) {
            continue; /* and raw is forgotten */
        }
    }
}

std::shared_ptr<void> *forget_weak(std::weak_ptr<void> *weak)
{
    return new std::shared_ptr<void>(weak->lock());
}

/* Something shared that one forgotten owner keeps alive. */
void lose_shared()
{
    for (int i = 0; i < NODES; i++) {
        std::shared_ptr<void> owner = std::make_shared<derived>();
        std::weak_ptr<void> weak = owner;

        made(forget_weak(&weak));
    }
}

template <void (*make)()> void plant_lost()
{
    lost_block(make);
}

void lose_in_thread()
{
    std::thread(plant_lost<lose_list>).join();
}

/* --- kept --- */

struct keeper {
    std::map<int, std::string> map;
    std::unordered_map<int, std::vector<std::string>> unordered;
    std::deque<std::string> deque;
    std::shared_ptr<partner> cycle;
    std::unique_ptr<tree_node> tree;
    std::function<size_t()> function;
    std::any any;
    std::exception_ptr exception;
    second_base *base;
    first_base *virtual_base;
    with_destructor *array;
    aligned_thing *aligned;
    const char *view;
    std::list<std::string>::iterator element;
};

keeper kept_by;
thread_local std::vector<std::string> kept_by_thread;

void keep_map()
{
    kept_by.map = make_map();
}

void keep_unordered()
{
    for (int i = 0; i < NODES; i++)
        kept_by.unordered[i].assign(5, std::string(long_text));
}

void keep_deque()
{
    kept_by.deque.assign(NODES * 3, std::string(long_text));
}

void keep_cycle()
{
    kept_by.cycle = make_cycle();
}

void keep_tree()
{
    kept_by.tree = make_tree(9);
}

void keep_function()
{
    std::string text = long_text;

    kept_by.function = [text, numbers = std::vector<int>(100)] {
        return text.size() + numbers.size();
    };
}

void keep_any()
{
    kept_by.any = std::vector<std::string>(NODES, std::string(long_text));
}

/* The only pointer is to the exception, behind the header that the run-time library puts there. */
void keep_exception()
{
    try {
        throw std::runtime_error(long_text);
    } catch (...) {
        kept_by.exception = std::current_exception();
    }
}

void keep_base()
{
    kept_by.base = new derived;
}

void keep_virtual_base()
{
    kept_by.virtual_base = new virtual_derived;
}

/* The pointer is behind the number of elements. */
void keep_array()
{
    kept_by.array = new with_destructor[20];
}

void keep_aligned()
{
    kept_by.aligned = new aligned_thing;
}

void keep_view()
{
    kept_by.view = (new char[300]) + 100;
}

/* Of a list that is itself forgotten: its nodes are a ring. */
void keep_element()
{
    auto *list = new std::list<std::string>;

    for (int i = 0; i < NODES; i++)
        list->push_back(long_text);
    kept_by.element = std::next(list->begin(), NODES / 2);
}

void keep_by_thread()
{
    kept_by_thread.assign(NODES, std::string(long_text));
}

template <void (*make)()> void plant_kept()
{
    kept_block(make);
}

} // namespace

extern "C" {
const struct plant lost[] = {
    {"cxx_list", plant_lost<lose_list>, false},
    {"cxx_map", plant_lost<lose_map>, false},
    {"cxx_unordered", plant_lost<lose_unordered>, false},
    {"cxx_vectors", plant_lost<lose_vectors>, false},
    {"cxx_strings", plant_lost<lose_strings>, false},
    {"cxx_cycle", plant_lost<lose_cycle>, false},
    {"cxx_released", plant_lost<lose_released>, false},
    {"cxx_by_base", plant_lost<lose_by_base>, false},
    {"cxx_virtual", plant_lost<lose_virtual>, false},
    {"cxx_array", plant_lost<lose_array>, false},
    {"cxx_function", plant_lost<lose_function>, false},
    {"cxx_deque", plant_lost<lose_deque>, false},
    {"cxx_tree", plant_lost<lose_tree>, false},
    {"cxx_any", plant_lost<lose_any>, false},
    {"cxx_aligned", plant_lost<lose_aligned>, false},
    {"cxx_in_place", plant_lost<lose_in_place>, false},
    {"cxx_by_exception", plant_lost<lose_by_exception>, false},
    {"cxx_shared", plant_lost<lose_shared>, false},
    {"cxx_in_thread", lose_in_thread, false},
};
const size_t lost_count = sizeof(lost) / sizeof(*lost);

const struct plant kept[] = {
    {"in_map", plant_kept<keep_map>, true},
    {"in_unordered", plant_kept<keep_unordered>, true},
    {"in_deque", plant_kept<keep_deque>, true},
    {"in_cycle", plant_kept<keep_cycle>, true},
    {"in_tree", plant_kept<keep_tree>, true},
    {"in_function", plant_kept<keep_function>, true},
    {"in_any", plant_kept<keep_any>, true},
    {"in_exception", plant_kept<keep_exception>, true},
    {"by_inner_base", plant_kept<keep_base>, true},
    {"by_inner_virtual_base", plant_kept<keep_virtual_base>, true},
    {"by_inner_array", plant_kept<keep_array>, true},
    {"by_inner_aligned", plant_kept<keep_aligned>, true},
    {"by_inner_view", plant_kept<keep_view>, true},
    {"by_element", plant_kept<keep_element>, true},
    {"in_thread_local", plant_kept<keep_by_thread>, true},
};
const size_t kept_count = sizeof(kept) / sizeof(*kept);
}
