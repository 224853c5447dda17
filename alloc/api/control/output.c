/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the stats page and the profiles are written: at exit, at a signal, every so many seconds,
 * and when the heap has grown; see doc/tuning.md.
 *
 * The handler of exit and quick_exit writes on the thread that exits. All else is for a thread of
 * its own, which exists only if an option needs it. A signal handler may interrupt any code, and
 * growth is found inside of malloc, so both only ring the bell that the thread waits for. The
 * thread blocks all signals but those of the options. A program that blocks such a signal in all of
 * its own threads, for sigwait or for another reason, thus has it delivered here. A child of fork
 * gets a thread of its own.
 *
 * A program may put a handler of its own in the place of the options'. Nobody would then learn why
 * no file comes. The thread therefore looks 1, 10, 100 and 1000 seconds after its start, as does
 * the handler of exit, and a line on stderr tells it once; the stats page does each time.
 *
 * The mutex `writing` is held while a page or a profile is made and written, and guards the
 * variables of stats_output.c and profile_output.c. It is a mutex of libc: its holder holds no lock
 * of the allocator.
 */
#include "alloc/api/control/output.h"

#include "alloc/api/control/exit_signals.h"
#include "alloc/api/options/options.h"
#include "alloc/api/options/options_text.h"
#include "alloc/api/control/own_thread.h"
#include "alloc/api/control/profile_output.h"
#include "alloc/api/replaced.h"
#include "alloc/api/control/stats_output.h"
#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/base/layout.h"
#include "alloc/fork/vfork.h"
#include "alloc/os/clock.h"
#include "alloc/output/parent_process.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/peak.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* The stack of the thread. The functions that write a profile use less than 1/10 of it. */
#define STACK_BYTES (512 * 1024)

#define SECOND_NS 1000000000ull

/* When the thread looks whether its handlers are still there: after FIRST_LOOK_S seconds, and each
 * time after LOOK_FACTOR times as long, up to LAST_LOOK_S. Programs install handlers as they
 * start; few wake-ups keep an idle process idle. */
#define FIRST_LOOK_S 1
#define LOOK_FACTOR  10
#define LAST_LOOK_S  1000

/* What is written, as bits. */
enum { PAGE = 1, PROFILE = 2 };

static SA_START_DATA struct {
    uint32_t wanted; /* PAGE, PROFILE: those that have a destination. Const after the constructor */
    uint32_t asked; /* atomic: PAGE, PROFILE: signals ask for them. Handlers set bits (release), the
                       thread takes all (acquire) */
    uint32_t bell;  /* atomic: changes when the thread is to look. Signal handlers and slow paths
                       add 1; the thread waits for a change */
    bool over;      /* under `writing`: the process exits, and the last file is written */
    uint32_t replaced; /* atomic: PAGE, PROFILE: those whose signal has another handler now, as last
                          looked at. Set to the same by all who look */
    uint32_t told;     /* atomic: those of which stderr was told */
    pthread_mutex_t writing;
} output = {.writing = PTHREAD_MUTEX_INITIALIZER};

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("output", output, replaced),
};
SA_LAYOUT_STATIC_ADDRESS("output", output);

static void output_signal(int number);

/* Looks whose handlers are still there. Allocates nothing. */
static uint32_t output_look(void)
{
    const int numbers[] = {sa_options.stats_signal, sa_options.profile_signal};
    uint32_t replaced = 0;
    struct sigaction now;

    for (unsigned i = 0; i < 2; i++)
        if (numbers[i] && sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != output_signal)
            replaced |= PAGE << i;
    sa_store_relaxed(&output.replaced, replaced);
    return replaced;
}

bool sa_output_signal_is_replaced(enum sa_option_key key)
{
    return output_look() & (key == SA_OPTION_KEY_stats_signal ? PAGE : PROFILE);
}

/* Tells of what is wanted, but not at its signal. */
static void output_tell_replaced(void)
{
    static const enum sa_option_key keys[] = {SA_OPTION_KEY_stats_signal,
                                              SA_OPTION_KEY_profile_signal};
    uint32_t news = output_look() & output.wanted;

    news &= ~__atomic_fetch_or(&output.told, news, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 2; i++) {
        const struct sa_option_info *info = &sa_option_infos[keys[i]];
        char name[32];
        struct sa_fmt f;

        if (!(news & PAGE << i))
            continue;
        sa_fmt_init(&f, name, sizeof(name));
        sa_option_add_value(&f, info, sa_option_load(info, &sa_options));
        sa_warn("%s:%s: the program has its own handler of this signal; nothing is written at it "
                "unless that one calls salloc's",
                info->key, name);
    }
}

/* Writes what is wanted of `what`. last: nothing is written after it. */
static void output_write(uint32_t what, bool last)
{
    pthread_mutex_lock(&output.writing);
    if (!output.over) {
        if (what & output.wanted & PROFILE)
            sa_profile_output_write();
        if (what & output.wanted & PAGE)
            sa_stats_output_write();
        output.over = last;
    }
    pthread_mutex_unlock(&output.writing);
}

/* A child of vfork that exits, against the rules, must not change the state of its parent. */
static void output_at_exit(void)
{
    if (sa_vfork_is_child())
        return;
    if (sa_thread.gate_depth) { /* a signal handler that exits; a lock may be held */
        sa_warn("exit inside of malloc: no profile and no stats page are written");
        return;
    }
    output_tell_replaced();
    sa_exit_signals_serve(0); /* this thread holds the mutex: a signal would wait in vain */
    output_write(PAGE | PROFILE, true);
}

/* Times that come every so many seconds. 0: there are none. */
struct beat {
    uint64_t period_ns, next_ns;
};

static struct beat beat_begin(uint64_t seconds)
{
    uint64_t period = seconds * SECOND_NS;

    return (struct beat){period, period ? sa_clock_ns() + period : UINT64_MAX};
}

/* Whether a time has come. Times that were missed meanwhile are skipped. */
static bool beat_is_due(struct beat *beat, uint64_t now)
{
    if (now < beat->next_ns)
        return false;
    beat->next_ns += ((now - beat->next_ns) / beat->period_ns + 1) * beat->period_ns;
    return true;
}

/* Looks at the handlers when it is time, and returns when it is next. seconds: the time that the
 * last look has come after, and the next comes after. */
static uint64_t output_watch(uint64_t *seconds, uint64_t next, uint64_t now)
{
    if (now < next)
        return next;
    if (*seconds)
        output_tell_replaced();
    *seconds = *seconds ? *seconds * LOOK_FACTOR : FIRST_LOOK_S;
    return *seconds > LAST_LOOK_S ? UINT64_MAX : now + *seconds * SECOND_NS;
}

static void *output_thread(void *unused)
{
    bool listens = sa_options.profile_signal || sa_options.stats_signal;
    uint64_t look_after = 0, look = listens ? 0 : UINT64_MAX;
    struct beat pages = beat_begin(sa_options.stats_every);
    struct beat profiles = beat_begin(sa_options.profile_every);
    sigset_t own;

    sa_sys_name_thread("salloc-output");
    sigemptyset(&own);
    if (sa_options.profile_signal)
        sigaddset(&own, sa_options.profile_signal);
    if (sa_options.stats_signal)
        sigaddset(&own, sa_options.stats_signal);
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    for (;;) {
        uint32_t bell = sa_load_acquire(&output.bell), what = sa_xchg_acquire(&output.asked, 0);
        uint64_t now = sa_clock_ns(), next;
        bool grown = sa_options.profile_growth && sa_in_use_has_grown();

        look = output_watch(&look_after, look, now);
        next = sa_min(sa_min(pages.next_ns, profiles.next_ns), look);
        if (beat_is_due(&pages, now))
            what |= PAGE;
        if (beat_is_due(&profiles, now) || grown)
            what |= PROFILE;
        if (sa_exit_signals_pending()) {
            output_write(PAGE | PROFILE, true);
            sa_exit_signals_done();
        } else if (what)
            output_write(what, false); /* signals that come meanwhile lead to one more file */
        else
            sa_sys_futex_wait(&output.bell, bell, next == UINT64_MAX ? -1 : (int64_t)(next - now));
        if (grown)
            sa_in_use_watch(sa_options.profile_growth, &output.bell);
    }
    return unused;
}

/* Starts the thread, if an option needs it. */
static void output_start_thread(void)
{
    const struct sa_options *o = &sa_options;
    struct sa_own_thread thread = {
        .body = output_thread, .stack_bytes = STACK_BYTES, .detached = true};
    sigset_t mask;
    pthread_t unused;
    bool for_page = o->stats_signal || o->stats_every;
    bool for_profile = o->profile_signal || o->profile_every || o->profile_growth;

    if (!(for_page && output.wanted & PAGE) && !(for_profile && output.wanted & PROFILE) &&
        !(o->exit_signals && output.wanted))
        return;
    if (o->profile_growth) /* now, and not when the thread runs */
        sa_in_use_watch(o->profile_growth, &output.bell);
    sa_exit_signals_serve(sa_sys_pid()); /* a signal that comes now waits for the thread */
    if (sa_own_thread_create(&thread, &mask, &unused) != 0) {
        sa_exit_signals_serve(0);
        sa_warn("SALLOC_CONF: cannot create the thread that writes files");
    }
}

static void output_signal(int number)
{
    int saved = errno;
    uint32_t what = (number == sa_options.stats_signal ? PAGE : 0u) |
                    (number == sa_options.profile_signal ? PROFILE : 0u);

    __atomic_fetch_or(&output.asked, what, __ATOMIC_RELEASE);
    sa_add_seq_cst(&output.bell, 1);
    sa_sys_futex_wake(&output.bell, 1);
    errno = saved;
}

/* Installs the signal handler, also if there is nothing to write: the default action of the signal
 * would end the program. */
static void output_listen(const char *option, int number)
{
    struct sigaction action = {.sa_handler = output_signal, .sa_flags = SA_RESTART | SA_ONSTACK};

    if (!number)
        return;
    sigfillset(&action.sa_mask);
    if (sigaction(number, &action, NULL) != 0)
        sa_warn("%s: cannot handle signal %d", option, number);
}

/* Prints which options have no effect. */
static void output_complain(void)
{
    static const struct {
        char key[16], of[8];
        enum sa_option_key number;
        uint32_t what;
    } rows[] = {
        {"stats_signal", "stats", SA_OPTION_KEY_stats_signal, PAGE},
        {"stats_every", "stats", SA_OPTION_KEY_stats_every, PAGE},
        {"profile_signal", "profile", SA_OPTION_KEY_profile_signal, PROFILE},
        {"profile_every", "profile", SA_OPTION_KEY_profile_every, PROFILE},
        {"profile_growth", "profile", SA_OPTION_KEY_profile_growth, PROFILE},
    };

    /* A path that does not do was complained of before. */
    uint32_t named =
        (sa_options.stats.text[0] ? PAGE : 0u) | (sa_options.profile.text[0] ? PROFILE : 0u);

    if (sa_options.exit_signals && !named)
        sa_warn("SALLOC_CONF: exit_signals without stats or profile: nothing is written");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (sa_option_is_given(&sa_options, rows[i].number) && !(named & rows[i].what))
            sa_warn("SALLOC_CONF: %s without %s: nothing is written", rows[i].key, rows[i].of);
}

void sa_output_register(void)
{
    bool may = sa_options.stats.text[0] || sa_options.profile.text[0];
    const char *conf = may ? sa_options_find() : NULL;
    bool nested = conf && sa_parent_has_conf(conf);

    output.wanted = (sa_stats_output_register(nested) ? PAGE : 0u) |
                    (sa_profile_output_register(nested) ? PROFILE : 0u);
    if (output.wanted) {
        atexit(output_at_exit);
        at_quick_exit(output_at_exit);
    }
    if (!sa_replaced_serves_nobody()) {
        output_complain();
        output_start_thread();
    }
    output_listen("profile_signal", sa_options.profile_signal);
    output_listen("stats_signal", sa_options.stats_signal);
    if (sa_options.exit_signals && output.wanted)
        sa_exit_signals_register(&output.bell); /* last: not those of the other options */
}

SA_FORK void sa_output_after_fork(bool threads)
{
    if (!output.wanted)
        return;
    sa_stats_output_after_fork();
    sa_profile_output_after_fork();
    /* A thread of the parent may have held the mutex. */
    output.writing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    output.over = false;
    sa_store_relaxed(&output.asked, 0);
    sa_exit_signals_after_fork();
    if (threads) {
        int saved = errno;

        output_start_thread();
        errno = saved;
    }
}
