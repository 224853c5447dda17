/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a target; see state.h. This program has those of the library, but not its
 * maintenance thread, whose choice is here, and not its handlers of signals: here is what it has
 * last found of them. */
#include "tool/stats/state.h"

#include "alloc/api/control/background.h"
#include "alloc/api/options/options_text.h"
#include "alloc/api/control/output.h"
#include "alloc/os/rseq.h"

#include <string.h>

#define REASON_MAX 128

static sa_option_thread choice;
static uint32_t replaced;

sa_option_thread sa_background_choice(void)
{
    return choice;
}

bool sa_output_signal_is_replaced(enum sa_option_key key)
{
    return replaced >> (key == SA_OPTION_KEY_profile_signal) & 1;
}

/* Whoever prints a path looks for its end. */
static void end_paths(void)
{
    for (size_t i = 0; i < SA_OPTIONS; i++) {
        sa_option_path *path = (sa_option_path *)((char *)&sa_options + sa_option_infos[i].offset);

        if (sa_option_infos[i].kind == SA_OPTION_path)
            path->text[sizeof(path->text) - 1] = '\0';
    }
}

/* Why the caches are of threads: a constant text of the target's. */
static void take_reason(struct sa_state *s)
{
    static char reason[REASON_MAX];
    uint64_t address = sa_state_word(s, sa_state_place(s, "sa_rseq", "struct sa_rseq", "reason"));

    for (size_t i = 0; address && i + 1 < sizeof(reason); i++) {
        char c = 0;

        if (!sa_target_read(s->target, address + i, &c, 1) || !c)
            break;
        reason[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    sa_rseq.reason = reason[0] ? reason : NULL;
}

/* Which signals have other handlers. A library before 0.3 does not note it. */
static void take_replaced(struct sa_state *s)
{
    struct sa_error none = {SA_EXIT_DONE, ""};
    uint64_t place = sa_table_variable(s->table, "output", &none);
    uint64_t at = sa_table_constant(s->table, "=output.replaced", &none);

    replaced = 0;
    if (!none.code && at >> 32 == sizeof(replaced) &&
        !sa_target_read(s->target, place + (uint32_t)at, &replaced, sizeof(replaced)))
        replaced = 0;
}

bool sa_state_take_options(struct sa_state *s)
{
    uint64_t place = sa_table_variable(s->table, "background", s->e);
    uint64_t at = sa_table_constant(s->table, "=background.choice", s->e);

    if (s->e->code)
        return false;
    if (at >> 32 != sizeof(choice) ||
        !sa_target_read(s->target, place + (uint32_t)at, &choice, sizeof(choice)))
        return sa_state_damaged(s, "the maintenance thread");
    take_replaced(s);
    end_paths();
    take_reason(s);
    return !s->e->code;
}
