/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program and makes chosen system calls of libsalloc.so in it fail. A seccomp filter stops
 * the program at each system call, this process looks where it comes from, and lets the kernel do
 * it or not: so nothing in the library or the program knows, start-up is included, and threads and
 * children are, too.
 *
 * A call is the library's if the instruction that makes it is, if it starts a thread in the
 * library, or if the first code outside of libc that is found on the stack is the library's
 * (sigaction, the stack of a thread). The last is a guess: a frame may hold a word of an earlier
 * call. It may be wrong for a call of the program's of the same kind, which must therefore be able
 * to fail as well.
 *
 * usage: tracer LOG FIRST TIMES CALLS LIBRARY PROGRAM [argument ...]
 *   LOG    every call of the library's, one a line: number, arguments, what was done
 *   CALLS  which calls fail, and how: CALL[/ARGUMENT/VALUE]=HOW,...; CALL is a number or *,
 *          ARGUMENT 0 to 5, the first entry that fits counts; HOW is an errno, 0 (it does not),
 *          `short` (half of the bytes) or `nohint` (no address is asked for)
 *   FIRST, TIMES  of the calls that fit, so many succeed, then so many fail; -1: all
 *
 * The system call TRACE_MARK in the program ends all faults. The exit status is the program's, 200
 * + the number of the signal that ended it, 250 if it ran for longer than TRACE_SECONDS
 * or has no end, 77 if processes cannot be traced here.
 */
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#include "test/outside/syscalls/mark.h"

#define TRACE_SECONDS    20
#define STACK_WORDS      400
#define DESCRIPTOR_WORDS 288 /* sizeof(struct pthread) in glibc 2.36 */
#define RULES            64
#define TASKS            256
#define FAULTS_MAX       300000 /* more are a loop without end */

enum how { FAIL, SHORTEN, NO_HINT };

struct rule {
    long call;    /* -1: all */
    int argument; /* -1: whatever they are */
    uint64_t value;
    enum how how;
    int error;
};

struct range {
    uint64_t start, end;
};

static struct {
    struct rule rules[RULES];
    size_t rule_count;
    long first, times, seen, faults;
    bool marked;
    pid_t main, tasks[TASKS];
    size_t task_count;
    struct range library, program;
    FILE *log;
} trace;

static void die(const char *what)
{
    fprintf(stderr, "tracer: %s: %s\n", what, strerror(errno));
    exit(99);
}

static void parse_rules(char *text)
{
    for (char *at, *word = strtok_r(text, ",", &at); word; word = strtok_r(NULL, ",", &at)) {
        struct rule *r = &trace.rules[trace.rule_count++];
        char *how = strchr(word, '=');

        if (!how || trace.rule_count == RULES)
            die("the rules are wrong");
        *how++ = '\0';
        *r = (struct rule){.call = -1, .argument = -1};
        if (*word != '*')
            r->call = strtol(word, &word, 10);
        if (*word == '/') {
            r->argument = (int)strtol(word + 1, &word, 10);
            r->value = strtoull(word + 1, NULL, 10);
        }
        r->how = strcmp(how, "short") == 0 ? SHORTEN : strcmp(how, "nohint") == 0 ? NO_HINT : FAIL;
        r->error = atoi(how);
    }
}

/* In the new process: stops at every system call from exec on. */
static void start_program(const char *library, char **argv)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)};
    struct sock_fprog program = {.len = 1, .filter = filter};

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    raise(SIGSTOP);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        _exit(77);
    setenv("LD_PRELOAD", library, 1);
    execv(argv[0], argv);
    _exit(98);
}

/* Where the code of the library and of the program is; as long as the library is not there, there
 * is no library. */
static void find_code(pid_t pid)
{
    char path[64], line[4400];
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    maps = fopen(path, "re");
    if (!maps)
        return;
    while (fgets(line, sizeof(line), maps)) {
        unsigned long start, end;
        char mode[8], *name = strchr(line, '/');

        if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 || mode[2] != 'x' || !name)
            continue;
        if (strstr(name, "libsalloc.so"))
            trace.library = (struct range){start, end};
        else if (!strstr(name, ".so"))
            trace.program = (struct range){start, end};
    }
    fclose(maps);
}

static bool is_in(const struct range *r, uint64_t address)
{
    return address >= r->start && address < r->end;
}

/* Whether the address is where a call in the library returns to. */
static bool is_return(pid_t pid, uint64_t address)
{
    unsigned char code[6];
    struct iovec here = {code, sizeof(code)};
    struct iovec there = {(void *)(address - sizeof(code)), sizeof(code)};

    return is_in(&trace.library, address) && process_vm_readv(pid, &here, 1, &there, 1, 0) == 6 &&
           (code[1] == 0xe8 || (code[0] == 0xff && code[1] == 0x15) || code[4] == 0xff ||
            code[3] == 0xff);
}

/* Calls that functions of libc's make for the library, other than syscall(). */
static bool by_way_of_libc(const struct ptrace_syscall_info *info)
{
    return info->seccomp.nr == SYS_rt_sigaction ||
           (info->seccomp.nr == SYS_mmap && info->seccomp.args[3] & MAP_STACK);
}

/*
 * Whether a thread starts in the library. glibc passes the thread's descriptor as the fifth
 * argument of clone3, and the first code address in the descriptor is the thread's function.
 */
static bool starts_in_library(pid_t pid, uint64_t descriptor)
{
    uint64_t word[DESCRIPTOR_WORDS];
    struct iovec here = {word, sizeof(word)};
    struct iovec there = {(void *)descriptor, sizeof(word)};
    ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);

    for (ssize_t i = 0; i < got / 8; i++) {
        if (is_in(&trace.library, word[i]))
            return true;
        if (is_in(&trace.program, word[i]))
            return false;
    }
    return false;
}

static bool is_of_library(pid_t pid, const struct ptrace_syscall_info *info)
{
    uint64_t stack[STACK_WORDS];
    struct iovec here = {stack, sizeof(stack)};
    struct iovec there = {(void *)info->stack_pointer, sizeof(stack)};
    ssize_t got;

    if (is_in(&trace.library, info->instruction_pointer))
        return true;
    if (info->seccomp.nr == SYS_clone3)
        return starts_in_library(pid, info->seccomp.args[4]);
    got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got < 8) { /* near the end of the stack */
        here.iov_len = there.iov_len = 8;
        got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    }
    if (got < 8)
        return false;
    for (ssize_t i = 0; i < got / 8 && by_way_of_libc(info); i++) {
        if (is_return(pid, stack[i]))
            return true;
        if (is_in(&trace.program, stack[i]))
            return false;
    }
    return false;
}

static const struct rule *rule_for(const struct ptrace_syscall_info *info)
{
    for (size_t i = 0; i < trace.rule_count; i++) {
        const struct rule *r = &trace.rules[i];

        if ((r->call < 0 || (uint64_t)r->call == info->seccomp.nr) &&
            (r->argument < 0 || info->seccomp.args[r->argument] == r->value))
            return r;
    }
    return NULL;
}

static void set_register(pid_t pid, size_t at, uint64_t value)
{
    if (ptrace(PTRACE_POKEUSER, pid, at, value) != 0 && errno != ESRCH)
        die("PTRACE_POKEUSER");
}

static void apply(pid_t pid, const struct rule *r, const struct ptrace_syscall_info *info)
{
    if (r->how == SHORTEN && (info->seccomp.nr == SYS_read || info->seccomp.nr == SYS_write)) {
        set_register(pid, offsetof(struct user_regs_struct, rdx), (info->seccomp.args[2] + 1) / 2);
    } else if (r->how == NO_HINT && info->seccomp.nr == SYS_mmap &&
               !(info->seccomp.args[3] & MAP_FIXED)) {
        set_register(pid, offsetof(struct user_regs_struct, rdi), 0);
    } else if (r->how == FAIL) {
        set_register(pid, offsetof(struct user_regs_struct, orig_rax), (uint64_t)-1);
        set_register(pid, offsetof(struct user_regs_struct, rax), (uint64_t)(int64_t)-r->error);
    }
}

static void end_all(int status)
{
    fclose(trace.log);
    for (size_t i = 0; i < trace.task_count; i++)
        kill(trace.tasks[i], SIGKILL);
    exit(status);
}

static void at_call(pid_t pid)
{
    struct ptrace_syscall_info info;
    const struct rule *r;
    bool due = false;

    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_SECCOMP)
        return;
    if (info.seccomp.nr == TRACE_MARK) {
        trace.marked = true;
        fprintf(trace.log, "mark\n");
        return;
    }
    if (info.seccomp.nr == TRACE_NOTE)
        fprintf(trace.log, "note %llu\n", (unsigned long long)info.seccomp.args[0]);
    if (info.seccomp.nr == SYS_rt_sigreturn || info.seccomp.nr == TRACE_NOTE)
        return;
    if (!trace.library.start)
        find_code(pid);
    if (!trace.library.start || !is_of_library(pid, &info) || trace.marked)
        return;
    r = rule_for(&info);
    if (r) {
        due = trace.seen >= trace.first &&
              (trace.times < 0 || trace.seen < trace.first + trace.times) &&
              (r->how != FAIL || r->error);
        trace.seen++;
    }
    fprintf(trace.log, "%llu %#llx %#llx %#llx %#llx%s\n", (unsigned long long)info.seccomp.nr,
            (unsigned long long)info.seccomp.args[0], (unsigned long long)info.seccomp.args[1],
            (unsigned long long)info.seccomp.args[2], (unsigned long long)info.seccomp.args[3],
            due ? " fault" : "");
    if (due && ++trace.faults == FAULTS_MAX)
        end_all(250);
    if (due)
        apply(pid, r, &info);
}

/* Whether the task is new: its first stop is the tracer's and not a signal for it. */
static bool task_add(pid_t pid)
{
    for (size_t i = 0; i < trace.task_count; i++)
        if (trace.tasks[i] == pid)
            return false;
    if (trace.task_count == TASKS)
        die("too many tasks");
    trace.tasks[trace.task_count++] = pid;
    return true;
}

static void task_remove(pid_t pid)
{
    for (size_t i = 0; i < trace.task_count; i++)
        if (trace.tasks[i] == pid)
            trace.tasks[i--] = trace.tasks[--trace.task_count];
}

static volatile sig_atomic_t late;

static void at_alarm(int number)
{
    (void)number;
    late = 1;
}

static void follow(void)
{
    for (;;) {
        int status, signal_number = 0;
        pid_t pid = waitpid(-1, &status, __WALL);

        if (pid < 0 || late)
            end_all(late ? 250 : 99);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            task_remove(pid);
            if (pid == trace.main)
                end_all(WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status));
            continue;
        }
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8))
            at_call(pid);
        else if (status >> 16 == 0 && !(task_add(pid) && WSTOPSIG(status) == SIGSTOP))
            signal_number = WSTOPSIG(status);
        ptrace(PTRACE_CONT, pid, NULL, signal_number);
    }
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = at_alarm};
    int status;

    if (argc < 7)
        die("usage");
    trace.log = fopen(argv[1], "we");
    trace.first = atol(argv[2]);
    trace.times = atol(argv[3]);
    if (!trace.log)
        die(argv[1]);
    parse_rules(argv[4]);
    trace.main = fork();
    if (trace.main == 0)
        start_program(argv[5], argv + 6);
    if (trace.main < 0)
        die("fork");
    if (waitpid(trace.main, &status, 0) != trace.main)
        die("waitpid");
    if (!WIFSTOPPED(status))
        return WIFEXITED(status) ? WEXITSTATUS(status) : 77;
    task_add(trace.main);
    sigaction(SIGALRM, &action, NULL);
    alarm(TRACE_SECONDS);
    if (ptrace(PTRACE_SETOPTIONS, trace.main, NULL,
               PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) != 0)
        die("PTRACE_SETOPTIONS");
    ptrace(PTRACE_CONT, trace.main, NULL, 0);
    follow();
}
