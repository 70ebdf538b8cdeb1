// What the peers have in common: so many calls at once, how long they took, one row of the table.

/** Runs `call(n)` for n from 0 to `count`, `atOnce` of them under way; the calls per second. */
export async function rate(count, atOnce, call) {
    let next = 0;
    const began = performance.now();
    const runner = async () => {
        while (next < count) await call(next++);
    };
    await Promise.all(Array.from({ length: atOnce }, runner));
    return count / ((performance.now() - began) / 1000);
}

/** Submits `count` jobs and waits until `ended` was called for each; jobs per second from the first submission to the last end. */
export async function whole(count, atOnce, submit, start) {
    let left = count;
    let finish;
    const all = new Promise((resolve) => { finish = resolve; });
    const stop = await start(() => { if (--left === 0) finish(); });
    const began = performance.now();
    await rate(count, atOnce, submit);
    await all;
    const perSecond = count / ((performance.now() - began) / 1000);
    await stop();
    return perSecond;
}

export function row(name, submitted, ended) {
    console.log(`| ${name} | ${Math.round(submitted)}/s | ${Math.round(ended)}/s |`);
}

export const PAYLOAD = {
    report: "monthly", format: "pdf", recipients: ["a@example.com", "b@example.com"],
    options: { locale: "en", pages: 12, colour: true, notes: "a body of about three hundred bytes, as a submission has in real life" },
};
