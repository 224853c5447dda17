/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares rules for leaving frames (sampling/stack/unwind_cfi.h) with another reader of the same
 * tables. Standard input has a line for each address of the library given: the address in
 * hexadecimal, then where the CFA, rbp and the return address are, in the words of readelf
 * --debug-dump=frames-interp. usage: rules LIBRARY
 */
#include "sampling/stack/unwind_cfi.h"
#include "test/outside/check.h"

#include <link.h>

static const char *name_of(uint64_t rule, char *cfa, char *rbp)
{
    int16_t rbp_offset = (int16_t)(rule >> 16);
    int32_t cfa_offset = (int32_t)(rule >> 32);

    if ((rule & SA_RULE_KIND) != SA_RULE_FRAME)
        return "another kind";
    if (rule & SA_RULE_CFA_STORED)
        strcpy(cfa, "exp");
    else
        sprintf(cfa, "%s%+d",
                rule & SA_RULE_CFA_RBP   ? "rbp"
                : rule & SA_RULE_CFA_R10 ? "r10"
                                         : "rsp",
                cfa_offset);
    strcpy(rbp, rule & SA_RULE_RBP_AT_RBP ? "exp" : "u");
    if (rule & SA_RULE_RBP_AT_CFA)
        sprintf(rbp, "c%+d", rbp_offset);
    return "a frame";
}

/* Whether a rule says what the table says. */
static bool is_right(uint64_t rule, const char *cfa, const char *rbp, const char *ra)
{
    char our_cfa[32] = "", our_rbp[32] = "";
    bool simple = strncmp(cfa, "rsp", 3) == 0 || strncmp(cfa, "rbp", 3) == 0;

    name_of(rule, our_cfa, our_rbp);
    if (strcmp(ra, "u") == 0)
        return (rule & SA_RULE_KIND) == SA_RULE_END;
    switch (rule & SA_RULE_KIND) {
    case SA_RULE_OTHER: /* expressions, and registers that are not followed */
        return !simple;
    case SA_RULE_SIGNAL:
        return strcmp(cfa, "exp") == 0 && strcmp(rbp, "exp") == 0 && strcmp(ra, "exp") == 0;
    case SA_RULE_FRAME:
        /* An expression that is in the form of a register and a number here is the PLT's. */
        return strcmp(ra, "c-8") == 0 &&
               (strcmp(our_cfa, cfa) == 0 ||
                (strcmp(cfa, "exp") == 0 &&
                 (strcmp(our_cfa, "rsp+8") == 0 || strcmp(our_cfa, "rsp+16") == 0))) &&
               (strcmp(our_rbp, rbp) == 0 || (strcmp(our_rbp, "u") == 0 && strcmp(rbp, "s") == 0));
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    const struct link_map *map = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    struct sa_unwind_object object;
    unsigned long rows = 0, other = 0, address;
    char line[256], cfa[32], rbp[32], ra[32];

    REQUIRE(map);
    REQUIRE(sa_unwind_object_find((uintptr_t)map->l_ld, &object));
    while (fgets(line, sizeof(line), stdin)) {
        uint64_t rule;

        REQUIRE(sscanf(line, "%lx %31s %31s %31s", &address, cfa, rbp, ra) == 4);
        rule = sa_unwind_rule(&object, object.bias + address);
        rows++;
        other += (rule & SA_RULE_KIND) == SA_RULE_OTHER;
        CHECK_SAYS(is_right(rule, cfa, rbp, ra), "%#lx: rule %#lx for %s %s %s", address,
                   (unsigned long)rule, cfa, rbp, ra);
    }
    CHECK_SAYS(rows > 1000, "%lu rows", rows);
    CHECK_SAYS(other < rows / 20, "%lu of %lu rows have no rule", other, rows);
    check_say("%s: %lu rows, %lu for libgcc", argv[1], rows, other);
    return check_end();
}
