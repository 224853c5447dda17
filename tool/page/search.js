/* SPDX-License-Identifier: Apache-2.0 */
/* What is highlighted: the functions that a search finds, or those of a row of the table. */

/* A predicate of names: part of the name, in any case; a regular expression between slashes. Throws
 * a SyntaxError for one that is none. */
function matcherOf(query) {
    const regexp = /^\/(.*)\/([iu]*)$/s.exec(query) || /^\/(.+)$/s.exec(query);

    if (regexp) {
        const compiled = new RegExp(regexp[1], regexp[2] || "");

        return (name) => compiled.test(name);
    }
    const part = query.toLowerCase();
    return (name) => name.toLowerCase().includes(part);
}

/* {isFrame, isName, count}: for each frame and each name whether it is found. */
function findNames(profile, matches) {
    const isName = Uint8Array.from(profile.names, (name) => matches(name || "[unknown]") ? 1 : 0);

    return {isName, isFrame: Uint8Array.from(profile.nameOf, (name) => isName[name]),
            count: isName.reduce((sum, is) => sum + is, 0)};
}

function findLibrary(profile, library) {
    return {isName: null, count: 1,
            isFrame: Uint8Array.from(profile.libraryOf, (of) => of === library ? 1 : 0)};
}
