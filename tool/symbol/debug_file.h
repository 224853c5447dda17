/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debug information of programs and libraries, found by elfutils: in the file that a profile
 * names, in a separate one (/usr/lib/debug/.build-id, .gnu_debuglink), or from a debuginfod server
 * where DEBUGINFOD_URLS is set. Only a file of the mapping's build id is used.
 */
#ifndef SA_TOOL_SYMBOL_DEBUG_FILE_H
#define SA_TOOL_SYMBOL_DEBUG_FILE_H

#include "tool/file/profile_file.h"

#include <elfutils/libdwfl.h>

/* A file, whose addresses are those of its own program headers. All zero: there is none. */
struct sa_debug_file {
    Dwfl *dwfl;
    Dwfl_Module *module;
    const GElf_Phdr *segments; /* PT_LOAD */
    size_t segment_count;
};

/*
 * Opens the file of a mapping. root: a folder under which its path is looked up first, or NULL.
 * time_ns: when the mapping was there, which decides where neither it nor the file has a build id.
 * False: there is none. If the path is another file now, stderr says so.
 */
bool sa_debug_file_open(struct sa_debug_file *ret, const struct sa_file_mapping *mapping,
                        const char *root, int64_t time_ns);
/* The debug information of an open file, or NULL. */
Dwarf *sa_debug_file_dwarf(struct sa_debug_file *file, Dwarf_Addr *ret_bias);

/* Whether there was no memory for a file or its debug information since this process began. */
bool sa_debug_file_lacks_memory(void);

void sa_debug_file_close(struct sa_debug_file *file);

/* The file's own address of one in a mapping. False: no segment of the file has it. */
bool sa_debug_file_address(const struct sa_debug_file *file, const struct sa_file_mapping *mapping,
                           uint64_t address, Dwarf_Addr *ret);

#endif
