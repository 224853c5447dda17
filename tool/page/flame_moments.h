/* SPDX-License-Identifier: Apache-2.0 */
/* The time line of a page. */
#ifndef SA_TOOL_PAGE_FLAME_MOMENTS_H
#define SA_TOOL_PAGE_FLAME_MOMENTS_H

#include "tool/page/flame_frames.h"
#include "tool/page/page_writer.h"
#include "tool/reading/moments.h"

/*
 * Puts, as the page's key "moments":
 *
 *   times    milliseconds since 1970
 *   unseen   pairs: bytes and blocks that a sample of the rarest blocks stands for
 *   changes  for each moment pairs: how many rows further on, and how many samples that row has
 *            from then on
 */
void sa_flame_put_moments(struct sa_page_writer *to, const struct sa_moments *m,
                          const struct sa_flame_frames *frames);

#endif
