/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that cross between objects with operators new and delete of their own, which call malloc
 * and free, and objects with the shared operators. Such a block is not freed by a wrong function,
 * and nothing is said. Mismatches between objects with the shared operators are still found.
 *
 * The program is linked with -static-libstdc++. Its plugins have the same code: one with the shared
 * libstdc++, one with a private copy.
 *
 * usage: private sampled|filtered|hardened SHARED-PLUGIN PRIVATE-PLUGIN
 *   sampled   every block is sampled: a mismatch is reported, and the program goes on
 *   filtered  the same behind a filter that kills
 *   hardened  no block is sampled: a mismatch ends the program
 */
#include "test/outside/mismatch/sides.hh"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/outside/cxx/check.hh"
#include "test/outside/own_stderr.h"

extern "C" const struct side side; /* the program's */

namespace
{

enum where { PROGRAM, SHARED, PRIVATE, SIDES };

constexpr int TIMES = 3, SKIPPED = 77;
constexpr std::size_t sizes[] = {1000, 300001};
bool hardened, filtered, skipped;
const char *const side_names[] = {"the program", "the shared plugin", "the private plugin"};
const char *const maker_names[] = {"malloc", "new", "new[]", "aligned new"};
const char *const ender_names[] = {"free",
                                   "delete",
                                   "delete[]",
                                   "aligned delete",
                                   "sized delete",
                                   "sized delete[]",
                                   "sized aligned delete"};
constexpr kind kind_of_ender[ENDERS] = {MALLOC, NEW, ARRAY, ALIGNED, NEW, ARRAY, ALIGNED};

const struct side *load(const char *path)
{
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!plugin) {
        std::printf("%s\n", dlerror());
        std::exit(1);
    }
    return static_cast<const struct side *>(dlsym(plugin, "side"));
}

/* The calls that the library may make behind a filter, as far as they can come here, and the end.
 */
bool lock_in()
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int errors; /* what is written to stderr */

/* Runs a pair in a child. Returns its status; text: what it wrote on stderr. */
int run(void *(*make)(std::size_t), void (*end)(void *, std::size_t), std::size_t size,
        bool filtered, char *text, std::size_t capacity)
{
    pid_t pid = fork();
    int status = -1;

    if (pid < 0)
        std::exit(1);
    if (pid == 0) {
        if (filtered && !lock_in())
            _exit(SKIPPED);
        for (volatile int i = 0; i < TIMES; i = i + 1)
            end(make(size), size);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    own_stderr_read(errors, text, capacity);
    return status;
}

void test_pair(const struct side *const sides[SIDES], int from, int to, int maker, int ender,
               std::size_t size)
{
    static char text[65536];
    bool same = maker == kind_of_ender[ender], found = !same && from == SHARED && to == SHARED;
    bool said, ended, right;
    int status;

    /* Mismatches of private operators are those of malloc and free. Hardened, nobody knows who
     * called malloc. A sized delete of another kind may be one of another class. */
    if (!same && (!found || ender >= KINDS || (hardened && maker == MALLOC)))
        return;
    status =
        run(sides[from]->make[maker], sides[to]->end[ender], size, filtered, text, sizeof(text));
    if (filtered && WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        skipped = true;
        return;
    }
    said = std::strstr(text, "salloc: mismatched free") != nullptr;
    ended = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    right = found ? said && ended == hardened : !*text && !ended;
    CHECK(right);
    if (!right)
        std::printf("%zu bytes by %s of %s, freed by %s of %s: status %d\n%s", size,
                    maker_names[maker], side_names[from], ender_names[ender], side_names[to],
                    status, text);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    errors = own_stderr_begin(argv);
    hardened = std::strcmp(argv[1], "hardened") == 0;
    filtered = std::strcmp(argv[1], "filtered") == 0;

    const struct side *const sides[SIDES] = {&side, load(argv[2]), load(argv[3])};

    for (int from = 0; from < SIDES; from++)
        for (int to = 0; to < SIDES; to++)
            for (int maker = 0; maker < KINDS; maker++)
                for (int ender = 0; ender < ENDERS; ender++)
                    for (std::size_t size : sizes)
                        test_pair(sides, from, to, maker, ender, size);
    return skipped ? SKIPPED : failures ? 1 : 0;
}
