/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers the C cases with google-benchmark and runs them. The only C++ of the project.
 *
 * Options beside google-benchmark's own:
 *   --expect-malloc=NAME  fail unless malloc comes from a file whose name begins with NAME, so that
 *                         a preload that did not work is never taken for a result
 *   --pin                 pin workloads of one thread, too, to the last CPU allowed
 */
#include "perf/harness.h"

#include <benchmark/benchmark.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace
{

std::vector<int> allowed_cpus; /* in the order they are given to threads: the last one first */
bool pin_single;

void find_cpus()
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
        if (CPU_ISSET(cpu, &set))
            allowed_cpus.push_back(cpu);
}

/* Keeps the calling thread on one CPU while it lives. */
class pinned
{
  public:
    explicit pinned(int cpu)
    {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_getaffinity(0, sizeof(before_), &before_);
        sched_setaffinity(0, sizeof(set), &set);
    }
    ~pinned()
    {
        sched_setaffinity(0, sizeof(before_), &before_);
    }
    pinned(const pinned &) = delete;
    pinned &operator=(const pinned &) = delete;

  private:
    cpu_set_t before_;
};

/* How long this thread has been ready to run and not running, in ns; 0 where the kernel does not
 * say. */
double waited_ns()
{
    char text[64];
    unsigned long long ran, waited;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = 0;
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? static_cast<double>(waited) : 0;
}

void run_phases(const perf_case &c, const perf_run &run, benchmark::State &state)
{
    double waited;

    if (c.setup)
        c.setup(&run);
    waited = waited_ns();
    /* One batch of all iterations: the loop is the workload's. */
    while (state.KeepRunningBatch(state.max_iterations))
        c.run(&run);
    /* Summed over the threads: what other processes took from a workload timed by real time. */
    state.counters["waited_ns"] = waited_ns() - waited;
    if (c.teardown)
        c.teardown(&run);
    if (!c.shared_items || run.thread % 2 == 0)
        state.SetItemsProcessed(
            static_cast<int64_t>(run.iterations * (c.items ? c.items : uint64_t(run.arg))));
}

void run_case(const perf_case &c, int64_t arg, benchmark::State &state)
{
    perf_run run = {};

    run.iterations = static_cast<uint64_t>(state.max_iterations);
    run.arg = arg;
    run.thread = static_cast<unsigned>(state.thread_index());
    run.threads = static_cast<unsigned>(state.threads());
    if (run.threads > 1 && run.threads > allowed_cpus.size()) {
        state.SkipWithError("fewer CPUs than threads");
    } else if (run.threads > 1 || (pin_single && !allowed_cpus.empty())) {
        pinned here(allowed_cpus[run.thread]);
        run_phases(c, run, state);
    } else {
        run_phases(c, run, state);
    }
}

std::string case_name(const perf_case &c, int64_t arg)
{
    static const char units[] = {0, 'K', 'M'};
    size_t unit = 0;

    if (!arg)
        return c.name;
    while (unit + 1 < sizeof(units) && arg % 1024 == 0 && arg >= 65536 >> (unit * 10)) {
        arg /= 1024;
        unit++;
    }
    return std::string(c.name) + "/" + std::to_string(arg) +
           (units[unit] ? std::string(1, units[unit]) : "");
}

void register_case(const perf_case &c)
{
    for (size_t a = 0; a == 0 || (a < PERF_ARGS_MAX && c.args[a]); a++) {
        for (size_t t = 0; t == 0 || (t < PERF_THREADS_MAX && c.threads[t]); t++) {
            int64_t arg = c.args[a];

            if (c.threads[t] > 2 && c.threads[t] > allowed_cpus.size())
                continue;
            auto *b = benchmark::RegisterBenchmark(
                case_name(c, arg).c_str(),
                [&c, arg](benchmark::State &state) { run_case(c, arg, state); });

            /* One thread is timed by its CPU time, which other processes disturb least. */
            if (c.threads[t] > 1)
                b->Threads(static_cast<int>(c.threads[t]))->UseRealTime();
        }
    }
}

#ifdef __clang__
const char compiler[] = __VERSION__;
#else
const char compiler[] = "gcc " __VERSION__;
#endif

/* What salloc says of itself, if it is in the process. */
std::string salloc_version()
{
    auto *version = reinterpret_cast<const char *(*)()>(dlsym(RTLD_DEFAULT, "salloc_version"));

    return version ? version() : "none";
}

std::string malloc_file()
{
    Dl_info info;
    void *p = dlsym(RTLD_DEFAULT, "malloc");

    return p && dladdr(p, &info) && info.dli_fname ? info.dli_fname : "unknown";
}

/* Whether malloc comes from a file that is called as expected. */
bool expected_malloc(const char *name)
{
    std::string file = malloc_file();
    size_t slash = file.rfind('/');
    std::string base = slash == std::string::npos ? file : file.substr(slash + 1);

    if (base.compare(0, strlen(name), name) == 0)
        return true;
    fprintf(stderr, "malloc comes from %s, not from %s\n", file.c_str(), name);
    return false;
}

/* Takes the options that are this file's own out of argv. */
bool take_options(int *argc, char **argv)
{
    static const char expect[] = "--expect-malloc=";
    int kept = 1;

    for (int i = 1; i < *argc; i++) {
        if (strncmp(argv[i], expect, sizeof(expect) - 1) == 0) {
            if (!expected_malloc(argv[i] + sizeof(expect) - 1))
                return false;
        } else if (strcmp(argv[i], "--pin") == 0) {
            pin_single = true;
        } else {
            argv[kept++] = argv[i];
        }
    }
    argv[kept] = nullptr;
    *argc = kept;
    return true;
}

} // namespace

void perf_fail(const char *what)
{
    fprintf(stderr, "perf: %s\n", what);
    abort();
}

int main(int argc, char **argv)
{
    find_cpus();
    benchmark::Initialize(&argc, argv);
    if (!take_options(&argc, argv) || benchmark::ReportUnrecognizedArguments(argc, argv))
        return 2;
    for (const perf_case *cases :
         {perf_small, perf_live, perf_pipe, perf_large, perf_mixed, perf_tree})
        for (const perf_case *c = cases; c->name; c++)
            register_case(*c);
    benchmark::AddCustomContext("malloc", malloc_file());
    benchmark::AddCustomContext("free_sized", dlsym(RTLD_DEFAULT, "free_sized") ? "yes" : "no");
    benchmark::AddCustomContext("salloc_version", salloc_version());
    benchmark::AddCustomContext("compiler", compiler);
    if (benchmark::RunSpecifiedBenchmarks() == 0) {
        fprintf(stderr, "no workload of this name\n");
        return 2;
    }
    benchmark::Shutdown();
    return 0;
}
