/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel is not asked again whether pages of a thread's own stack can be read, wherever the
 * stack ends. The end that is special is that at the start of a page, where the pages that were
 * asked about end, too; a process finds itself there once in 256 times, so this one starts itself
 * again until it is there.
 */
#include "sampling/stack/unwind.h"
#include "test/support/cmocka.h"
#include "test/support/stack_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#ifdef SA_UNWIND_FAST

extern void *__libc_stack_end;

static unsigned asked;

bool __real_sa_sys_is_readable(const void *p);
bool __wrap_sa_sys_is_readable(const void *p)
{
    asked++;
    return __real_sa_sys_is_readable(p);
}

static void test_unwind_stack_end_is_asked_about_once(void **state)
{
    (void)state;
    assert_int_equal((uintptr_t)__libc_stack_end % 4096, 0);
    for (int i = 0; i < 10; i++) { /* one call, or it is another stack */
        stack_frames_start(NULL);
        asked = 0;
        stack_frames_next(25); /* frames of some pages */
        stack_frames_expect();
        assert_true(i ? asked == 0 : asked > 1);
    }
}

/* More environment moves the stack down, by steps of 16 bytes. */
static void start_again(char **argv)
{
    const char *before = getenv("PADDING");
    size_t length = (before ? strlen(before) : 16) + (uintptr_t)__libc_stack_end % 4096;
    char padding[8192];

    if (length >= sizeof(padding))
        length -= 4096;
    if (personality(ADDR_NO_RANDOMIZE) < 0) {
        puts("1..0 # SKIP the stack cannot be put where it is wanted");
        exit(0);
    }
    memset(padding, 'x', length);
    padding[length] = '\0';
    if (setenv("PADDING", padding, 1) || execv("/proc/self/exe", argv))
        abort();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unwind_stack_end_is_asked_about_once),
    };

    (void)argc;
    if ((uintptr_t)__libc_stack_end % 4096)
        start_again(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("1..0 # SKIP no such walks here");
    return 0;
}

#endif
