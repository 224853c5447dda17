/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flame graph on a canvas, the root at the top. The canvas covers only what is visible of the
 * scrolled area, so depth costs nothing. Boxes narrower than NARROW are drawn as one light box.
 */

const ROW = 20; /* pixels of a level */
const NARROW = 0.8; /* pixels */
const HATCH = 8; /* pixels from line to line, of frames that chance may explain */
const FONT =
    "12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const HUES = 8; /* libraries of their own colour; see page.css */
const SHADES = 3; /* of a colour, by the function's name */

class FlameView {
    constructor(area, canvas, sizer) {
        this.area = area;
        this.canvas = canvas;
        this.sizer = sizer;
        this.context = canvas.getContext("2d");
        this.rows = [];
        this.labels = new Map();
    }

    /* paint: null, or what a comparison has: {color, label, isHatched} of nodes. */
    setPaint(paint) {
        this.paint = paint;
    }

    /* Reads the colours of the theme. */
    setTheme() {
        const style = getComputedStyle(document.documentElement);
        const color = (name) => style.getPropertyValue(name).trim();

        this.color = {};
        for (const name of ["ground", "box-text", "dim-text", "match", "match-text", "focus",
                            "root", "rest", "text", "more", "less", "chance"])
            this.color[name] = color("--" + name);
        this.palette = [];
        for (let hue = 0; hue <= HUES; hue++)
            for (let shade = 0; shade < SHADES; shade++)
                this.palette.push(this.shaded(color("--library-" + hue), shade));
        this.hatch = this.makeHatch();
        this.labels.clear();
    }

    /* A colour "hue saturation lightness" of the style, a little lighter for each shade. */
    shaded(color, shade) {
        const [hue, saturation, lightness] = color.split(" ").map(parseFloat);

        return `hsl(${hue} ${saturation}% ${lightness + 3.5 * shade}%)`;
    }

    makeHatch() {
        const tile = document.createElement("canvas"), context = tile.getContext("2d");

        tile.width = tile.height = HATCH;
        context.strokeStyle = this.color.ground;
        context.lineWidth = 2.5;
        context.globalAlpha = 0.6;
        for (const at of [-HATCH, 0, HATCH]) {
            context.beginPath();
            context.moveTo(at - 1, HATCH + 1);
            context.lineTo(at + HATCH + 1, -1);
            context.stroke();
        }
        return this.context.createPattern(tile, "repeat");
    }

    setTree(tree, hueOf) {
        this.tree = tree;
        this.hueOf = hueOf;
    }

    colorOf(node) {
        const {profile, frame} = this.tree, of = frame[node];

        if (this.paint)
            return this.paint.color(node);
        const hue = this.hueOf[profile.libraryOf[of]];

        return this.palette[hue * SHADES + (profile.nameOf[of] * 7 % 11) % SHADES];
    }

    /* Places the boxes of the visible rows: the zoomed node over the whole width, what calls it
     * above, what it calls below. */
    place(zoom) {
        const {tree} = this, width = this.area.clientWidth;
        const first = Math.floor(this.area.scrollTop / ROW);
        const last = Math.ceil((this.area.scrollTop + this.area.clientHeight) / ROW);
        const all = tree.width(zoom), scale = all > 0 ? width / all : 0;
        const todo = [{node: zoom, x: 0, width}];

        this.rows = [];
        const put = (level, box) => (this.rows[level] ||= []).push(box);
        for (const node of tree.path(zoom))
            if (node !== zoom)
                put(tree.level[node], {node, x: 0, width, above: true});
        while (todo.length) {
            const box = todo.pop(), level = tree.level[box.node], below = [];
            let x = box.x, rest = 0;

            if (level >= first)
                put(level, box);
            if (level >= last)
                continue;
            for (const child of tree.children(box.node)) {
                const wide = tree.width(child) * scale;

                if (wide < NARROW) {
                    rest += wide;
                    continue;
                }
                below.push({node: child, x, width: wide});
                x += wide;
            }
            for (let i = below.length; i-- > 0;)
                todo.push(below[i]);
            if (rest >= NARROW && level + 1 >= first)
                put(level + 1, {node: -1, x, width: rest, of: box.node});
        }
    }

    draw(state) {
        const {area, canvas, context} = this, ratio = window.devicePixelRatio || 1;
        const width = area.clientWidth, height = area.clientHeight;

        this.sizer.style.height = (this.tree.shape.deepest + 1) * ROW + "px";
        if (canvas.width !== Math.round(width * ratio) ||
            canvas.height !== Math.round(height * ratio)) {
            canvas.width = Math.round(width * ratio);
            canvas.height = Math.round(height * ratio);
            canvas.style.width = width + "px";
            canvas.style.height = height + "px";
        }
        this.place(state.zoom);
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, height);
        context.font = FONT;
        context.textBaseline = "middle";
        this.character ||= context.measureText("0".repeat(50)).width / 50;
        for (let level = 0; level < this.rows.length; level++)
            for (const box of this.rows[level] || [])
                this.drawBox(box, level * ROW - area.scrollTop, state);
        this.outline(state.hover, this.color.text, 1);
        if (state.focusShown)
            this.outline(state.focus, this.color.focus, 2);
    }

    drawBox(box, y, state) {
        const {context, tree, color} = this;
        const wide = box.width > 3 ? box.width - 1 : box.width;
        const matches = state.isFrame && box.node > 0 && state.isFrame[tree.frame[box.node]];

        context.globalAlpha = box.above ? 0.55 : state.isFrame && !matches ? 0.4 : 1;
        context.fillStyle = box.node < 0 ? color.rest : matches ? color.match
            : box.node ? this.colorOf(box.node) : color.root;
        context.fillRect(box.x, y, wide, ROW - 1);
        if (box.node <= 0 && box.node !== 0)
            return;
        if (!matches && wide > 2 &&
            (this.paint ? this.paint.isHatched(box.node) : tree.isWeak(box.node))) {
            context.fillStyle = this.hatch;
            context.fillRect(box.x, y, wide, ROW - 1);
        }
        if (wide > 4 * this.character)
            this.drawLabel(box, wide, y, matches);
        context.globalAlpha = 1;
    }

    drawLabel(box, wide, y, matches) {
        const {context, tree} = this, room = Math.floor((wide - 8) / this.character);
        const label = this.labelOf(box.node, room);

        context.fillStyle = matches ? this.color["match-text"] : this.color["box-text"];
        context.globalAlpha = Math.max(context.globalAlpha, 0.6);
        context.fillText(label, box.x + 4, y + ROW / 2);
        const amount = this.paint ? this.paint.label(box.node)
            : formatNumber(tree.value(box.node), this.unit);
        if (room > label.length + amount.length + 2) {
            context.globalAlpha *= 0.7;
            context.fillText(amount, box.x + wide - 4 - amount.length * this.character,
                             y + ROW / 2);
        }
    }

    /* The name; if that does not fit, without arguments, then without what it is part of. */
    labelOf(node, room) {
        let name = this.tree.name(node);

        if (name.length > room) {
            if (!this.labels.has(name))
                this.labels.set(name, shortName(name));
            name = this.labels.get(name);
        }
        for (let at; name.length > room && (at = name.indexOf("::")) >= 0;)
            name = name.slice(at + 2);
        return name.length > room ? name.slice(0, Math.max(room - 1, 1)) + "…" : name;
    }

    outline(node, color, thickness) {
        const box = this.boxOf(node), {context} = this;

        if (!box)
            return;
        context.strokeStyle = color;
        context.lineWidth = thickness;
        context.strokeRect(box.x + thickness / 2,
                           this.tree.level[node] * ROW - this.area.scrollTop + thickness / 2,
                           Math.max(box.width - 1 - thickness, 1), ROW - 1 - thickness);
    }

    boxOf(node) {
        return node >= 0 && (this.rows[this.tree.level[node]] || []).find((b) => b.node === node);
    }

    /* The box at a point of the area. */
    hit(x, y) {
        const row = this.rows[Math.floor((y + this.area.scrollTop) / ROW)] || [];

        return row.find((box) => x >= box.x && x < box.x + box.width);
    }

    /* Scrolls so that a node is visible. */
    reveal(node) {
        const y = this.tree.level[node] * ROW, {area} = this;

        if (y < area.scrollTop)
            area.scrollTop = y;
        else if (y + 2 * ROW > area.scrollTop + area.clientHeight)
            area.scrollTop = y + 2 * ROW - area.clientHeight;
    }
}

/* A name without what is between <> and (), but for operators and "(anonymous namespace)". */
function shortName(name) {
    const pairs = {"<": ">", "(": ")"};
    let result = "", depth = 0;

    for (let i = 0; i < name.length; i++) {
        const operator = /operator(?:\(\)|[<>=!-]+)/y;

        operator.lastIndex = i;
        const match = operator.exec(name);
        if (match && !depth) {
            result += match[0];
            i += match[0].length - 1;
        } else if (name.startsWith("(anonymous namespace)", i) && !depth) {
            result += "(anonymous)";
            i += 20;
        } else if (name[i] in pairs && i) {
            depth++;
        } else if ((name[i] === ">" || name[i] === ")") && depth) {
            depth--;
        } else if (!depth) {
            result += name[i];
        }
    }
    return result || name;
}

/* A hue for each library, by what it holds; the last one for the rest. */
function huesOf(profile, tree) {
    const sums = sumsByFrame(profile, tree.stackSums, profile.libraryOf, profile.libraries.length);
    const byValue = profile.libraries.map((_, i) => i).sort((a, b) =>
        sums.flat.value(b) + sums.total.value(b) - sums.flat.value(a) - sums.total.value(a) ||
        a - b);
    const hueOf = new Int32Array(profile.libraries.length).fill(HUES);

    byValue.filter((i) => !/^\[(?!generated)/.test(profile.libraries[i])).slice(0, HUES)
        .forEach((library, rank) => { hueOf[library] = rank; });
    return hueOf;
}
