/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In builds for coverage (-Db_coverage=true) only: counters of a process are also written when it
 * aborts or leaves by _exit, as children of tests do. Part of the core, which is linked with --wrap
 * for both.
 */
#include <stdlib.h>
#include <unistd.h>

extern void __gcov_dump(void);
_Noreturn void __real_abort(void);
_Noreturn void __wrap_abort(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

void __wrap_abort(void)
{
    __gcov_dump();
    __real_abort();
}

void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
