/* SPDX-License-Identifier: Apache-2.0 */
/* Names of threads, for the files of profiles. */
#ifndef SA_SAMPLING_RECORD_THREAD_NAME_H
#define SA_SAMPLING_RECORD_THREAD_NAME_H

#include <stddef.h>
#include <stdint.h>

#define SA_THREAD_NAME_BYTES 64

struct sa_profile_origin;

/*
 * Reads the kernel's name of a thread of the process that a profile is of; NULL: of this one. A
 * thread that has ended or has no name is named by its number. The result is valid UTF-8, and
 * terminated. Makes system calls.
 */
void sa_thread_name_in(const struct sa_profile_origin *origin, uint32_t tid,
                       char ret[SA_THREAD_NAME_BYTES]);

#endif
