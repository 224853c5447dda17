/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose first thread has ended while others go on: the kernel then shows no memory and no
 * files under its PID, only under those of the threads that live.
 * usage: first_thread pthread_exit | exit | later | relay
 *   pthread_exit  the first thread ends by pthread_exit
 *   exit          by the system call
 *   later         by pthread_exit at the first byte of standard input
 *   relay         each thread starts the next one and ends, five times
 * The last thread holds memory of hold(), says "ready", and waits for its standard input to end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCKS 2000
#define RELAYS 5

static void *volatile blocks[BLOCKS];

__attribute__((noinline, noclone)) static void hold(void)
{
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(20000), 1, 20000);
}

static void *last(void *arg)
{
    char byte;

    hold();
    usleep(50000); /* until the first thread has ended */
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    _exit(0);
    return arg;
}

static void *relay(void *arg)
{
    size_t left = (size_t)arg;
    pthread_t next;

    if (pthread_create(&next, NULL, left ? relay : last, (void *)(left - 1)) != 0)
        _exit(1);
    pthread_detach(next);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    pthread_t thread;
    char byte;

    if (strcmp(mode, "relay") == 0)
        relay((void *)RELAYS);
    else if (pthread_create(&thread, NULL, last, NULL) != 0)
        return 1;
    if (strcmp(mode, "later") == 0 && read(0, &byte, 1) != 1)
        return 1;
    if (strcmp(mode, "exit") == 0)
        syscall(SYS_exit, 0);
    pthread_exit(NULL);
}
