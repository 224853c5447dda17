/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, times and sizes as people write them: in options and in requests. No state. */
#ifndef SA_TOOL_BASE_UNITS_H
#define SA_TOOL_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define SA_UNITS_TIME "a number of seconds, or with a unit, as 200ms, 1s, 5m" /* for messages */

/*
 * Parses a time: a number, with digits behind a point or without, and a unit: us, ms, s, m
 * (minutes), h or d; without one it is in seconds. Several may follow each other, as 1m30s. False:
 * it is none, or above 10 years.
 */
bool sa_units_time(const char *text, double *ret_seconds);

/* Parses digits. False: there is something else, or the number is above `most`. */
bool sa_units_number(const char *text, uint64_t most, uint64_t *ret);

/* Parses a size as the options of the library do: digits, and k, m or g for 2^10, 2^20 and 2^30
 * bytes. False: it is none, or above 2^64 - 1. */
bool sa_units_bytes(const char *text, uint64_t *ret);

#endif
