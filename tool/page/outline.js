/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph for screen readers, and for keys: a tree of the elements around the focused node,
 * which are its callers, its neighbours and what it calls. A canvas alone says nothing.
 */

const OUTLINE_MOST = 60; /* neighbours, and children, that are listed */

class Outline {
    /* area: the element of the role tree, which has the focus. list: its hidden part. */
    constructor(area, list) {
        this.area = area;
        this.list = list;
    }

    show(tree, focus, describe) {
        const path = tree.path(focus), items = [];

        for (const node of path)
            if (node !== focus)
                items.push(this.item(tree, node, focus, true, describe));
        const around = focus ? this.around(tree.children(tree.parent[focus]), focus) : [focus];
        for (const node of around) {
            items.push(this.item(tree, node, focus, node === focus, describe));
            if (node === focus)
                for (const child of tree.children(node).slice(0, OUTLINE_MOST))
                    items.push(this.item(tree, child, focus, false, describe));
        }
        this.list.replaceChildren(...items);
        this.area.setAttribute("aria-activedescendant", "node-" + focus);
    }

    around(list, node) {
        const at = list.indexOf(node), from = Math.max(0, at - OUTLINE_MOST / 2);

        return at < 0 ? [node] : list.slice(from, from + OUTLINE_MOST);
    }

    item(tree, node, focus, open, describe) {
        const element = document.createElement("div"), children = tree.children(node);
        const siblings = node ? tree.children(tree.parent[node]) : [node];

        element.id = "node-" + node;
        element.setAttribute("role", "treeitem");
        element.setAttribute("aria-level", tree.level[node] + 1);
        element.setAttribute("aria-setsize", siblings.length);
        element.setAttribute("aria-posinset", siblings.indexOf(node) + 1);
        element.setAttribute("aria-selected", String(node === focus));
        if (children.length)
            element.setAttribute("aria-expanded", String(open));
        element.textContent = describe(node);
        return element;
    }
}

/* The node that a key leads to, in the geometry of the graph, or null. */
function nodeByKey(tree, node, zoom, key) {
    const children = tree.children(node);

    if (key === "ArrowDown")
        return children.length ? children[0] : null;
    if (key === "ArrowUp")
        return node ? tree.parent[node] : null;
    if (key === "Home")
        return 0;
    if (key === "ArrowLeft" || key === "ArrowRight") {
        const siblings = node && node !== zoom ? tree.children(tree.parent[node]) : [node];
        const next = siblings[siblings.indexOf(node) + (key === "ArrowLeft" ? -1 : 1)];

        return next === undefined ? null : next;
    }
    return null;
}
