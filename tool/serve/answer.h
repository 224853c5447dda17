/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to requests, made in a child process of the server (job.h). */
#ifndef SA_TOOL_SERVE_ANSWER_H
#define SA_TOOL_SERVE_ANSWER_H

#include "tool/base/error.h"
#include "tool/serve/request.h"

/*
 * Writes the answer to stdout. False: *e says why, and stdout may have a part of it. Of all
 * processes, those are left out that this process may not read. known: a file with what an earlier
 * answer of the kind found (tool/reading/sweep_cache.h), or negative; next: one for what this one
 * finds.
 */
bool sa_serve_answer(const struct sa_serve_request *request, int known, int next,
                     struct sa_error *e);

#endif
