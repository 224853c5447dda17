/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork at the worst moment of writing a recording: it has just been stopped, and the next one is
 * not started yet. The child's file must be written at its exit, and nothing be complained about.
 */
#include "alloc/api/control/profile_output.h"

#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/api/replaced.h"
#include "alloc/fork/fork_gate.h"
#include "sampling/symbolize/mappings.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* profile.c is linked without the start of the whole library. */
unsigned char sa_init_done = 1;

void sa_init_slow(void)
{
}

bool sa_replaced_serves_nobody(void)
{
    return false;
}

static int forks;  /* when the next recording is stopped */
static int forked; /* atomic */
static struct test_child child;
static pthread_t forking;

/* A child of fork that goes on, as alloc/api/process/fork_handlers.c lets it, and exits. Its file
 * has the names of the program and of the process before the ending. */
static void child_exits(void *unused)
{
    char path[SA_OPTION_PATH_MAX + 100];
    size_t n = strlen(sa_options.profile.text) - strlen(".txt");

    (void)unused;
    snprintf(path, sizeof(path), "%.*s.%s.%d.txt", (int)n, sa_options.profile.text,
             program_invocation_short_name, (int)getpid());
    sa_fork_gate_reset();
    sa_mappings_after_fork();
    sa_profile_output_after_fork();
    sa_profile_output_write();
    CHILD_CHECK(unlink(path) == 0);
}

/* As fork and its handlers do. */
static void *fork_now(void *unused)
{
    sa_fork_gate_close();
    child = test_child_run(child_exits, NULL);
    sa_fork_gate_open();
    __atomic_store_n(&forked, 1, __ATOMIC_RELEASE);
    return unused;
}

salloc_profile *__real_salloc_profile_token_stop(salloc_profile_token *token);
salloc_profile *__wrap_salloc_profile_token_stop(salloc_profile_token *token);

/* Gives another thread time to fork; if it has to wait for this one, only until it waits. */
salloc_profile *__wrap_salloc_profile_token_stop(salloc_profile_token *token)
{
    salloc_profile *profile = __real_salloc_profile_token_stop(token);

    if (forks) {
        forks = 0;
        assert_int_equal(pthread_create(&forking, NULL, fork_now, NULL), 0);
        while (!sa_fork_gate_is_closed() && !__atomic_load_n(&forked, __ATOMIC_ACQUIRE))
            usleep(1000);
        for (int i = 0; i < 200 && !__atomic_load_n(&forked, __ATOMIC_ACQUIRE); i++)
            usleep(1000);
    }
    return profile;
}

static void test_profile_output_forks_between_two_recordings(void **state)
{
    char folder[] = "/tmp/salloc-output-XXXXXX";

    (void)state;
    test_start(TEST_CACHE_LIMIT);
    assert_non_null(mkdtemp(folder));
    strcpy(sa_options.profile.text, folder);
    strcat(sa_options.profile.text, "/recorded.txt");
    sa_options.profile_type.of[0] = SALLOC_PROFILE_ALLOCATIONS;
    assert_true(sa_profile_output_register(false));
    forks = 1;
    sa_profile_output_write();
    assert_int_equal(pthread_join(forking, NULL), 0);
    assert_int_equal(child.exit_code, 0);
    assert_string_equal(child.text, "");
    assert_int_equal(unlink(sa_options.profile.text), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile_output_forks_between_two_recordings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
