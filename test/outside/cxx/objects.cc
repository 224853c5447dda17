// SPDX-License-Identifier: Apache-2.0
// include/salloc/salloc.hpp: objects own what they hold, moves pass it on, errors are exceptions,
// and exceptions of callbacks come through.

#include "test/outside/cxx/check.hh"

#include <salloc/salloc.hpp>

#include <atomic>
#include <cstdio>
#include <memory>
#include <pthread.h>
#include <stdexcept>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace
{

template <class F> int error_of(F f)
{
    try {
        f();
    } catch (const std::system_error &e) {
        return e.code().value();
    }
    return 0;
}

std::vector<std::unique_ptr<char[]>> make(int count)
{
    std::vector<std::unique_ptr<char[]>> blocks;

    for (int i = 0; i < count; i++)
        blocks.emplace_back(new char[1000]);
    return blocks;
}

void test_options()
{
    salloc::set_option("sample_interval", "1");
    CHECK(salloc::get_option("sample_interval") == "1");
    CHECK(salloc::get_option("per_cpu") == "on" || salloc::get_option("per_cpu") == "off");
    CHECK(error_of([] { salloc::set_option("nothing", "1"); }) == ENOENT);
    CHECK(error_of([] { salloc::set_option("per_cpu", "off"); }) == EPERM);
    CHECK(error_of([] { salloc::get_option("nothing"); }) == ENOENT);
    CHECK(salloc::version() == SALLOC_VERSION_STRING);
}

void test_profiles()
{
    static_assert(!std::is_copy_constructible_v<salloc::profile>);
    static_assert(std::is_nothrow_move_constructible_v<salloc::profile>);
    auto blocks = make(100);
    auto profile = salloc::profile::snapshot();
    double bytes = 0;
    int samples = 0, calls = 0;

    CHECK(profile.type() == SALLOC_PROFILE_HEAP && profile.info().interval == 1);
    CHECK(profile.time() > std::chrono::system_clock::now() - std::chrono::minutes(1));
    CHECK(profile.duration() == std::chrono::nanoseconds(0));
    profile.for_each([&](const salloc::sample &s) { bytes += s.inuse_bytes; });
    profile.for_each_sample([&](const salloc::sample &s) {
        samples += s.address != nullptr;
        return true;
    });
    CHECK(bytes >= 100000 && profile.estimate().bytes == bytes && samples >= 100);
    profile.for_each([&](const salloc::sample &) { return ++calls < 2; });
    CHECK(calls == 2);
    try {
        profile.for_each([](const salloc::sample &) { throw std::runtime_error("from inside"); });
        CHECK(!"reached");
    } catch (const std::runtime_error &e) {
        CHECK(e.what() == std::string("from inside"));
    }
    CHECK(error_of([&] { profile.for_each_event([](const salloc::event &) {}); }) == EINVAL);

    salloc::profile moved = std::move(profile), other = salloc::profile::snapshot();
    CHECK(!profile.get() && moved.get());
    other = std::move(moved);
    CHECK(!moved.get() && other.estimate().bytes == bytes);
    salloc::profile again(other.release());
    CHECK(!other.get() && again.estimate().bytes == bytes);

    CHECK(again.text(".txt").find("heap profile") != std::string::npos);
    CHECK(error_of([&] { again.text(".nothing"); }) == EINVAL);
    CHECK(error_of([&] { again.write("/nowhere/x.pb"); }) == ENOENT);
    CHECK(error_of([&] { again.write(-1, ".pb"); }) == EBADF);
    CHECK(error_of([] { salloc::profile::snapshot(SALLOC_PROFILE_LIFETIMES); }) == EINVAL);
}

void test_recordings()
{
    static_assert(!std::is_copy_constructible_v<salloc::recording>);
    auto recording = salloc::recording::events(1 << 20);
    int allocated = 0, freed = 0;

    make(50);
    auto profile = recording.stop();
    CHECK(!recording.running() && profile.type() == SALLOC_PROFILE_EVENTS);
    profile.for_each_event([&](const salloc::event &e) {
        if (e.requested_size == 1000)
            (e.event == SALLOC_EVENT_FREED ? freed : allocated)++;
    });
    CHECK(allocated == 50 && freed == 50);
    CHECK(error_of([&] { recording.stop(); }) == EINVAL);
    CHECK(error_of([] { salloc::recording::events(0); }) == EINVAL);

    for (int i = 0; i < 200; i++) { // at most 64 run at a time: destructors and moves stop them
        auto a = salloc::recording::allocations();
        auto b = salloc::recording::lifetimes();

        b = std::move(a);
        CHECK(b.running() && !a.running());
    }
    recording = salloc::recording::allocations();
    make(10);
    CHECK(recording.stop().estimate().count >= 10);
}

std::atomic<int> seen;

// libc ends a thread by an exception that must not be caught for good.
void *leave_from_callback(void *)
{
    auto profile = salloc::profile::snapshot();

    profile.for_each([](const salloc::sample &) { pthread_exit(&seen); });
    return nullptr;
}

void test_ends_of_threads()
{
    auto blocks = make(10);
    pthread_t thread;
    void *result = nullptr;

    CHECK(pthread_create(&thread, nullptr, leave_from_callback, nullptr) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == &seen);
}

void hook(const salloc::event *, void *arg)
{
    if (arg == &seen)
        seen++;
}

void test_hooks()
{
    static_assert(!std::is_move_constructible_v<salloc::sample_hook>);
    {
        salloc::sample_hook watch(hook, &seen);
        make(10);
        CHECK(seen >= 20);
    }
    seen = 0;
    make(10);
    CHECK(seen == 0);
    CHECK(error_of([] { salloc::sample_hook none(nullptr); }) == EINVAL);
}

} // namespace

int main()
{
    test_options();
    test_profiles();
    test_recordings();
    test_ends_of_threads();
    test_hooks();
    return failures != 0;
}
