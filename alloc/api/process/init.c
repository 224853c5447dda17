/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start-up, in two steps.
 *
 * 1. The first allocation, or the first call of another public function, makes the allocator usable
 * (sa_init_slow). It may come before any constructor has run and before libc is initialised. So it
 * calls no libc function that allocates, and takes no lock of libc.
 *
 * 2. The constructor adds what needs a working libc: fork handlers, threads, and reports at exit.
 *
 * Either step may come first. Both hold INIT, which guards the variables of this file.
 */
#include "alloc/api/init.h"

#include "alloc/api/control/background.h"
#include "alloc/api/control/control.h"
#include "alloc/api/process/fork_handlers.h"
#include "alloc/api/entry/limit_options.h"
#include "alloc/api/options/options.h"
#include "alloc/api/control/own_thread.h"
#include "alloc/api/options/options_text.h"
#include "alloc/api/control/output.h"
#include "alloc/api/replaced.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/hardening.h"
#include "alloc/base/layout.h"
#include "alloc/base/rng.h"
#include "alloc/base/size_class.h"
#include "alloc/start/fast_path_open.h"
#include "alloc/start/map_shares.h"
#include "alloc/front/mismatch.h"
#include "alloc/hardening/inspect.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/hardening/watched.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/topology.h"
#include "alloc/os/filter.h"
#include "alloc/os/lock.h"
#include "alloc/os/percpu.h"
#include "alloc/os/rseq.h"
#include "alloc/output/stderr_file.h"
#include "alloc/os/vdso.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/fault_handler.h"
#include "sampling/guard/guard_policy.h"
#include "sampling/guard/guarded.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/reporting.h"
#include "sampling/guard/sample_quarantine.h"
#include "sampling/record/recording.h"
#include "sampling/sampler/sampler.h"
#include "sampling/stack/stack.h"
#include "stats/report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* Guarded slots: the option's default (alloc/api/options/options.def), and that of the levels of
 * hardening. */
#define SLOTS_FEW      128
#define SLOTS_HARDENED 1024

/* The least quarantine in bytes where all blocks are checked; the option may ask for more. */
#define HARDENED_QUARANTINE (8ul << 20)

/* hardening:sampled guards this many samples before the pace of its budget counts: 0.35 ms in every
 * process, more where sample_interval was set. */
#define GUARDED_AT_START 32
#define GUARDED_IF_SET   128

SA_START_DATA unsigned char sa_init_done;

static SA_START_DATA struct sa_lock init_lock; /* INIT */

/* The state of the options. OPTIONS_NONE: SALLOC_CONF is not set, and the defaults
 * (sa_options_default) are still to be stored. */
static SA_START_DATA enum {
    OPTIONS_UNKNOWN,
    OPTIONS_NONE,
    OPTIONS_READ
} options SA_GUARDED_BY(SA_RANK_INIT);

/* libc may not be ready when the first allocation comes: before the constructor of a static
 * program. */
#ifdef SA_STATIC
static SA_START_DATA bool libc_early SA_GUARDED_BY(SA_RANK_INIT) = true;
#else
static const bool libc_early = false;
#endif

/* A reference, so that a static program contains layout_table.c. */
SA_LAYOUT_ADDRESS(sa_layout_main);

static void init_options(bool quiet) SA_REQUIRES(SA_RANK_INIT)
{
    if (options == OPTIONS_UNKNOWN)
        sa_options_read(quiet);
    else if (options == OPTIONS_NONE)
        sa_options_default(&sa_options);
    /* A process with more rights than its user (setuid). A report would show addresses, and read
     * files with rights that the user does not have. */
    if (getauxval(AT_SECURE)) {
        sa_options.guarded_sample = sa_options.sample_quarantine = 0;
        sa_options.mismatch = sa_options.mismatch && sa_options.hardening == SA_HARDENING_ON;
    }
    sa_mismatch_on = SA_HARDENED || sa_options.mismatch;
    if (!sa_options.guarded_sample && !sa_options.sample_quarantine)
        sa_fault_forbid();
    options = OPTIONS_READ;
}

/* Switches on the hardening that the options ask for. A hardened build always has all of it. */
static void init_hardening(void)
{
    bool all = SA_HARDENED || sa_options.hardening == SA_HARDENING_ON;
    struct sa_hardening wanted = {
        .sampled = !all && sa_options.hardening == SA_HARDENING_SAMPLED,
        .canaries = all,
        .scatter = all,
        .guards = all,
        .watch = all && sa_options.guarded_sample && sa_options.sample_interval,
        .junk_new = (sa_options.junk & SA_JUNK_ALLOC) != 0,
        .junk_freed = all || (sa_options.junk & SA_JUNK_FREE),
        .quarantine_bytes =
            all ? sa_max(sa_options.quarantine, HARDENED_QUARANTINE) : sa_options.quarantine,
    };
    uint64_t secret[4];

    if (!all && !wanted.sampled && !wanted.junk_new && !wanted.junk_freed &&
        !wanted.quarantine_bytes)
        return;
    sa_vm_secret(secret, 4);
    sa_hardening_init(&wanted, secret);
    sa_quarantine_init(wanted.quarantine_bytes);
    if (wanted.watch)
        sa_watched_init();
    if (wanted.sampled)
        sa_guarded_init_zero(SLOTS_HARDENED);
}

/* A level of hardening changes the defaults of other options. */
SA_RARE static SA_NOINLINE void init_level(void)
{
    if (!sa_option_is_given(&sa_options, SA_OPTION_KEY_guarded_slots))
        sa_options.guarded_slots = SLOTS_HARDENED;
    /* Each sample is guarded, because a sampled block is not watched: without a guard it would have
     * less protection than the others. */
    if (!sa_option_is_given(&sa_options, SA_OPTION_KEY_guarded_sample))
        sa_options.guarded_sample = 1;
}

/* Makes the system calls of start-up, when the library is loaded. At the first allocation, which
 * may come much later, a filter that the program has installed may allow none of them. */
static SA_START_CODE void init_ask(void) SA_REQUIRES(SA_RANK_INIT)
{
    bool given = options == OPTIONS_READ;

    if (given && sa_options.filtered)
        sa_filter_note();
    sa_pagemap_close(); /* now, because the program may lock its memory before it allocates */
    sa_rseq_init(!given || sa_options.per_cpu);
}

/*
 * Makes the linker let the loader bind what slow paths call of libc when the library is loaded. A
 * function that is bound at its first call is looked up on the stack of that call: 3 KB more, and
 * the processor's vector registers. The address of a function, taken here, is what the linker asks
 * for.
 */
SA_START_CODE static void init_bind(void)
{
    __asm__ volatile("" ::"r"(memcpy), "r"(memmove), "r"(memset), "r"(memcmp));
    __asm__ volatile("" ::"r"(memchr), "r"(strlen), "r"(__errno_location));
}

/* Notes what stderr is, before anything is written there. */
static SA_START_CODE void init_stderr(void) SA_REQUIRES(SA_RANK_INIT)
{
    if (sa_stderr_file_note())
        sa_stderr_file_note_journal(sa_options_variable("JOURNAL_STREAM="));
    sa_reporting_path = sa_options.report.text;
    sa_fatal_warn = sa_reporting_warn;
}

void sa_init_slow(void)
{
    int saved = errno;

    init_bind();
    sa_lock_acquire(&init_lock, SA_RANK_INIT);
    if (!sa_init_done) {
        sa_pagemap_open_variables();
        init_stderr();
        init_options(false);
        sa_fatal_report = sa_misuse_fatal;
        sa_vm_init();
        if (sa_options.address_seed)
            sa_vm_set_seed(sa_options.address_seed);
        sa_vm.names = sa_options.map_names;
        sa_vdso_init();
        init_ask();
        if (SA_HARDENED || sa_options.hardening)
            init_level();
        /* By default the mappings are few enough for every kernel. */
        if (SA_HARDENED || sa_options.hardening || sa_options.quarantine ||
            sa_options.guarded_slots > SLOTS_FEW)
            sa_map_shares(&sa_options.guarded_slots, &sa_options.sample_quarantine);
        init_hardening();
        sa_size_class_init(sa_vm.page_bytes, SA_SLAB_BEGIN / 8, sizeof(struct sa_slab) / 8);
        sa_pagemap_init();
        sa_page_heap_init(sa_vm.seed);
        sa_page_heap_set_hugepages(&sa_page_heap_ordinary, sa_options.hugepages);
        sa_sampler_init((int64_t)sa_options.sample_interval,
                        sa_options.sample_seed ? sa_options.sample_seed : sa_rng_mix(~sa_vm.seed));
        sa_guard_policy_init(sa_options.guarded_sample, sa_sampler_stream(SA_SLABS));
        if (sa_hardening.sampled && sa_options.guarded_sample == 1)
            sa_guard_policy_bound(sa_option_is_given(&sa_options, SA_OPTION_KEY_sample_interval)
                                      ? GUARDED_IF_SET
                                      : GUARDED_AT_START);
        sa_guarded_init(sa_options.guarded_slots, sa_sampler_stream(SA_SLABS + 1));
        sa_sample_quarantine_init(sa_options.sample_quarantine, sa_sampler_stream(SA_SLABS + 2));
        sa_sample_set_by_thread(sa_options.profile_threads);
        sa_sample_rates_optimise(sa_options.optimal_rates);
        sa_mixed_use = sa_options.mixed_spans;
        sa_stack_capture_wait(libc_early);
        sa_front_init(sa_options.cpu_cache);
        sa_replaced_init();
        sa_report_options = sa_options_report;
        sa_store_release(&sa_init_done, 1);
    }
    sa_lock_release(&init_lock, SA_RANK_INIT);
    errno = saved;
}

SA_RARE static void *init_topology(void *unused)
{
    sa_maintenance_topology();
    return unused;
}

/* Starts a thread that asks for the cache topology. hwloc takes long,
 * allocates, and takes the loader's lock, which this thread may hold. */
SA_RARE static void init_start_topology(void)
{
    struct sa_own_thread thread = {.body = init_topology, .detached = true};
    sigset_t mask;
    pthread_t unused;

    sa_own_thread_create(&thread, &mask, &unused);
}

/* Applies the options that need a working libc. Not called if SALLOC_CONF is not set: by default
 * there is nothing to apply. */
SA_RARE static SA_NOINLINE void init_what_is_asked_for(void)
{
    sa_limits_read_options();
    sa_background_read_options();
    sa_output_register();
    sa_control_start();
    if (sa_options.llc_domains && sa_topology_may_matter())
        init_start_topology();
}

/* Step 2. A process that never allocates does little here, on pages that the loader has touched
 * anyway (SA_START_CODE). */
__attribute__((constructor(101))) static SA_START_CODE void init_constructor(void)
{
    bool given;

    sa_replaced_ask();
    sa_lock_acquire(&init_lock, SA_RANK_INIT);
    sa_pagemap_open_variables();
    init_stderr();
    if (options == OPTIONS_UNKNOWN) {
        if (sa_options_find())
            init_options(sa_replaced_serves_nobody());
        else
            options = OPTIONS_NONE;
    }
    given = options == OPTIONS_READ;
    init_ask();
#ifdef SA_STATIC
    libc_early = false;
    sa_stack_capture_wait(false);
#endif
    sa_lock_release(&init_lock, SA_RANK_INIT);
    sa_fork_register();
    if (SA_HARDENED || (given && sa_options.hardening)) {
        sa_init(); /* takes random numbers from the kernel */
        atexit(sa_inspect_all);
    }
    if (given)
        init_what_is_asked_for();
}
