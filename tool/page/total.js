/* SPDX-License-Identifier: Apache-2.0 */
/* What the page says of the total: its interval, and what has no sample. */

/* The interval of a set, as text. open: the set may have blocks without a sample. */
function intervalText(sums, open) {
    if (!profile.isSampled(state.metric))
        return "interval not known";
    const interval =
        intervalOf(sums, open ? profile.unseenWeight(state.metric, state.filter) : 0);

    if (!interval)
        return "interval not known";
    const samples = formatCount(sums.samples) + (sums.samples === 1 ? " sample" : " samples");
    return `95 % interval ${formatInterval(interval, metricOf().unit)}, ${samples}`;
}

function refreshTotal() {
    element("note").textContent = data.note || "";
    const {unit} = metricOf(), missed = element("missed");

    if (comparison) {
        [element("total").textContent, element("interval").textContent, missed.textContent] =
            comparison.totalTexts();
        return;
    }
    element("total").textContent = amount(all.value);
    element("interval").textContent = intervalText(all, true) +
        (all.life ? `; ${lifeText(all)}` : "");
    if (!profile.isSampled(state.metric))
        missed.textContent = "These numbers have no intervals: the file does not say from which " +
            "samples they are.";
    else if (all.unknown)
        missed.textContent = "These numbers have no intervals: some do not fit with the sampling " +
            "interval, as in files of other programs.";
    else if (profile.period <= 0)
        missed.textContent = "Sampling was off at the end, so what has no sample is not known.";
    else if (profile.unseenWeight(state.metric, state.filter) === 0)
        missed.textContent = "Every such block was sampled: the numbers are exact.";
    else
        missed.textContent = missedText(unit);
    if (data.events)
        missed.textContent = "What the trace saw allocated and not freed. " +
            missed.textContent;
}

/* What has no sample, and the interval that would tell more. */
function missedText(unit) {
    const none = intervalOf(new SumsTable(1).get(0),
                            profile.unseenWeight(state.metric, state.filter));
    const text = `What has no sample is not shown: a function may hold up to ` +
        `${amount(none.high)} without one (95 %)` +
        (unit === "bytes" ? `, which is ${fixed(none.high / profile.period, 1)} sampling ` +
                            `intervals of ${formatBytes(profile.period)}.` : ".");
    const held = (all.certain + all.known + all.mean) || none.high;
    const better = 2 ** Math.floor(Math.log2(held / 200));

    if (unit !== "bytes" || all.samples >= 50 || better >= profile.period || better < 64)
        return text;
    return `${text} With SALLOC_CONF=sample_interval:${better}, ` + (all.samples
        ? "there would be 200 samples or more."
        : `it would be ${formatBytes(none.high * better / profile.period)} at most.`);
}
