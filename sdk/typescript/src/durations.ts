/** Spans of time, as the API writes them: `1500ms`, `2s`, `1h30m`. */

/** A span of time: milliseconds, or text such as `"90s"` or `"1h30m"`. */
export type Duration = number | string;

const UNITS_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The span in milliseconds. */
export function durationMs(span: Duration): number {
  if (typeof span === "number") {
    if (!Number.isFinite(span) || span < 0) throw new RangeError(`a span of time is a number from 0 on, not ${span}`);
    return Math.round(span);
  }
  if (!/^(\d+(ms|s|m|h|d))+$/.test(span)) {
    throw new RangeError(`${JSON.stringify(span)} is no span of time; write 1500ms, 90s or 1h30m`);
  }
  let total = 0;
  for (const [, digits, unit] of span.matchAll(/(\d+)(ms|s|m|h|d)/g)) total += Number(digits) * UNITS_MS[unit!]!;
  return total;
}

/** The span as the API reads it. */
export function durationText(span: Duration): string {
  return typeof span === "number" ? `${durationMs(span)}ms` : span;
}
