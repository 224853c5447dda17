/* SPDX-License-Identifier: Apache-2.0 */
/* The second file of inlined.cc. */
#ifndef SA_TEST_TOOL_INLINED_H
#define SA_TEST_TOOL_INLINED_H

#include <stddef.h>

char *other_file(size_t bytes);

#endif
