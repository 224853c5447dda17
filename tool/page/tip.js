/* SPDX-License-Identifier: Apache-2.0 */
/* The tip beside the pointer, or beside the focused box: all that is known of a node. */

const TIP_SOURCES = 3; /* lines of a function that are listed */

function tipLines(node) {
    if (comparison)
        return [...comparison.lines(tree, node), ...placeLines(node)];
    const sums = tree.sumsOf(node), self = tree.self(node);
    const lines = [`${amount(sums.value)}, ${formatShare(sums.value, all.value)} of all`,
                   intervalText(sums, node === 0)];

    if (sums.life)
        lines.push(lifeText(sums));
    if (self !== 0 && self !== sums.value && !state.inverted)
        lines.push(`${amount(self)} by itself`);
    if (isWeakSums(sums))
        lines.push("Chance may explain it: fewer than 4 samples, of less than one interval.");
    return [...lines, ...placeLines(node)];
}

/* Where a node's function is. */
function placeLines(node) {
    const lines = [];

    if (!node)
        return lines;
    const sources = tree.sources(node), more = sources.length - TIP_SOURCES;
    lines.push(...sources.slice(0, TIP_SOURCES));
    if (more > 0)
        lines.push(`and ${more} more lines`);
    lines.push(tree.library(node));
    return lines;
}

/* x, y: of the pointer; without them beside the node's box. */
function showTip(node, x, y) {
    const tip = element("tip"), area = flame.area.getBoundingClientRect();

    if (tip.hidden || tip.dataset.node !== String(node))
        setTip(tip, tree.name(node), tipLines(node));
    tip.dataset.node = node;
    if (x === undefined) {
        const box = flame.boxOf(node);

        x = area.left + (box ? Math.max(box.x, 0) : 0);
        y = area.top + (tree.level[node] + 1) * ROW - flame.area.scrollTop;
    }
    placeTip(tip, x, y);
}

function placeTip(tip, x, y) {
    tip.style.left = Math.max(8, Math.min(x + 12, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (y + 16 + tip.offsetHeight > innerHeight
        ? Math.max(8, y - tip.offsetHeight - ROW - 4) : y + 16) + "px";
}

/* A tip that is not of a node. */
function showText(title, lines, x, y) {
    const tip = element("tip");

    setTip(tip, title, lines);
    tip.dataset.node = "";
    placeTip(tip, x, y);
}

function setTip(tip, title, lines) {
    const name = document.createElement("strong");

    name.textContent = title;
    tip.replaceChildren(name, ...lines.map((text) => {
        const line = document.createElement("div");

        line.textContent = text;
        return line;
    }));
    tip.hidden = false;
}

function hideTip() {
    element("tip").hidden = true;
}
