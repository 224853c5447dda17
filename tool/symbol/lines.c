/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of addresses; see lines.h. Compilers differ in which indexes they write, so the ranges of
 * units are collected once for each file, and those of functions once for each unit that has an
 * address. Below a function only the blocks and inlined calls around the address are looked at.
 * Entries of a unit are visited at growing offsets only, so a damaged file ends every search.
 */
#include "tool/symbol/lines.h"

#include "tool/base/array.h"
#include "tool/symbol/debug_file.h"
#include "tool/symbol/qualified.h"

#include <dwarf.h>

#define DEPTH_MAX 200 /* of entries of debug information in each other */

/* Linkers leave the ranges of code that they have dropped near 0, where a file has its header. */
#define CODE_MIN sizeof(Elf64_Ehdr)

/* Addresses [low, high) of a unit, or of a function. */
struct range {
    Dwarf_Addr low, high;
    Dwarf_Die die;
    size_t unit; /* of a unit's range: its index */
};

struct ranges {
    struct range *of;
    size_t count, cap;
};

struct unit {
    Dwarf_Die die;   /* has the lines */
    Dwarf_Die inner; /* has the functions: another one if these are in a file of their own */
    const char *folder;
    bool read;
    struct ranges functions;
};

/* A program or library. */
struct module {
    const char *path, *build_id;
    struct sa_debug_file file;
    Dwarf_Addr bias; /* of the addresses of its debug information */
    struct unit *units;
    size_t unit_count, unit_cap;
    struct ranges ranges;
};

struct sa_lines {
    const struct sa_profile_file *profile;
    const char *root;
    struct module *modules;
    size_t module_count;
    struct sa_qualified names;
    uint32_t *of_mapping; /* index of the module, or SA_FILE_NONE: not looked for yet */
};

struct sa_lines *sa_lines_open(const struct sa_profile_file *profile, const char *root)
{
    struct sa_lines *l = calloc(1, sizeof(*l));
    size_t most = (size_t)profile->mapping_count + 1;

    if (!l)
        return NULL;
    l->profile = profile;
    l->root = root;
    l->modules = calloc(most, sizeof(*l->modules));
    l->of_mapping = malloc(most * sizeof(*l->of_mapping));
    if (!l->modules || !l->of_mapping) {
        sa_lines_close(l);
        return NULL;
    }
    memset(l->of_mapping, 0xff, most * sizeof(*l->of_mapping));
    return l;
}

void sa_lines_close(struct sa_lines *l)
{
    for (size_t i = 0; i < l->module_count; i++) {
        struct module *m = &l->modules[i];

        for (size_t k = 0; k < m->unit_count; k++)
            free(m->units[k].functions.of);
        free(m->units);
        free(m->ranges.of);
        sa_debug_file_close(&m->file);
    }
    sa_qualified_free(&l->names);
    free(l->modules);
    free(l->of_mapping);
    free(l);
}

static int range_order(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    return x->low < y->low ? -1 : x->low > y->low;
}

/* Adds all ranges of an entry. */
static void add_ranges(struct ranges *to, Dwarf_Die *die, size_t unit)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t next = 0;

    while ((next = dwarf_ranges(die, next, &base, &low, &high)) > 0) {
        if (low < CODE_MIN || high <= low)
            continue;
        if (!sa_array_room(&to->of, &to->cap, to->count + 1, sizeof(*to->of), 64))
            return;
        to->of[to->count++] = (struct range){low, high, *die, unit};
    }
}

static const struct range *find_range(const struct ranges *r, Dwarf_Addr at)
{
    size_t from = 0, to = r->count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (r->of[middle].low <= at)
            from = middle + 1;
        else
            to = middle;
    }
    return from && at < r->of[from - 1].high ? &r->of[from - 1] : NULL;
}

static void read_units(struct module *m)
{
    Dwarf *dwarf = sa_debug_file_dwarf(&m->file, &m->bias);
    Dwarf_Attribute attribute;
    Dwarf_CU *unit = NULL;
    Dwarf_Die die, inner;
    uint8_t type;

    while (dwarf && dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, &inner) == 0) {
        bool split = type == DW_UT_skeleton && inner.addr;

        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        if (!sa_array_room(&m->units, &m->unit_cap, m->unit_count + 1, sizeof(*m->units), 64))
            return;
        m->units[m->unit_count] = (struct unit){.die = die, .inner = split ? inner : die};
        m->units[m->unit_count].folder =
            dwarf_formstring(dwarf_attr(&die, DW_AT_comp_dir, &attribute));
        add_ranges(&m->ranges, &die, m->unit_count++);
    }
    if (m->ranges.count)
        qsort(m->ranges.of, m->ranges.count, sizeof(*m->ranges.of), range_order);
}

/* Adds the functions below an entry. *last: the largest offset so far. */
static void read_functions(struct ranges *to, Dwarf_Die *parent, Dwarf_Off *last, int depth)
{
    Dwarf_Die die;
    int more;

    if (depth > DEPTH_MAX)
        return;
    for (more = dwarf_child(parent, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
        Dwarf_Off offset = dwarf_dieoffset(&die);

        if (offset <= *last)
            return;
        *last = offset;
        if (dwarf_tag(&die) == DW_TAG_subprogram)
            add_ranges(to, &die, 0);
        if (dwarf_haschildren(&die) > 0)
            read_functions(to, &die, last, depth + 1);
    }
}

static void read_unit(struct unit *unit)
{
    Dwarf_Off last = dwarf_dieoffset(&unit->inner);

    unit->read = true;
    read_functions(&unit->functions, &unit->inner, &last, 0);
    if (unit->functions.count)
        qsort(unit->functions.of, unit->functions.count, sizeof(*unit->functions.of), range_order);
}

static bool has_range(Dwarf_Die *die)
{
    return dwarf_hasattr(die, DW_AT_ranges) || dwarf_hasattr(die, DW_AT_low_pc);
}

/* Finds the inlined calls around an address, the outermost first; their number. */
static unsigned find_inlined(Dwarf_Die *parent, Dwarf_Addr at, Dwarf_Die *ret, unsigned count,
                             Dwarf_Off *last, int depth)
{
    Dwarf_Die die;
    int more;

    if (depth > DEPTH_MAX)
        return count;
    for (more = dwarf_child(parent, &die); more == 0; more = dwarf_siblingof(&die, &die)) {
        Dwarf_Off offset = dwarf_dieoffset(&die);
        int tag = dwarf_tag(&die);
        unsigned found;

        if (offset <= *last)
            return count;
        *last = offset;
        if (tag == DW_TAG_inlined_subroutine && dwarf_haspc(&die, at) > 0) {
            if (count == SA_LINES_MAX - 1)
                return count;
            ret[count] = die;
            return find_inlined(&die, at, ret, count + 1, last, depth + 1);
        }
        if (tag != DW_TAG_lexical_block || (has_range(&die) && dwarf_haspc(&die, at) <= 0))
            continue;
        found = find_inlined(&die, at, ret, count, last, depth + 1);
        if (found > count)
            return found;
    }
    return count;
}

static const char *text_of(Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;

    return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

static const char *linkage_name(Dwarf_Die *die)
{
    const char *name = text_of(die, DW_AT_linkage_name);

    return name ? name : text_of(die, DW_AT_MIPS_linkage_name);
}

static bool is_c(Dwarf_Die *unit)
{
    int language = dwarf_srclang(unit);

    return language == DW_LANG_C89 || language == DW_LANG_C || language == DW_LANG_C99 ||
           language == DW_LANG_C11;
}

/* The symbol that has an address, or NULL. */
static const char *symbol_name(const struct module *m, Dwarf_Addr address)
{
    const char *name;
    GElf_Off offset;
    GElf_Sym symbol;

    name = dwfl_module_addrinfo(m->file.module, address, &offset, &symbol, NULL, NULL, NULL);
    return name && *name && GELF_ST_TYPE(symbol.st_info) == STT_FUNC && offset < symbol.st_size
               ? name
               : NULL;
}

/* The mangled name of a function, or the plain one of C. */
static const char *own_name(struct unit *unit, Dwarf_Die *function)
{
    const char *name = linkage_name(function);

    return !name && is_c(&unit->die) ? dwarf_diename(function) : name;
}

/* Where an inlined function was called. */
static void set_call(struct unit *unit, Dwarf_Die *inlined, struct sa_line *ret)
{
    Dwarf_Attribute attribute;
    Dwarf_Word number;
    Dwarf_Files *files;
    size_t count;

    *ret = (struct sa_line){.folder = unit->folder};
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &number) == 0 &&
        number <= INT32_MAX)
        ret->line = (int)number;
    if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) == 0 &&
        dwarf_getsrcfiles(&unit->inner, &files, &count) == 0 && number < count)
        ret->file = dwarf_filesrc(files, number, NULL, NULL);
}

static void set_line(struct unit *unit, Dwarf_Addr at, struct sa_line *ret)
{
    Dwarf_Line *line = dwarf_getsrc_die(&unit->die, at);

    *ret = (struct sa_line){.folder = unit->folder};
    ret->file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (line && (dwarf_lineno(line, &ret->line) != 0 || ret->line < 0))
        ret->line = 0;
}

static unsigned find_in_unit(struct sa_qualified *names, const struct module *m, struct unit *unit,
                             Dwarf_Addr address, struct sa_line ret[SA_LINES_MAX])
{
    Dwarf_Addr at = address - m->bias;
    const struct range *function;
    Dwarf_Die die, inlined[SA_LINES_MAX];
    unsigned count = 0;
    Dwarf_Off last;

    if (!unit->read)
        read_unit(unit);
    function = find_range(&unit->functions, at);
    set_line(unit, at, &ret[0]);
    if (!function) {
        ret[0].name = symbol_name(m, address);
        return ret[0].name || ret[0].file ? 1 : 0;
    }
    die = function->die;
    last = dwarf_dieoffset(&die);
    count = find_inlined(&die, at, inlined, 0, &last, 0);
    for (unsigned i = 0; i < count; i++) {
        Dwarf_Die *inner = &inlined[count - 1 - i];

        ret[i].name = own_name(unit, inner);
        if (!ret[i].name)
            ret[i].name = sa_qualified_name(names, inner);
        set_call(unit, inner, &ret[i + 1]);
    }
    ret[count].name = own_name(unit, &die);
    if (!ret[count].name) /* its symbol says more: it has the types of parameters */
        ret[count].name = symbol_name(m, address);
    if (!ret[count].name)
        ret[count].name = sa_qualified_name(names, &die);
    return count + 1;
}

/* The module of a mapping: one for all mappings of a file. */
static struct module *module_of(struct sa_lines *l, uint32_t mapping)
{
    const struct sa_file_mapping *m = &l->profile->mappings[mapping];
    uint32_t i = l->of_mapping[mapping];
    struct module *new;

    for (uint32_t k = 0; i == SA_FILE_NONE && k < l->module_count; k++)
        if (strcmp(l->modules[k].path, m->file) == 0 &&
            strcmp(l->modules[k].build_id, m->build_id) == 0)
            i = k;
    if (i == SA_FILE_NONE) {
        i = (uint32_t)l->module_count++;
        new = &l->modules[i];
        *new = (struct module){.path = m->file, .build_id = m->build_id};
        if (sa_debug_file_open(&new->file, m, l->root, l->profile->time_ns))
            read_units(new);
    }
    l->of_mapping[mapping] = i;
    return &l->modules[i];
}

unsigned sa_lines_find(struct sa_lines *l, const struct sa_file_location *location,
                       struct sa_line ret[SA_LINES_MAX])
{
    const struct range *range;
    struct module *m;
    Dwarf_Addr address;

    if (location->mapping == SA_FILE_NONE)
        return 0;
    m = module_of(l, location->mapping);
    if (!m->file.module ||
        !sa_debug_file_address(&m->file, &l->profile->mappings[location->mapping],
                               location->address, &address))
        return 0;
    range = find_range(&m->ranges, address - m->bias);
    if (range)
        return find_in_unit(&l->names, m, &m->units[range->unit], address, ret);
    ret[0] = (struct sa_line){.name = symbol_name(m, address)};
    return ret[0].name ? 1 : 0;
}
