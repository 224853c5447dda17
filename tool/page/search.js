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

/*
 * What is highlighted: isFrame says which boxes, isPlace which stacks are added up. They differ for
 * a line of a function that has more.
 */
function highlight(profile, isFrame, isPlace) {
    return {isFrame, isPlace: isPlace || profile.frameOf.map((frame) => isFrame[frame])};
}

/* With {isName, count}: which names are found, and how many. */
function findNames(profile, matches) {
    const isName = Uint8Array.from(profile.names, (name) => matches(name || "[unknown]") ? 1 : 0);

    return {isName, count: isName.reduce((sum, is) => sum + is, 0),
            ...highlight(profile, profile.nameOf.map((name) => isName[name]))};
}

/* What a row of the table has: a function, a library, a line. */
function findRow(profile, {rows, key, title}) {
    const {nameOf, libraryOf, frameOf} = profile;

    if (rows !== "lines")
        return highlight(profile, (rows === "functions" ? nameOf : libraryOf)
            .map((of) => of === key ? 1 : 0));
    const isFrame = new Uint8Array(nameOf.length);
    const isPlace = frameOf.map((frame, place) => lineTitle(profile, place) === title ? 1 : 0);
    isPlace.forEach((is, place) => { isFrame[frameOf[place]] |= is; });
    return highlight(profile, isFrame, isPlace);
}
