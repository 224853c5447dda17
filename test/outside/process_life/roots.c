/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a conservative collector searches for pointers: all segments that program headers call
 * writable. Of the library that is at most ROOTS_MAX, and its tables are not among them. All of
 * what is searched can be read, and the tables work: blocks of every size, threads and a child.
 */
#include "test/outside/check.h"

#include <link.h>
#include <pthread.h>
#include <sys/wait.h>

#define ROOTS_MAX (512ul << 10)

struct roots {
    size_t library, sum; /* bytes; a sum of the words, so that they are read */
};

static int look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct roots *r = arg;

    (void)bytes;
    if (!strstr(info->dlpi_name, "libsalloc.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const unsigned long *at = (const unsigned long *)(info->dlpi_addr + p->p_vaddr);

        if (p->p_type != PT_LOAD || !(p->p_flags & PF_W))
            continue;
        r->library += p->p_memsz;
        for (size_t n = 0; n < p->p_memsz / sizeof(*at); n++)
            r->sum += at[n];
    }
    return 0;
}

static void *work(void *arg)
{
    for (size_t n = 1; n < 64ul << 20; n = n * 3 / 2 + 1) {
        char *p = malloc(n);

        REQUIRE(p);
        p[0] = p[n - 1] = 1;
        free(p);
    }
    return arg;
}

int main(void)
{
    struct roots r = {0};
    pthread_t thread;
    int status;
    pid_t pid;

    check_begin();
    work(NULL);
    dl_iterate_phdr(look, &r);
    check_say("%zu bytes of the library are searched", r.library);
    CHECK(r.library > 0 && r.library <= ROOTS_MAX);
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_join(thread, NULL);
    pid = fork();
    if (pid == 0) {
        work(NULL);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    return check_end();
}
